"""Writes adamw.json: 20 steps of torch.optim.AdamW on a small quartic, with gradients clipped by their global norm, and with rate, weight
decay and a momentum each on DINO's cosine schedule; biases do not decay.

Run: python adamw.py   (needs torch, numpy)
"""
import json

import numpy as np
import torch


def cosine_scheduler(base, final, steps):  # As in DINO's utils.py for one epoch without warm-up.
    iters = np.arange(steps)
    return final + 0.5 * (base - final) * (1 + np.cos(np.pi * iters / steps))


torch.manual_seed(0)
steps, limit = 20, 3.0
rates, decays, momenta = (cosine_scheduler(*ends, steps) for ends in [(3e-2, 1e-3), (0.24, 2.4), (0.9, 1)])
start = {"weight": torch.randn(2, 3), "bias": torch.randn(3)}
target = {name: torch.randn_like(x) for name, x in start.items()}
weight, bias = (start[name].clone().requires_grad_() for name in ["weight", "bias"])
optimizer = torch.optim.AdamW([{"params": [weight]}, {"params": [bias]}], lr=0)
trace = {"Weight": [], "Bias": [], "Norms": []}
for rate, decay in zip(rates, decays):
    optimizer.param_groups[0].update(lr=rate, weight_decay=decay)
    optimizer.param_groups[1].update(lr=rate, weight_decay=0.0)
    optimizer.zero_grad()
    (0.25 * ((weight - target["weight"]).pow(4).sum() + (bias - target["bias"]).pow(4).sum())).backward()
    trace["Norms"].append(torch.nn.utils.clip_grad_norm_([weight, bias], limit).item())
    optimizer.step()
    trace["Weight"].append(weight.flatten().tolist())
    trace["Bias"].append(bias.tolist())
with open("adamw.json", "w") as f:
    json.dump({"Limit": limit, "Rates": rates.tolist(), "Decays": decays.tolist(), "Momenta": momenta.tolist(),
               "StartWeight": start["weight"].tolist(), "StartBias": start["bias"].tolist(),
               "TargetWeight": target["weight"].tolist(), "TargetBias": target["bias"].tolist()} | trace, f)
