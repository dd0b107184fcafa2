"""Writes fcn_gradient.json: gradients of the FCN head in PyTorch where many of its inputs to ReLU are exactly 0.

    python fcn_gradient.py          needs PyTorch

Biases are 0, as at the start of training. A place whose channels are all negative is then exactly 0 from there on.
"""

import json
import pathlib

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(4)
dim, classes, width, rows, columns = 4, 2, 2, 3, 3
features = torch.randn(2, dim, rows, columns)
labels = torch.randint(0, classes, (2, 8 * rows, 8 * columns))
weights, zeros = {}, 0


def convolved(name, x, out, size):
    weight = (1.5 * torch.randn(out, x.shape[1], size, size)).requires_grad_()
    bias = torch.zeros(out, requires_grad=True)
    weights[name + "weight"], weights[name + "bias"] = weight, bias
    return F.conv2d(x, weight, bias, padding=size // 2)


x = features
for i in range(3):
    for j, size in enumerate((1, 1, 3)):
        x = convolved("block%d/conv%d/" % (i, j), x, width, size)
        zeros += int((x == 0).sum())
        x = F.relu(x)
    x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
F.cross_entropy(convolved("classes/", x, classes, 1), labels).backward()
assert zeros > 20, zeros


def ours(x):
    x = x.permute(2, 3, 1, 0) if x.dim() == 4 else x
    return {"shape": list(x.shape), "values": x.flatten().tolist()}


golden = {
    "zeros": zeros, "features": features.permute(0, 2, 3, 1).tolist(), "labels": labels.tolist(),
    "weights": {name: ours(w.detach()) for name, w in weights.items()},
    "gradients": {name: ours(w.grad) for name, w in weights.items()},
}
pathlib.Path(__file__).with_name("fcn_gradient.json").write_text(json.dumps(golden) + "\n")
print(zeros)
