"""Writes framework.json: losses of the framework on random inputs, as PyTorch computes them in float64.

Run: python framework.py   (needs torch)
"""
import json

import torch
import torch.nn.functional as F

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)
cases = []


def case(loss, value, x, y):
    cases.append({"Loss": loss, "X": x.tolist(), "Y": y.tolist(), "Value": value.item()})


logits, targets = torch.randn(6, 9), torch.softmax(torch.randn(6, 9), 1)
case("Alignment", F.cross_entropy(logits / 0.3, targets), logits, targets)

p, q = torch.rand(4, 5), torch.rand(4, 5)
case("BCE", F.binary_cross_entropy(p, q), p, q)

prototypes, features = torch.randn(3, 8), torch.randn(7, 8)
similarity = F.cosine_similarity(prototypes[:, None], features[None], dim=-1)
entropy = torch.distributions.Categorical(logits=similarity / 0.1).entropy()
case("PrototypeEntropy", entropy.mean() / len(features), prototypes, features)

with open("framework.json", "w") as f:
    json.dump(cases, f)
