"""Writes golden.json: the four losses on random inputs, as the lightly library (1.6, PyTorch) computes them in float64.

Run: python golden.py   (needs torch and lightly)
"""
import json

import torch
import torch.nn.functional as F
from lightly.loss import BarlowTwinsLoss, NegativeCosineSimilarity, NTXentLoss

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
cases = []


def case(loss, value, *inputs):
    cases.append({"Loss": loss, "Inputs": [x.tolist() for x in inputs], "Value": value.item()})


for batch, dim in [(3, 4), (8, 5)]:
    z1, z2 = torch.randn(batch, dim), torch.randn(batch, dim)
    case("NTXent", NTXentLoss(temperature=0.5)(z1, z2), z1, z2)
    case("BarlowTwins", BarlowTwinsLoss(lambda_param=0.005)(z1, z2), z1, z2)
    case("NegativeCosine", NegativeCosineSimilarity()(z1, z2), z1, z2)

    # lightly's memory bank holds the queue as columns of unit length; with gradient off it compares z1 with z2 and the bank.
    queue = torch.randn(6, dim)
    criterion = NTXentLoss(temperature=0.2, memory_bank_size=(6, dim))
    criterion.memory_bank._init_memory_bank(size=(6, dim))
    bank = F.normalize(queue, dim=1)
    criterion.memory_bank.bank = bank if criterion.memory_bank.bank.shape == bank.shape else bank.T.contiguous()
    case("InfoNCE", criterion(z1.requires_grad_(), z2), z1.detach(), z2, queue)

with open("golden.json", "w") as f:
    json.dump(cases, f)
