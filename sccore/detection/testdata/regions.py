"""Writes regions.json: anchors and matches by mmdetection's formulas, and torchvision's roi_align over the levels of a pyramid.

Run: python regions.py   (needs torch, torchvision)
"""
import json

import torch
from torchvision.ops import box_iou, roi_align

torch.manual_seed(0)


def anchors(rows, columns, stride):
    """mmdetection's AnchorGenerator with scales=[8], ratios=[0.5, 1, 2] and centres at multiples of the stride."""
    ratios = torch.tensor([0.5, 1, 2], dtype=torch.float64)
    w, h = stride * 8 / ratios.sqrt(), stride * 8 * ratios.sqrt()
    base = torch.stack([-w / 2, -h / 2, w / 2, h / 2], -1)
    y, x = torch.meshgrid(torch.arange(rows) * stride, torch.arange(columns) * stride, indexing="ij")
    shifts = torch.stack([x, y, x, y], -1).reshape(-1, 1, 4)
    return (base + shifts).reshape(-1, 4)


def match(boxes, objects, positive, negative, low):
    """mmdetection's MaxIoUAssigner: -1 for ignored, 0 for negative, 1 + index of the object."""
    if len(objects) == 0:
        return [0] * len(boxes)
    iou = box_iou(objects, boxes)
    best, index = iou.max(0)
    assigned = torch.full((len(boxes),), -1)
    assigned[best < negative] = 0
    assigned[best >= positive] = index[best >= positive] + 1
    if low:
        for i in range(len(objects)):
            if iou[i].max() >= low:
                assigned[iou[i] == iou[i].max()] = i + 1
    return assigned.tolist()


out = {"Anchors": [{"Rows": r, "Columns": c, "Stride": s, "Boxes": anchors(r, c, s).tolist()} for r, c, s in [(2, 3, 4), (1, 2, 64)]], "Matches": []}

grid = anchors(6, 8, 4)
objects = torch.tensor([[0, 0, 30, 30], [2, 1, 31, 29], [4, 4, 20, 40], [12, 8, 16, 11], [-5, -9, 25, 13], [8, 0, 40, 32]], dtype=torch.float64)
near = torch.cat([objects + torch.randn(6, 4) * 2, objects + torch.randn(6, 4), objects])
for boxes, rule in [(grid, (0.7, 0.3, 0.3)), (near, (0.5, 0.5, 0)), (near, (0.6, 0.6, 0)), (near, (0.7, 0.7, 0))]:
    for count in (6, 2, 0):
        out["Matches"].append({"Boxes": boxes.tolist(), "Objects": objects.tolist(), "Count": count, "Rule": rule, "Assigned": match(boxes, objects[:count], *rule)})

# Boxes of each level's size, across the borders, without area.
levels = [torch.randn(2, 2, 64 // s, 96 // s, dtype=torch.float64).mul(100).round().div(100) for s in (8, 16, 32, 32, 64)]
levels = [x[:, :, : 5 + i, : 7 - i] for i, x in enumerate(levels[:2])] + levels[2:]
boxes = torch.tensor([
    [[3, 2, 19, 25], [-9, -7, 30, 12], [5, 5, 5, 5], [0, 0, 112, 112], [10, 20, 150, 230]],
    [[0, 0, 500, 440], [1.5, 2.25, 900, 930], [20, 3, 27.5, 18], [30, 12, 90, 24], [7, 8, 63, 64]],
], dtype=torch.float64)
flat = boxes.reshape(-1, 4)
area = (flat[:, 2] - flat[:, 0]) * (flat[:, 3] - flat[:, 1])
level = torch.floor(torch.log2(area.sqrt() / 56 + 1e-6)).clamp(0, 4).long()
image = torch.arange(2, dtype=torch.float64).repeat_interleave(5)
out["RoIAlign"] = {"Levels": [x.permute(2, 3, 0, 1).tolist() for x in levels], "Boxes": boxes.tolist(), "Level": level.tolist(), "Pooled": []}
for size in (3, 2):
    pooled = torch.zeros(10, 2, size, size, dtype=torch.float64)
    for i, x in enumerate(levels):
        at = level == i
        pooled[at] = roi_align(x, torch.cat([image[at, None], flat[at]], 1), size, 1 / (4 << i), sampling_ratio=2, aligned=True)
    out["RoIAlign"]["Pooled"].append({"Size": size, "Values": [round(v, 12) for v in pooled.permute(2, 3, 0, 1).flatten().tolist()]})

with open("regions.json", "w") as f:
    json.dump(out, f, separators=(",", ":"))
    f.write("\n")
