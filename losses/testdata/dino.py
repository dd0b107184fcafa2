"""Writes dino.json: 20 steps of DINO in float64, with centring (Caron et al. 2021) and with Sinkhorn-Knopp (DINOv2), on given views.

The formulas are those of the papers and of the official code, written out: the head with a weight-normalised last layer, which takes no part in the
updates of the first epoch; the teacher's temperature, warmed up by epochs; the loss over all pairs of views but the same; the centre; the teacher's
moving average. Weights are [in, out] in the file.

Run: python dino.py   (needs torch and numpy)
"""
import json

import numpy as np
import torch
import torch.nn.functional as F

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)
STEPS, EPOCH, WARMUP, VIEWS, GLOBALS, IMAGES = 20, 5, 3, 4, 2, 3
RATE, DECAY, TEACHER_MOMENTUM, CENTER_MOMENTUM = 0.01, 0.1, 0.9, 0.9
START, FINAL, STUDENT = 0.04, 0.07, 0.1
WIDTH, HIDDEN, BOTTLENECK, OUT = 5, 6, 4, 7


def short(x, digits=4):
    return torch.round(x, decimals=digits)


start = {}
for name, (a, b) in {"mlp/0": (WIDTH, HIDDEN), "mlp/2": (HIDDEN, HIDDEN), "mlp/4": (HIDDEN, BOTTLENECK)}.items():
    start[name + "/weight"] = short(torch.randn(b, a) / a**0.5)
    start[name + "/bias"] = short(0.1 * torch.randn(b))
start["last_layer/weight_v"] = short(torch.randn(OUT, BOTTLENECK))
start["last_layer/weight_g"] = torch.ones(OUT, 1)
views = short(torch.randn(STEPS, VIEWS, IMAGES, WIDTH), 2)


def head(p, x):
    x = F.gelu(F.linear(x, p["mlp/0/weight"], p["mlp/0/bias"]))
    x = F.gelu(F.linear(x, p["mlp/2/weight"], p["mlp/2/bias"]))
    x = F.normalize(F.linear(x, p["mlp/4/weight"], p["mlp/4/bias"]), dim=-1)
    v = p["last_layer/weight_v"]
    return F.linear(x, p["last_layer/weight_g"] * v / v.norm(dim=1, keepdim=True))


def sinkhorn(scores, iterations=3):
    q = torch.exp(scores).t()
    q = q / q.sum()
    for _ in range(iterations):
        q = q / q.sum(dim=1, keepdim=True) / q.shape[0]
        q = q / q.sum(dim=0, keepdim=True) / q.shape[1]
    return (q * q.shape[1]).t()


def save(p):
    return {name: [[float("%.11g" % v) for v in row] for row in (value if value.dim() == 2 else value[:, None]).t().tolist()] for name, value in p.items()}


def train(centred, norm_last_layer):
    student = {name: value.clone().requires_grad_(not (norm_last_layer and name.endswith("weight_g"))) for name, value in start.items()}
    teacher = {name: value.clone() for name, value in start.items()}
    trained = {name: value for name, value in student.items() if value.requires_grad}
    optimizer = torch.optim.AdamW([
        {"params": [v for n, v in trained.items() if not n.endswith("bias")], "weight_decay": DECAY},
        {"params": [v for n, v in trained.items() if n.endswith("bias")], "weight_decay": 0.0},
    ], lr=RATE)
    temperatures = np.concatenate((np.linspace(START, FINAL, WARMUP), np.ones(STEPS // EPOCH - WARMUP) * FINAL))
    center = torch.zeros(1, OUT)
    out = {"Centred": centred, "NormLastLayer": norm_last_layer, "Losses": [], "Centers": [], "After": {}}
    for step in range(STEPS):
        epoch = step // EPOCH
        logits = head(student, views[step].flatten(0, 1)) / STUDENT
        scores = head(teacher, views[step, :GLOBALS].flatten(0, 1))
        if centred:
            targets = F.softmax((scores - center) / temperatures[epoch], dim=-1)
        else:
            targets = sinkhorn(scores / temperatures[epoch])
        total, terms = 0, 0
        for i, q in enumerate(targets.chunk(GLOBALS)):
            for v, s in enumerate(logits.chunk(VIEWS)):
                if v == i:
                    continue
                total = total + torch.sum(-q * F.log_softmax(s, dim=-1), dim=-1).mean()
                terms += 1
        loss = total / terms
        center = center * CENTER_MOMENTUM + scores.mean(dim=0, keepdim=True) * (1 - CENTER_MOMENTUM)

        optimizer.zero_grad()
        loss.backward()
        if epoch < 1:
            for name, value in student.items():
                if "last_layer" in name:
                    value.grad = None
        optimizer.step()
        with torch.no_grad():
            for name in teacher:
                teacher[name] = TEACHER_MOMENTUM * teacher[name] + (1 - TEACHER_MOMENTUM) * student[name].detach()
        out["Losses"].append(loss.item())
        out["Centers"].append([float("%.11g" % v) for v in center[0].tolist()])
        if step + 1 in (1, EPOCH + 1, STEPS):
            out["After"][step + 1] = save({n: v.detach() for n, v in student.items()})
    out["Teacher"] = save(teacher)
    return out


with open("dino.json", "w") as f:
    json.dump({
        "Epoch": EPOCH, "Warmup": WARMUP, "Rate": RATE, "Decay": DECAY, "TeacherMomentum": TEACHER_MOMENTUM, "CenterMomentum": CENTER_MOMENTUM,
        "Start": START, "Final": FINAL, "Student": STUDENT, "Hidden": HIDDEN, "Bottleneck": BOTTLENECK, "Out": OUT, "Globals": GLOBALS,
        "Weights": save(start), "Views": views.tolist(), "Runs": [train(True, True), train(False, False)],
    }, f, separators=(",", ":"))
    f.write("\n")
