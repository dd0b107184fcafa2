"""Writes golden.json anew: the targets of SwAV's Sinkhorn-Knopp in float64 for the scores in it.

Run: python golden.py   (needs torch)
"""
import json

import torch


def sinkhorn(scores, iterations, epsilon):  # As distributed_sinkhorn in SwAV, on one device.
    q = torch.exp(scores / epsilon).t()
    q /= q.sum()
    for _ in range(iterations):
        q /= q.sum(dim=1, keepdim=True) * q.shape[0]
        q /= q.sum(dim=0, keepdim=True) * q.shape[1]
    return (q * q.shape[1]).t()


with open("golden.json") as f:
    golden = json.load(f)
for case in golden["Sinkhorn"]:
    scores = torch.tensor(case["Scores"], dtype=torch.float64)
    case["Targets"] = sinkhorn(scores, case["Iterations"], case["Epsilon"]).tolist()
with open("golden.json", "w") as f:
    json.dump(golden, f, separators=(",", ":"))
    f.write("\n")
