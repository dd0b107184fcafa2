"""Writes heads.json: logits, loss and full-size classes of the segmentation heads in PyTorch.

    python heads.py          needs PyTorch
"""

import json
import pathlib

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
dim, classes, width, rows, columns = 5, 3, 4, 2, 3
features = torch.randn(2, dim, rows, columns)
labels = torch.randint(0, classes + 1, (2, 8 * rows, 8 * columns))
labels[labels == classes] = 255
sizes = [(37, 50), (9, 7)]


def fcn():
    layers, before = [], dim
    for _ in range(3):
        for size in (1, 1, 3):
            layers += [nn.Conv2d(before, width, size, padding=size // 2), nn.ReLU()]
            before = width
        layers.append(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False))
    return nn.Sequential(*layers, nn.Conv2d(width, classes, 1))


def named(network):
    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    names = ["block%d/conv%d/" % (i, j) for i in range(3) for j in range(3)] + ["classes/"] if len(convolutions) > 1 else [""]
    weights = {}
    for name, m in zip(names, convolutions, strict=True):
        weight = m.weight.permute(2, 3, 1, 0)
        weights[name + "weight"] = {"shape": list(weight.shape), "values": weight.flatten().tolist()}
        weights[name + "bias"] = {"shape": list(m.bias.shape), "values": m.bias.tolist()}
    return weights


heads = {}
for kind, network in (("linear", nn.Sequential(nn.Conv2d(dim, classes, 1))), ("fcn", fcn())):
    for p in network.parameters():
        nn.init.normal_(p, std=0.6)
    with torch.no_grad():
        logits = network(features)
        fine = F.interpolate(logits, labels.shape[1:], mode="bilinear", align_corners=False)
        maps = [F.interpolate(logits[i : i + 1], size, mode="bilinear", align_corners=False).argmax(1).flatten().tolist() for i, size in enumerate(sizes)]
        heads[kind] = {
            "weights": named(network),
            "logits": logits.permute(0, 2, 3, 1).flatten().tolist(),
            "loss": F.cross_entropy(fine, labels, ignore_index=255).item(),
            "sizes": sizes,
            "maps": maps,
        }
golden = {"features": features.permute(0, 2, 3, 1).tolist(), "labels": labels.tolist(), "heads": heads}
pathlib.Path(__file__).with_name("heads.json").write_text(json.dumps(golden) + "\n")
