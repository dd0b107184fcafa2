"""Writes linearprobe.json: the ranking of classes by a linear classifier that PyTorch trained on all features at once with AdamW, its rate on a
cosine; biases do not decay.

Run: python linearprobe.py   (needs torch, numpy)
"""
import json
import math

import numpy as np
import torch

rng = np.random.default_rng(2)
classes, dim, epochs, rate, decay = 7, 5, 40, 0.05, 0.1
centres = rng.normal(size=(classes, dim))
labels = rng.integers(classes, size=90)
bank = np.round(centres[labels] + rng.normal(size=(90, dim)), 3).astype(np.float32)
queries = np.round(centres[rng.integers(classes, size=50)] + rng.normal(size=(50, dim)), 3).astype(np.float32)

linear = torch.nn.Linear(dim, classes)
torch.nn.init.zeros_(linear.weight)
torch.nn.init.zeros_(linear.bias)
optimizer = torch.optim.AdamW([{"params": [linear.weight], "weight_decay": decay}, {"params": [linear.bias], "weight_decay": 0.0}], lr=rate)
for epoch in range(epochs):
    for group in optimizer.param_groups:
        group["lr"] = rate * (1 + math.cos(math.pi * epoch / epochs)) / 2
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(linear(torch.from_numpy(bank)), torch.from_numpy(labels)).backward()
    optimizer.step()
with torch.no_grad():
    logits = linear(torch.from_numpy(queries))
margins = logits.sort(dim=1).values.diff(dim=1).min()
assert margins > 1e-5, "two classes nearly level: take another seed"
with open("linearprobe.json", "w") as f:
    json.dump({"Epochs": epochs, "Rate": rate, "Decay": decay, "Classes": classes, "Bank": bank.tolist(), "Labels": labels.tolist(),
               "Queries": queries.tolist(), "Ranked": logits.argsort(dim=1, descending=True).tolist()}, f)
