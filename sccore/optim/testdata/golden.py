"""Writes golden.json: 20 steps of torch.optim.SGD under CosineAnnealingLR on a small quartic.

Run: python golden.py   (needs torch)
"""
import json

import torch

torch.manual_seed(0)
start, target = torch.randn(5), torch.randn(5)
momentum, decay, rate, steps = 0.9, 5e-2, 0.1, 20
weight = start.clone().requires_grad_()
optimizer = torch.optim.SGD([weight], lr=rate, momentum=momentum, weight_decay=decay)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
weights, rates = [], []
for _ in range(steps):
    rates.append(optimizer.param_groups[0]["lr"])
    optimizer.zero_grad()
    (0.25 * (weight - target).pow(4).sum()).backward()
    optimizer.step()
    schedule.step()
    weights.append(weight.tolist())
with open("golden.json", "w") as f:
    json.dump({"Start": start.tolist(), "Target": target.tolist(), "Momentum": momentum, "Decay": decay, "Rate": rate,
               "Rates": rates, "Weights": weights}, f)
