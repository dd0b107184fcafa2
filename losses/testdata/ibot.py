"""Writes ibot.json: 20 steps of iBOT in float64, with centring (Zhou et al. 2022) and with Sinkhorn-Knopp (DINOv2), on given tokens and masks.

The formulas are those of the papers and of the official code, written out: the loss of [CLS] tokens over all pairs of views but the same, the loss of
the masked patches of the same view, a centre and a temperature for each, one head for both. The encoder is as small as can be: masked tokens are
replaced by a learnt one, and each token gets a function of their mean. Weights are [in, out] in the file.

Run: python ibot.py   (needs torch)
"""
import json

import torch
import torch.nn.functional as F

import trajectory as t

torch.manual_seed(2)
GLOBALS, LOCALS, IMAGES, PATCHES, LOCAL_PATCHES, WIDTH, HIDDEN, BOTTLENECK, OUT = 2, 2, 2, 6, 2, 3, 5, 4, 6
CLASS_TEMPERATURE = 0.05
start = t.head_start(WIDTH, HIDDEN, BOTTLENECK, OUT)
start["mix/weight"], start["mix/bias"] = t.linear(WIDTH, WIDTH)
start["masked_embed"] = t.short(0.1 * torch.randn(WIDTH, 1))
tokens = t.short(torch.randn(t.STEPS, GLOBALS, IMAGES, 1 + PATCHES, WIDTH), 2)
local = t.short(torch.randn(t.STEPS, LOCALS, IMAGES, 1 + LOCAL_PATCHES, WIDTH), 2)
masks = torch.rand(t.STEPS, GLOBALS, IMAGES, PATCHES) < 0.4
masks[3, 0, 1] = False
masks[7] = False
masks[9, 1] = True


def encode(p, x, mask=None):
    """[views, images, tokens, width] to logits of the same tokens."""
    if mask is not None:
        patches = torch.where(mask[..., None], p["masked_embed"][:, 0], x[:, :, 1:])
        x = torch.cat([x[:, :, :1], patches], dim=2)
    x = x + F.gelu(F.linear(x.mean(dim=2, keepdim=True), p["mix/weight"], p["mix/bias"]))
    return t.head(p, x)


def train(centred, norm_last_layer):
    branches = t.Branches(start, norm_last_layer, alone=["masked_embed"])
    center, patch_center = torch.zeros(1, OUT), torch.zeros(1, 1, OUT)
    out = {"Centred": centred, "NormLastLayer": norm_last_layer, "ClassLosses": [], "PatchLosses": [], "Centers": [], "PatchCenters": [], "After": {}}
    for step in range(t.STEPS):
        epoch, mask = step // t.EPOCH, masks[step]
        student, teacher = encode(branches.student, tokens[step], mask), encode(branches.teacher, tokens[step])
        small = encode(branches.student, local[step])
        student_class = torch.cat([student[:, :, 0], small[:, :, 0]]) / t.STUDENT
        student_patch = student[:, :, 1:] / t.STUDENT
        class_scores, patch_scores = teacher[:, :, 0].flatten(0, 1), teacher[:, :, 1:].flatten(0, 1)
        if centred:
            class_targets = F.softmax((class_scores - center) / CLASS_TEMPERATURE, dim=-1)
            patch_targets = F.softmax((patch_scores - patch_center) / t.temperature(epoch), dim=-1)
        else:
            class_targets = t.sinkhorn(class_scores / CLASS_TEMPERATURE)
            patch_targets = torch.zeros_like(patch_scores)
            patch_targets[mask.flatten(0, 1)] = t.sinkhorn(patch_scores[mask.flatten(0, 1)] / t.temperature(epoch))
        class_total, class_terms, patch_total, patch_terms = 0, 0, 0, 0
        for q in range(GLOBALS):
            class_q, patch_q = class_targets.chunk(GLOBALS)[q], patch_targets.chunk(GLOBALS)[q]
            for v in range(GLOBALS + LOCALS):
                if v == q:
                    entropies = torch.sum(-patch_q * F.log_softmax(student_patch[v], dim=-1), dim=-1)
                    entropies = torch.sum(entropies * mask[v], dim=-1) / mask[v].sum(dim=-1).clamp(min=1.0)
                    patch_total = patch_total + entropies.mean()
                    patch_terms += 1
                else:
                    class_total = class_total + torch.sum(-class_q * F.log_softmax(student_class[v], dim=-1), dim=-1).mean()
                    class_terms += 1
        class_loss, patch_loss = class_total / class_terms, patch_total / patch_terms
        center = center * t.CENTER_MOMENTUM + class_scores.mean(dim=0, keepdim=True) * (1 - t.CENTER_MOMENTUM)
        patch_mean = patch_scores.mean(dim=1).mean(dim=0)
        patch_center = patch_center * t.CENTER_MOMENTUM + patch_mean * (1 - t.CENTER_MOMENTUM)
        branches.update(class_loss + patch_loss, epoch)
        out["ClassLosses"].append(class_loss.item())
        out["PatchLosses"].append(patch_loss.item())
        out["Centers"].append(t.numbers(center[0].tolist()))
        out["PatchCenters"].append(t.numbers(patch_center[0, 0].tolist()))
        if step + 1 in (1, t.STEPS):
            out["After"][step + 1] = t.save(branches.student)
    out["Teacher"] = t.save(branches.teacher)
    return out


with open("ibot.json", "w") as f:
    json.dump(t.RECIPE | {"Hidden": HIDDEN, "Bottleneck": BOTTLENECK, "Out": OUT, "Globals": GLOBALS, "ClassTemperature": CLASS_TEMPERATURE,
                          "Weights": t.save(start), "Tokens": tokens.tolist(), "Local": local.tolist(), "Masks": masks.tolist(),
                          "Runs": [train(True, True), train(False, False)]}, f, separators=(",", ":"))
    f.write("\n")
