"""Makes positions.json: grids of embeddings of the official encoders' sizes as PyTorch and timm resize them for the images that the paper uses.

    python positions.py

Images of 224², 448² and 336×480, and local views of 96², in patches of 16 and of 8. The grid's entry i is wave(1, i), and every seventh entry
of a result is kept.
"""

import json
import math
import pathlib

import torch
from timm.layers import resample_abs_pos_embed
from torch.nn import functional

torch.set_default_dtype(torch.float64)


def wave(k, n):
    return torch.tensor([math.sin(12.9898 * i + 78.233 * k) for i in range(n)])


def resized(grid, way, rows, columns):
    side = grid.shape[0]
    if way == "timm":
        return resample_abs_pos_embed(grid.reshape(1, -1, 1), [rows, columns], num_prefix_tokens=0).flatten()
    if (rows, columns) == (side, side):
        return grid.flatten()
    # DINO's interpolate_pos_encoding: scale factors of a grid that is 0.1 larger than it is.
    factors = ((rows + 0.1) / side, (columns + 0.1) / side)
    out = functional.interpolate(grid[None, None], scale_factor=factors, mode="bicubic")[0, 0]
    assert out.shape == (rows, columns)
    return out.flatten()


cases = []
for patch in (16, 8):
    side = 224 // patch
    grid = wave(1, side * side).reshape(side, side)
    for height, width in ((224, 224), (448, 448), (336, 480), (96, 96)):
        for way in ("dino", "timm"):
            entries = resized(grid, way, height // patch, width // patch)[::7]
            cases.append({"positions": way, "side": side, "rows": height // patch, "columns": width // patch,
                          "entries": [float("%.7g" % x) for x in entries]})
with open(pathlib.Path(__file__).parent / "positions.json", "w") as file:
    json.dump(cases, file, separators=(",", ":"))
