"""Writes ops.json: torchvision's IoU, GIoU, box coder, clipping and NMS on small boxes.

Run: python ops.py   (needs torch, torchvision)
"""
import json

import torch
from torchvision.models.detection._utils import BoxCoder
from torchvision.ops import batched_nms, box_iou, clip_boxes_to_image, generalized_box_iou

torch.manual_seed(0)


def boxes(n, side=20):
    corners = torch.randint(0, side, (n, 2, 2), dtype=torch.float64).sort(dim=1).values
    corners[:, 1] += torch.randint(1, 5, (n, 2))
    return corners.flatten(1)


a, b = boxes(6), boxes(6)
out = {"A": a.tolist(), "B": b.tolist(), "IoU": box_iou(a, b).tolist(), "GIoU": generalized_box_iou(a, b).diagonal().tolist(), "Coders": []}
codes = torch.randn(6, 4, dtype=torch.float64)
codes[0, 2:] = 200  # Beyond the bound.
out["Codes"] = codes.tolist()
for deviations in [(0.1, 0.1, 0.2, 0.2), (0.05, 0.05, 0.1, 0.1), (0.033, 0.033, 0.067, 0.067), (1, 1, 1, 1)]:
    coder = BoxCoder(tuple(1 / d for d in deviations))
    out["Coders"].append({
        "Deviations": deviations, "Encoded": coder.encode_single(b, a).tolist(), "Decoded": coder.decode_single(codes, a).tolist(),
    })
out["Clipped"] = clip_boxes_to_image(a * 2 - 9, (13, 21)).tolist()

out["NMS"] = []
large = [(1, 1, 3, 0.5), (40, 1, 5, 0.3), (40, 3, 4, 0.5), (40, 1, 1000, 0.7), (40, 2, 1, 0.1)]
small = [(2 + i % 9, 1 + i % 3, 1 + i % 5, (0.1, 0.3, 0.5, 0.7)[i % 4]) for i in range(200)]  # Few scores, so that there are ties.
for n, groups, levels, threshold in large + small:
    x, scores, ids = boxes(n, 12), torch.randint(0, levels, (n,)) / levels, torch.randint(0, groups, (n,))
    keep = torch.zeros(n, dtype=torch.bool)
    keep[batched_nms(x, scores.double(), ids, threshold)] = True
    out["NMS"].append({"Boxes": x.int().tolist(), "Scores": scores.double().tolist(), "Groups": ids.tolist(), "Threshold": threshold, "Keep": keep.tolist()})

with open("ops.json", "w") as f:
    json.dump(out, f, separators=(",", ":"))
    f.write("\n")
