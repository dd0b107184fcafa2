"""Writes pyramid.json: PyTorch's results of the layers of feature pyramids.

    python pyramid.py          needs PyTorch
"""

import json
import pathlib

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


def short(t):
    """Rounds to values that the file holds exactly."""
    return torch.round(t * 1000) / 1000


def listed(maps):
    """[N, C, H, W] to [H, W, N, C], shape and values."""
    maps = maps.permute(2, 3, 0, 1)
    return {"shape": list(maps.shape), "values": [round(v, 6) for v in maps.flatten().tolist()]}


maps = short(torch.randn(2, 3, 5, 7, dtype=torch.float64))
maps[0, 0, :2, :2] = maps[1, 1, 0, 3] = maps[1, 1, 1, 2] = 2.5  # Equal maxima, all of a window and those of a diagonal.
transposed = nn.ConvTranspose2d(3, 2, 2, 2).double()
with torch.no_grad():
    for p in transposed.parameters():
        p.copy_(short(torch.randn(p.shape)))
pooled = maps.clone().requires_grad_()
F.max_pool2d(pooled, 2).sum().backward()
golden = {
    "maps": listed(maps),
    "weight": listed(transposed.weight.data.transpose(0, 1)),
    "bias": transposed.bias.tolist(),
    "transposed": listed(transposed(maps).data),
    "maximum": listed(F.max_pool2d(maps, 2)),
    "maximum_gradient": listed(pooled.grad),
    "average": {str(size): listed(F.adaptive_avg_pool2d(maps, size)) for size in (1, 2, 3, 6)},
    "nearest": {"%dx%d" % size: listed(F.interpolate(maps, size, mode="nearest")) for size in ((10, 14), (11, 9), (3, 2))},
}
pathlib.Path(__file__).with_name("pyramid.json").write_text(json.dumps(golden) + "\n")
