"""Writes roialign.json: torchvision's roi_align with aligned=True on small feature maps, one box a map.

Run: python roialign.py   (needs torch, torchvision)
"""
import json

import torch
from torchvision.ops import roi_align

torch.manual_seed(0)

# Boxes without area: no width, no height, a point in the last corner.
empty = torch.tensor([[[0.25, 0.5], [0.75, 0.5]], [[0.375, 0.125], [0.375, 1]], [[1, 1], [1, 1]]], dtype=torch.float64)

cases = []
for height, width, size, samples, area in [
    (7, 7, 7, 0, True), (14, 14, 7, 0, True), (5, 8, 3, 0, True), (5, 8, 3, 1, True), (5, 8, 4, 2, True), (5, 8, 3, 0, False), (5, 8, 3, 2, False)
]:
    features = (100 * torch.randn(3, 2, height, width, dtype=torch.float64)).round() / 100
    corners = torch.rand(3, 2, 2, dtype=torch.float64).sort(dim=1).values  # y, x of the first corner, then of the second
    corners[0] = torch.tensor([[0, 0], [1, 1]])
    corners = (corners * 256).round() / 256
    corners = corners if area else empty
    scale = torch.tensor([height, width])
    boxes = (corners * scale).flip(-1).flatten(1)  # x1, y1, x2, y2
    boxes = torch.cat([torch.arange(3, dtype=torch.float64)[:, None], boxes], dim=1)
    pooled = roi_align(features, boxes, size, sampling_ratio=samples or -1, aligned=True)
    cases.append({
        "Size": size, "Samples": samples, "Dims": [3, height, width, 2], "Features": features.permute(0, 2, 3, 1).flatten().tolist(),
        "Boxes": torch.cat([corners[:, 0], corners[:, 1] - corners[:, 0]], dim=1).tolist(),
        "Pooled": [round(v, 12) for v in pooled.permute(0, 2, 3, 1).flatten().tolist()],
    })
with open("roialign.json", "w") as f:
    json.dump(cases, f, separators=(",", ":"))
    f.write("\n")
