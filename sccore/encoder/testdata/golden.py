"""Makes golden.json: features, gradients and running statistics of PyTorch's twins of the backbones, in float64.

    python golden.py

Weights and images are values of sines, so that the file need not hold them; entry i of tensor k, in PyTorch's order of entries, is
wave(k, i). The test makes the same ones.
"""

import json
import math
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "bench"))
import step  # noqa: E402

torch.set_default_dtype(torch.float64)


def wave(k, shape):
    n = math.prod(shape)
    return torch.tensor([math.sin(12.9898 * i + 78.233 * k) for i in range(n)]).reshape(shape)


def rounded(tensor):
    return [float("%.10g" % v) for v in tensor.detach().flatten().tolist()]


def case(name, network, width):
    model, features = network(width)
    for k, (path, p) in enumerate(model.named_parameters()):
        if p.dim() == 4:
            p.data = wave(k, p.shape) * math.sqrt(4 / (p.shape[0] * p.shape[2] * p.shape[3]))
        elif path.endswith("weight"):
            p.data = 1 + 0.3 * wave(k, p.shape)
        else:
            p.data = 0.2 * wave(k, p.shape)
    images = wave(1000, (6, 3, 13, 13)).requires_grad_()
    y = model.train()(images)
    (y * wave(2000, y.shape)).sum().backward()
    trained = {path: rounded(b) for path, b in model.named_buffers() if not path.endswith("num_batches_tracked")}
    return {
        "name": name,
        "parameters": [[path, list(p.shape)] for path, p in model.named_parameters()],
        "features": rounded(y),
        "gradients": {path: rounded(p.grad)[:128] for path, p in model.named_parameters()},
        "image_gradient": rounded(images.grad[:1]),
        "running": trained,
        "inference": rounded(model.eval()(images)),
    }


cases = [case("resnet18-w2", step.resnet18, 2), case("conv4-w2", step.conv4, 2)]
with open(pathlib.Path(__file__).parent / "golden.json", "w") as file:
    json.dump(cases, file, separators=(",", ":"))
