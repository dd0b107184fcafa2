"""Writes mugs.json: 20 steps of Mugs in float64, on given tokens and memories.

The formulas are those of the paper and of the official code, written out: instance and local-group discrimination with a queue each, group
discrimination with a centre, pairs of views of one size with half the weight each; the local-group module, a transformer block over the mean token and
its nearest neighbours in a memory of each branch. Queues and memories are rings: new rows take the places of the oldest. The encoder is as small as can
be: each token gets a function of their mean. Weights are [in, out] in the file.

Run: python mugs.py   (needs torch)
"""
import json

import torch
import torch.nn.functional as F

import trajectory as t

torch.manual_seed(3)
GLOBALS, LOCALS, IMAGES, PATCHES, LOCAL_PATCHES, WIDTH, HEADS = 2, 2, 2, 4, 2, 4, 2
HIDDEN, BOTTLENECK, OUT, PREDICTOR, DIM = 5, 4, 6, 5, 3
QUEUE, MEMORY, NEIGHBOURS, TEMPERATURE = 9, 7, 3, 0.2

start = {"group/" + name: value for name, value in t.head_start(WIDTH, HIDDEN, BOTTLENECK, OUT).items()}
start["encoder/mix/weight"], start["encoder/mix/bias"] = t.linear(WIDTH, WIDTH)
start["encoder/norm/weight"], start["encoder/norm/bias"] = t.short(1 + 0.1 * torch.randn(WIDTH)), t.short(0.1 * torch.randn(WIDTH))
block = "encoder/relation_blocks/0/"
for name in ("norm1", "norm2"):
    start[block + name + "/weight"], start[block + name + "/bias"] = t.short(1 + 0.1 * torch.randn(WIDTH)), t.short(0.1 * torch.randn(WIDTH))
for name, (a, b) in {"attn/qkv": (WIDTH, 3 * WIDTH), "attn/proj": (WIDTH, WIDTH), "mlp/fc1": (WIDTH, 2 * WIDTH), "mlp/fc2": (2 * WIDTH, WIDTH)}.items():
    start[block + name + "/weight"], start[block + name + "/bias"] = t.linear(a, b)
for head in ("instance", "local_group"):
    for name, (a, b) in {"projector/0": (WIDTH, HIDDEN), "projector/2": (HIDDEN, HIDDEN), "projector/4": (HIDDEN, DIM),
                         "predictor/0": (DIM, PREDICTOR), "predictor/2": (PREDICTOR, DIM)}.items():
        start[f"{head}/{name}/weight"] = t.linear(a, b)[0]
alone = [name for name in start if "predictor" in name]

tokens = t.short(torch.randn(t.STEPS, GLOBALS, IMAGES, 1 + PATCHES, WIDTH), 2)
local = t.short(torch.randn(t.STEPS, LOCALS, IMAGES, 1 + LOCAL_PATCHES, WIDTH), 2)
queues = {"instance": t.short(F.normalize(torch.randn(QUEUE, DIM), dim=1)), "local_group": t.short(F.normalize(torch.randn(QUEUE, DIM), dim=1))}
memories = {"student": t.short(torch.randn(MEMORY, WIDTH)), "teacher": t.short(torch.randn(MEMORY, WIDTH))}


class Ring:
    def __init__(self, rows):
        self.rows, self.at = rows.clone(), 0

    def add(self, rows):
        for row in rows.detach():
            self.rows[self.at] = row
            self.at = (self.at + 1) % len(self.rows)

    def oldest_first(self):
        return torch.roll(self.rows, -self.at, 0)


def norm(p, name, x):
    return F.layer_norm(x, (WIDTH,), p[name + "/weight"], p[name + "/bias"], 1e-6)


def linear(p, name, x):
    return F.linear(x, p[name + "/weight"], p[name + "/bias"])


