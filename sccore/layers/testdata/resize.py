"""Writes resize.json: PyTorch's bilinear resize of a line.

Run: python resize.py   (needs torch)
"""
import json

import torch
from torch.nn import functional

line = [1.083, -0.299, 2.108, -0.349, -1.137]
resized = {str(to): functional.interpolate(torch.tensor(line, dtype=torch.float64)[None, None], size=to, mode="linear", align_corners=False)[0, 0].tolist() for to in (3, 5, 12, 40)}
with open("resize.json", "w") as f:
    json.dump({"Line": line, "Resized": resized}, f)
    f.write("\n")
