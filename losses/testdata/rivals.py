"""Writes rivals.json: the losses that CoTAP is compared with on random inputs, by their authors' formulas in float64 PyTorch.

Run: python rivals.py   (needs torch)

Each formula follows the code named above it. X is what takes a gradient, Y the target; features are written as [2·N, D], for two images.
"""
import json
import math

import torch
import torch.nn.functional as F

torch.manual_seed(2)
torch.set_default_dtype(torch.float64)
cases = []


def case(loss, value, x, y):
    cases.append({"Loss": loss, "X": x.flatten(0, -2).tolist(), "Y": y.flatten(0, -2).tolist(), "Value": value.item()})


# facebookresearch/dinov3, dinov3/loss/gram_loss.py, with img_level, apply_norm and no negatives removed.
def gram(student, teacher):
    student, teacher = F.normalize(student, dim=-1), F.normalize(teacher, dim=-1)
    return F.mse_loss(student @ student.transpose(-1, -2), teacher @ teacher.transpose(-1, -2))


# lightly-ai/lightly, lightly/loss/patch_kernel_alignment_loss.py, without mask.
def paka(student, teacher):
    def kernel(z):
        k = z @ z.transpose(-1, -2)
        return k - k.mean(1, keepdim=True) - k.mean(2, keepdim=True) + k.mean((1, 2), keepdim=True)

    def hsic(a, b):
        return (a * b).sum((1, 2))

    s, t = kernel(student), kernel(teacher)
    norm = hsic(s, s).clamp_min(1e-6).sqrt() * hsic(t, t).clamp_min(1e-6).sqrt()
    return (1 - hsic(s, t) / norm).mean()


# Felix-Petersen/diffsort 0.2.0, diffsort/networks.py: (low, high) of each layer.
def network(name, n):
    if name == "odd_even":
        return [[(i, i + 1) for i in range(layer % 2, n - 1, 2)] for layer in range(n)]
    blocks = math.ceil(math.log2(n))
    wires, layers = 2**blocks, []
    for block in range(blocks):
        for step in range(block + 1):
            m, layer = 2 ** (block - step), []
            for i in range(0, wires, 2 * m):
                for a in range(i, i + m):
                    b = a + m
                    if a >= wires - n:  # Else the first wire, and maybe the second, does not exist.
                        pair = (a, b) if a // 2 ** (block + 1) % 2 == 0 else (b, a)
                        layer.append((pair[0] - wires + n, pair[1] - wires + n))
            layers.append(layer)
    return layers


# diffsort/functional.py, execute_sort with the Cauchy distribution. P[:, i, r] is the weight of value i at rank r.
def permutations(x, layers, steepness):
    P = torch.eye(x.shape[1]).repeat(x.shape[0], 1, 1)
    for layer in layers:
        before, weights = x.clone(), P.clone()
        x, P = x.clone(), P.clone()
        for low, high in layer:
            # In diffsort, a is the wire of lower number, and a descending comparator stores the minimum at b.
            a, b = min(low, high), max(low, high)
            alpha = torch.atan(steepness * (before[:, b] - before[:, a])) / math.pi + 0.5
            x[:, low] = alpha * before[:, a] + (1 - alpha) * before[:, b]
            x[:, high] = (1 - alpha) * before[:, a] + alpha * before[:, b]
            alpha = alpha[:, None]
            P[:, :, low] = alpha * weights[:, :, a] + (1 - alpha) * weights[:, :, b]
            P[:, :, high] = (1 - alpha) * weights[:, :, a] + alpha * weights[:, :, b]
    return P


# vpariza/NeCo, src/neco.py, compute_knn_perm_mat with cosines and compute_knn_subloss without mask.
def neco(student, teacher, references, name, student_steepness, teacher_steepness):
    def perm(patches, steepness):
        cos = torch.einsum("bhc,bwc->bhw", F.normalize(patches, dim=-1), F.normalize(references, dim=-1))
        return permutations(cos.flatten(0, 1), network(name, references.shape[1]), steepness)

    p, q = perm(student, student_steepness), perm(teacher, teacher_steepness)
    return -(q * p.log()).sum(2).mean()


# kunhe/FastAP-metric-learning, pytorch/FastAP_loss.py: one ranking for each of a batch of features, without itself.
def fastap(x, labels, bins):
    n = len(labels)
    same, other = labels[:, None] == labels, 1 - torch.eye(n)
    distance, delta = 2 - 2 * x @ x.T, 4 / bins
    pulses = (1 - (distance[..., None] - torch.linspace(0, 4, bins + 1)).abs() / delta).clamp_min(0) * other[..., None]
    h_pos, h = (pulses * same[..., None]).sum(1), pulses.sum(1)
    terms = h_pos * h_pos.cumsum(1) / h.cumsum(1)
    terms[~torch.isfinite(terms)] = 0
    ap = terms.sum(1) / (same * other).sum(1)
    return 1 - ap[~torch.isnan(ap)].mean()


# Andrew-Brown1/Smooth_AP, src/losses.py: one ranking for each of a batch of features; its positives are its class, itself included.
def smoothap(x, labels, temperature):
    n = len(labels)
    same, other, cos = (labels[:, None] == labels).double(), 1 - torch.eye(n), x @ x.T
    above = torch.sigmoid((cos[:, None, :] - cos[:, :, None]) / temperature) * other
    rank, rank_of_positives = above.sum(2) + 1, (above * same[:, None, :]).sum(2) + 1
    return 1 - (same * rank_of_positives / rank).sum(1).div(same.sum(1)).mean()


student, teacher = torch.randn(2, 5, 3), torch.randn(2, 5, 3)
case("GramAnchoring", gram(student, teacher), student, teacher)
case("PaKA", paka(student, teacher), student, teacher)
for name, loss in ("odd_even", "NeCo odd-even"), ("bitonic", "NeCo bitonic"):
    references = torch.cat([teacher.flip(0), teacher[:, :1]], 1)  # One more than there are patches.
    case(loss, neco(student, teacher, references, name, 4, 20), student, teacher)

labels = torch.tensor([0, 0, 0, 1, 1, 1, 2])
x = F.normalize(torch.randn(7, 3), dim=-1)
scores, same = ((1 + x @ x.T) / 2).clamp(0, 1), (labels[:, None] == labels).double()
others = ~torch.eye(7, dtype=torch.bool)
case("FastAP", fastap(x, labels, 10), scores[others].view(7, 6), same[others].view(7, 6))
case("SmoothAP", smoothap(x, labels, 0.1), scores, same)

with open("rivals.json", "w") as f:
    json.dump(cases, f)