def relate(p, mean, memory):
    _, index = torch.topk(F.normalize(mean.detach(), dim=-1) @ F.normalize(memory, dim=-1).t(), NEIGHBOURS, dim=-1)
    x = torch.cat([mean[:, None], memory[index]], dim=1)
    n, length = x.shape[:2]
    q, k, v = linear(p, block + "attn/qkv", norm(p, block + "norm1", x)).reshape(n, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
    maps = ((q @ k.transpose(-2, -1)) * (WIDTH // HEADS) ** -0.5).softmax(dim=-1)
    x = x + linear(p, block + "attn/proj", (maps @ v).transpose(1, 2).reshape(n, length, WIDTH))
    x = x + linear(p, block + "mlp/fc2", F.gelu(linear(p, block + "mlp/fc1", norm(p, block + "norm2", x))))
    return norm(p, "encoder/norm", x[:, 0])


def encode(p, x, memory):
    """[views, images, tokens, width] to [CLS] tokens, local-group tokens and mean patch tokens, [views, images, width]."""
    views = x.shape[0]
    x = x + F.gelu(linear(p, "encoder/mix", x.mean(dim=2, keepdim=True)))
    group = relate(p, x.mean(dim=2).flatten(0, 1), memory).reshape(views, IMAGES, WIDTH)
    x = norm(p, "encoder/norm", x)
    return x[:, :, 0], group, x[:, :, 1:].mean(dim=2)


def head(p, name, x, predict):
    def layers(part, x, places):
        for i, place in enumerate(places):
            x = F.linear(F.gelu(x) if i > 0 else x, p[f"{name}/{part}/{place}/weight"])
        return F.normalize(x, dim=-1)

    x = layers("projector", x, (0, 2, 4))
    return layers("predictor", x, (0, 2)) if predict else x


def group_head(p, x):
    return t.head({name[len("group/"):]: value for name, value in p.items() if name.startswith("group/")}, x)


def granular(term):
    """Half the mean over pairs with a global view of the student, and half that over pairs with a local one."""
    large = [term(g, v) for g in range(GLOBALS) for v in range(GLOBALS) if v != g]
    small = [term(g, v) for g in range(GLOBALS) for v in range(GLOBALS, GLOBALS + LOCALS)]
    return 0.5 * (sum(large) / len(large) + sum(small) / len(small))


def contrast(student, targets, queue):
    def term(g, v):
        positive = torch.einsum("nc,nc->n", [student[v], targets[g]])[:, None]
        logits = torch.cat([positive, student[v] @ queue.t()], dim=1) / TEMPERATURE
        return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))
    return granular(term)


branches = t.Branches(start, False, alone=alone)
rings, memory = {name: Ring(rows) for name, rows in queues.items()}, {name: Ring(rows) for name, rows in memories.items()}
center = torch.zeros(1, OUT)
out = {"Losses": [], "Centers": [], "After": {}}
for step in range(t.STEPS):
    epoch = step // t.EPOCH
    p = branches.student
    views = [encode(p, x, memory["student"].rows) for x in (tokens[step], local[step])]
    student_class, student_group = torch.cat([views[0][0], views[1][0]]), torch.cat([views[0][1], views[1][1]])
    teacher_class, teacher_group, teacher_mean = encode(branches.teacher, tokens[step], memory["teacher"].rows)
    instance_targets = head(branches.teacher, "instance", teacher_class, False).detach()
    local_targets = head(branches.teacher, "local_group", teacher_group, False).detach()
    scores = group_head(branches.teacher, teacher_class).detach()
    instance = contrast(head(p, "instance", student_class, True), instance_targets, rings["instance"].rows.clone())
    local_group = contrast(head(p, "local_group", student_group, True), local_targets, rings["local_group"].rows.clone())
    targets, logits = F.softmax((scores - center) / t.temperature(epoch), dim=-1), group_head(p, student_class) / t.STUDENT
    group = granular(lambda g, v: torch.sum(-targets[g] * F.log_softmax(logits[v], dim=-1), dim=-1).mean())

    center = center * t.CENTER_MOMENTUM + scores.flatten(0, 1).mean(dim=0, keepdim=True) * (1 - t.CENTER_MOMENTUM)
    rings["instance"].add(instance_targets.flatten(0, 1))
    rings["local_group"].add(local_targets.flatten(0, 1))
    memory["student"].add(views[0][2][0])
    memory["teacher"].add(teacher_mean[0])
    branches.update((instance + local_group + group) / 3, epoch)
    out["Losses"].append([instance.item(), local_group.item(), group.item()])
    out["Centers"].append(t.numbers(center[0].tolist()))
    if step + 1 in (1, t.STEPS):
        out["After"][step + 1] = t.save(branches.student)
out["Teacher"] = t.save(branches.teacher)
out["QueuesAfter"] = {name: [t.numbers(row) for row in ring.oldest_first().tolist()] for name, ring in rings.items()}
out["MemoriesAfter"] = {name: [t.numbers(row) for row in ring.oldest_first().tolist()] for name, ring in memory.items()}

with open("mugs.json", "w") as f:
    json.dump(t.RECIPE | {"Hidden": HIDDEN, "Bottleneck": BOTTLENECK, "Out": OUT, "Predictor": PREDICTOR, "Dim": DIM, "Width": WIDTH, "Heads": HEADS,
                          "Neighbours": NEIGHBOURS, "Temperature": TEMPERATURE, "Globals": GLOBALS, "Weights": t.save(start),
                          "Alone": alone, "Tokens": tokens.tolist(), "Local": local.tolist(),
                          "Queues": {name: rows.tolist() for name, rows in queues.items()},
                          "Memories": {name: rows.tolist() for name, rows in memories.items()}} | out, f, separators=(",", ":"))
    f.write("\n")
