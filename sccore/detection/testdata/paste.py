"""Writes paste.json: masks pasted by detectron2's formula, which is a grid_sample and a threshold.

Run: python paste.py   (needs torch)
"""
import json

import torch
import torch.nn.functional as F

torch.manual_seed(0)
HEIGHT, WIDTH = 20, 30
cases = []
for size, box in [(28, (3.2, 4.7, 20.1, 15.3)), (28, (-4, -6, 12.5, 9)), (28, (0, 0, 30, 20)), (7, (22.5, 11, 40, 33)), (7, (5.1, 5.2, 5.6, 18)), (3, (1, 1, 29, 2.5)), (5, (40, 3, 50, 9))]:
    mask = F.avg_pool2d(torch.rand(1, 1, size + 2, size + 2), 3, 1)
    mask = ((mask - 0.5) * 3 + 0.5).clamp(0, 1)
    x1, y1, x2, y2 = box
    y, x = torch.arange(HEIGHT) + 0.5, torch.arange(WIDTH) + 0.5
    y, x = (y - y1) / (y2 - y1) * 2 - 1, (x - x1) / (x2 - x1) * 2 - 1
    grid = torch.stack([x[None].expand(HEIGHT, -1), y[:, None].expand(-1, WIDTH)], -1)
    pasted = F.grid_sample(mask, grid[None], align_corners=False)[0, 0] >= 0.5
    cases.append({"Size": size, "Box": box, "Mask": [round(v, 6) for v in mask.flatten().tolist()], "Pixels": ["".join("#" if v else "." for v in row) for row in pasted.tolist()]})
    exact = torch.tensor(cases[-1]["Mask"]).reshape(1, 1, size, size)
    again = F.grid_sample(exact, grid[None], align_corners=False)[0, 0] >= 0.5
    assert (again == pasted).all()
with open("paste.json", "w") as f:
    json.dump(cases, f, separators=(",", ":"))
    f.write("\n")
