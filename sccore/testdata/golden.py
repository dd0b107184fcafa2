"""Writes golden.json: torchvision's roi_align with aligned=True on small feature maps, one box a map; and the targets of SwAV's
Sinkhorn-Knopp in float64.

Run: python golden.py   (needs torch, torchvision)
"""
import json

import torch
from torchvision.ops import roi_align

torch.manual_seed(0)


def sinkhorn(scores, iterations, epsilon):  # As distributed_sinkhorn in SwAV, on one device.
    q = torch.exp(scores / epsilon).t()
    q /= q.sum()
    for _ in range(iterations):
        q /= q.sum(dim=1, keepdim=True) * q.shape[0]
        q /= q.sum(dim=0, keepdim=True) * q.shape[1]
    return (q * q.shape[1]).t()


cases = []
for height, width, size, samples in [(7, 7, 7, 0), (14, 14, 7, 0), (5, 8, 3, 0), (5, 8, 3, 1), (5, 8, 4, 2)]:
    features = (100 * torch.randn(3, 2, height, width, dtype=torch.float64)).round() / 100
    corners = torch.rand(3, 2, 2, dtype=torch.float64).sort(dim=1).values  # y, x of the first corner, then of the second
    corners[0] = torch.tensor([[0, 0], [1, 1]])
    corners = (corners * 256).round() / 256
    scale = torch.tensor([height, width])
    boxes = (corners * scale).flip(-1).flatten(1)  # x1, y1, x2, y2
    boxes = torch.cat([torch.arange(3, dtype=torch.float64)[:, None], boxes], dim=1)
    pooled = roi_align(features, boxes, size, sampling_ratio=samples or -1, aligned=True)
    cases.append({
        "Size": size, "Samples": samples, "Dims": [3, height, width, 2], "Features": features.permute(0, 2, 3, 1).flatten().tolist(),
        "Boxes": torch.cat([corners[:, 0], corners[:, 1] - corners[:, 0]], dim=1).tolist(),
        "Pooled": [round(v, 12) for v in pooled.permute(0, 2, 3, 1).flatten().tolist()],
    })

targets = []
for n, d, iterations, epsilon in [(6, 4, 3, 0.05), (5, 7, 1, 0.2), (4, 3, 30, 0.1)]:
    scores = torch.nn.functional.normalize(torch.randn(n, d, dtype=torch.float64))
    targets.append({"Iterations": iterations, "Epsilon": epsilon, "Scores": scores.tolist(),
                    "Targets": sinkhorn(scores, iterations, epsilon).tolist()})
with open("golden.json", "w") as f:
    json.dump({"RoIAlign": cases, "Sinkhorn": targets}, f, separators=(",", ":"))
    f.write("\n")
