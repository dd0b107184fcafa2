"""Writes dino.json: 20 steps of DINO in float64, with centring (Caron et al. 2021) and with Sinkhorn-Knopp (DINOv2), on given views.

The formulas are those of the papers and of the official code, written out: the head with a weight-normalised last layer, which takes no part in the
updates of the first epoch; the teacher's temperature, warmed up by epochs; the loss over all pairs of views but the same; the centre; the teacher's
moving average. Weights are [in, out] in the file.

Run: python dino.py   (needs torch)
"""
import json

import torch
import torch.nn.functional as F

import trajectory as t

torch.manual_seed(1)
VIEWS, GLOBALS, IMAGES, WIDTH, HIDDEN, BOTTLENECK, OUT = 4, 2, 3, 5, 6, 4, 7
start = t.head_start(WIDTH, HIDDEN, BOTTLENECK, OUT)
views = t.short(torch.randn(t.STEPS, VIEWS, IMAGES, WIDTH), 2)


def train(centred, norm_last_layer):
    branches = t.Branches(start, norm_last_layer)
    center = torch.zeros(1, OUT)
    out = {"Centred": centred, "NormLastLayer": norm_last_layer, "Losses": [], "Centers": [], "After": {}}
    for step in range(t.STEPS):
        epoch = step // t.EPOCH
        logits = t.head(branches.student, views[step].flatten(0, 1)) / t.STUDENT
        scores = t.head(branches.teacher, views[step, :GLOBALS].flatten(0, 1))
        if centred:
            targets = F.softmax((scores - center) / t.temperature(epoch), dim=-1)
        else:
            targets = t.sinkhorn(scores / t.temperature(epoch))
        total, terms = 0, 0
        for i, q in enumerate(targets.chunk(GLOBALS)):
            for v, s in enumerate(logits.chunk(VIEWS)):
                if v == i:
                    continue
                total = total + torch.sum(-q * F.log_softmax(s, dim=-1), dim=-1).mean()
                terms += 1
        loss = total / terms
        center = center * t.CENTER_MOMENTUM + scores.mean(dim=0, keepdim=True) * (1 - t.CENTER_MOMENTUM)
        branches.update(loss, epoch)
        out["Losses"].append(loss.item())
        out["Centers"].append(t.numbers(center[0].tolist()))
        if step + 1 in (1, t.EPOCH + 1, t.STEPS):
            out["After"][step + 1] = t.save(branches.student)
    out["Teacher"] = t.save(branches.teacher)
    return out


with open("dino.json", "w") as f:
    json.dump(t.RECIPE | {"Hidden": HIDDEN, "Bottleneck": BOTTLENECK, "Out": OUT, "Globals": GLOBALS, "Weights": t.save(start), "Views": views.tolist(),
                          "Runs": [train(True, True), train(False, False)]}, f, separators=(",", ":"))
    f.write("\n")
