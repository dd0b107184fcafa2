"""Writes detector.json: losses, gradients, running statistics and detections of a tiny Cascade Mask R-CNN in plain PyTorch.

Weights, features and random numbers follow formulas that the test repeats. The file lists the variables in this project's layout.

Run: python detector.py   (needs torch, torchvision)
"""
import json
import math

import torch
import torch.nn.functional as F
from torchvision.ops import box_iou, generalized_box_iou, nms, roi_align

torch.set_default_dtype(torch.float64)
ROWS, COLUMNS, DIM, BATCH = 6, 8, 8, 2
CLASSES, CHANNELS, CONVOLUTIONS, HIDDEN = 3, 5, 1, 16
ANCHOR_SAMPLES, TRAIN, TEST, SAMPLES, CANDIDATES, DETECTIONS = 32, 24, 20, 32, 50, 10
SIZES = [(96, 128), (90, 101)]
STAGES = [(0.5, (0.1, 0.1, 0.2, 0.2), 1), (0.6, (0.05, 0.05, 0.1, 0.1), 0.5), (0.7, (0.033, 0.033, 0.067, 0.067), 0.25)]
BOXES = torch.tensor([[[10.3, 8.1, 60.7, 40.2], [50.9, 30.4, 120.3, 90.6], [70.2, 4.8, 99.5, 37.3]], [[0.2, 30.7, 14.1, 61.9], [31.7, 33.3, 97.1, 88.8], [0, 0, 0, 0]]])
LABELS = torch.tensor([[0, 2, 1], [2, 0, -1]])

variables, gradients_of = [], {}


def noise(k, *dims):
    """Numbers in [-1, 1) without a visible pattern."""
    i = torch.arange(math.prod(dims))
    return (((31 * i * i + 7919 * i + 104729 * k) % 10007).double() / 10007 * 2 - 1).reshape(dims)


def variable(name, dims, scale, offset=0.0):
    """A variable in this project's layout."""
    value = (offset + scale * noise(len(variables), *dims)).requires_grad_()
    variables.append({"Name": name, "Dims": dims, "Scale": scale, "Offset": offset})
    gradients_of[name] = value
    return value


cache = {}


def get(name, dims, scale, offset=0.0):
    if name not in cache:
        cache[name] = variable(name, list(dims), scale, offset)
    return cache[name]


def conv(name, x, size, out, bias=True, gain=1.7):
    w = get(name + "/weight", (size, size, x.shape[1], out), gain / math.sqrt(size * size * x.shape[1]))
    b = get(name + "/bias", (out,), 0.3) if bias else None
    return F.conv2d(x, w.permute(3, 2, 0, 1), b, padding=size // 2)


def up(name, x, out):
    w = get(name + "/weight", (2, 2, out, x.shape[1]), 1.7 / math.sqrt(x.shape[1]))
    return F.conv_transpose2d(x, w.permute(3, 2, 0, 1), get(name + "/bias", (out,), 0.3), stride=2)


def dense(name, x, out, gain=1.7):
    return x @ get(name + "/weight", (x.shape[1], out), gain / math.sqrt(x.shape[1])) + get(name + "/bias", (out,), 0.1)


def layer_norm(name, x):
    w, b = get(name + "/weight", (x.shape[1],), 0.2, 1), get(name + "/bias", (x.shape[1],), 0.2)
    return F.layer_norm(x.permute(0, 2, 3, 1), (x.shape[1],), w, b, 1e-6).permute(0, 3, 1, 2)


running = {}


def batch_norm(name, x, train):
    w, b = get(name + "/weight", (x.shape[1],), 0.2, 1), get(name + "/bias", (x.shape[1],), 0.2)
    mean = running.setdefault(name + "/running_mean", torch.zeros(x.shape[1]))
    var = running.setdefault(name + "/running_var", torch.ones(x.shape[1]))
    return F.batch_norm(x, mean, var, w, b, train, 0.1, 1e-5)


def pyramid(x):
    p2 = up("pyramid/p2/up2", F.gelu(layer_norm("pyramid/p2/norm", up("pyramid/p2/up1", x, DIM // 2))), DIM // 4)
    levels = [p2, up("pyramid/p3/up1", x, DIM // 2), x, F.max_pool2d(x, 2)]
    for i, level in enumerate(levels):
        for j, size in enumerate((1, 3)):
            name = f"pyramid/p{i + 2}/conv{j}"
            level = layer_norm(name + "/norm", conv(name, level, size, CHANNELS, bias=False))
        levels[i] = level
    return levels + [F.max_pool2d(levels[-1], 1, 2)]


def anchors(rows, columns, stride):
    ratios = torch.tensor([0.5, 1, 2])
    w, h = stride * 8 / ratios.sqrt(), stride * 8 * ratios.sqrt()
    y, x = torch.meshgrid(torch.arange(rows) * stride, torch.arange(columns) * stride, indexing="ij")
    return (torch.stack([-w / 2, -h / 2, w / 2, h / 2], -1) + torch.stack([x, y, x, y], -1).reshape(-1, 1, 4)).reshape(-1, 4)


def centred(b):
    return (b[..., 0] + b[..., 2]) / 2, (b[..., 1] + b[..., 3]) / 2, b[..., 2] - b[..., 0], b[..., 3] - b[..., 1]


def encode(reference, box, deviations):
    rx, ry, rw, rh = centred(reference)
    x, y, w, h = centred(box)
    return torch.stack([(x - rx) / rw, (y - ry) / rh, (w / rw).log(), (h / rh).log()], -1) / torch.tensor(deviations)


def decode(reference, codes, deviations):
    rx, ry, rw, rh = centred(reference)
    dx, dy, dw, dh = (codes * torch.tensor(deviations)).unbind(-1)
    x, y = rx + rw * dx, ry + rh * dy
    w, h = rw * dw.clamp(max=math.log(1000 / 16)).exp(), rh * dh.clamp(max=math.log(1000 / 16)).exp()
    return torch.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], -1)


def clip(boxes, size):
    h, w = size
    return torch.stack([boxes[..., 0].clamp(0, w), boxes[..., 1].clamp(0, h), boxes[..., 2].clamp(0, w), boxes[..., 3].clamp(0, h)], -1)


def match(boxes, objects, positive, negative, low=0.0):
    iou = box_iou(objects, boxes)
    best, index = iou.max(0)
    assigned = torch.full((len(boxes),), -1)
    assigned[best < negative] = 0
    assigned[best >= positive] = index[best >= positive] + 1
    if low:
        for i in range(len(objects)):
            if iou[i].max() >= low:
                assigned[iou[i] == iou[i].max()] = i + 1
    return assigned


def sample(assigned, uniform, count, positives):
    """The boxes with the highest numbers, positive ones first."""
    order = uniform.argsort(descending=True, stable=True)
    p = order[assigned[order] > 0][:positives]
    n = order[assigned[order] == 0][: count - len(p)]
    return torch.cat([p, n]), len(p)


def rpn(levels):
    logits, codes, all_anchors = [], [], []
    for i, level in enumerate(levels):
        x = conv("rpn/conv", level, 3, CHANNELS).relu()
        logits.append(conv("rpn/cls", x, 1, 3).permute(0, 2, 3, 1).reshape(BATCH, -1))
        codes.append(conv("rpn/reg", x, 1, 12, gain=0.5).permute(0, 2, 3, 1).reshape(BATCH, -1, 4))
        all_anchors.append(anchors(level.shape[2], level.shape[3], 4 << i))
    return logits, codes, all_anchors


def proposals(logits, codes, all_anchors, count):
    out = []
    for b in range(BATCH):
        boxes, scores = [], []
        for l, c, a in zip(logits, codes, all_anchors):
            score, best = l[b].detach().topk(min(count, l.shape[1]))
            box = clip(decode(a[best], c[b, best].detach(), (1, 1, 1, 1)), SIZES[b])
            area = (box[:, 2] - box[:, 0]) * (box[:, 3] - box[:, 1]) > 0
            box, score = box[area], score[area]
            keep = nms(box, score, 0.7)
            boxes.append(box[keep])
            scores.append(score[keep])
        boxes, scores = torch.cat(boxes), torch.cat(scores)
        out.append(boxes[scores.argsort(descending=True)[:count]])
    return out


def pool(levels, boxes, size):
    """Boxes is a list with the boxes of each image."""
    flat = torch.cat(boxes)
    image = torch.cat([torch.full((len(b),), float(i)) for i, b in enumerate(boxes)])
    area = (flat[:, 2] - flat[:, 0]) * (flat[:, 3] - flat[:, 1])
    level = torch.floor(torch.log2(area.sqrt() / 56 + 1e-6)).clamp(0, 3).long()
    out = torch.zeros(len(flat), CHANNELS, size, size)
    for i, x in enumerate(levels[:4]):
        at = (level == i).nonzero()[:, 0]
        out = out.index_copy(0, at, roi_align(x, torch.cat([image[at, None], flat[at]], 1), size, 1 / (4 << i), sampling_ratio=2, aligned=True))
    return out, level


def box_head(i, levels, boxes, train):
    x, _ = pool(levels, boxes, 7)
    for j in range(CONVOLUTIONS):
        name = f"stage{i}/box/conv{j}"
        x = batch_norm(name + "/norm", conv(name, x, 3, CHANNELS, bias=False), train).relu()
    x = dense(f"stage{i}/box/fc", x.permute(0, 2, 3, 1).flatten(1), HIDDEN).relu()
    return dense(f"stage{i}/box/cls", x, CLASSES + 1, 1.0), dense(f"stage{i}/box/reg", x, 4 * CLASSES).reshape(-1, CLASSES, 4)


def mask_head(i, levels, boxes):
    x, _ = pool(levels, boxes, 14)
    for j in range(CONVOLUTIONS):
        x = conv(f"stage{i}/mask/conv{j}", x, 3, CHANNELS).relu()
    return conv(f"stage{i}/mask/cls", up(f"stage{i}/mask/up", x, CHANNELS).relu(), 1, CLASSES)


def ellipses(b):
    y, x = torch.meshgrid(torch.arange(96) + 0.5, torch.arange(128) + 0.5, indexing="ij")
    masks = []
    for x1, y1, x2, y2 in BOXES[b].tolist():
        if x2 == x1:
            masks.append(torch.zeros(96, 128))
            continue
        masks.append((((x - (x1 + x2) / 2) / (x2 - x1) * 2) ** 2 + ((y - (y1 + y2) / 2) / (y2 - y1) * 2) ** 2 <= 1).double())
    return torch.stack(masks)


def train(features):
    counts = [int((LABELS[b] >= 0).sum()) for b in range(BATCH)]
    objects = [BOXES[b, : counts[b]] for b in range(BATCH)]
    levels = pyramid(features)
    logits, codes, all_anchors = rpn(levels)
    flat = torch.cat(all_anchors)
    most = min(TRAIN, sum(min(len(a), TRAIN) for a in all_anchors))
    numbers = len(flat) + most + 3 + 2 * (SAMPLES + 3)
    uniform = (torch.arange(BATCH * numbers) * 7919 % 10007).double().reshape(BATCH, numbers) / 10007
    losses = {}

    classes, boxes, total = 0, 0, 0
    for b in range(BATCH):
        h, w = SIZES[b]
        inside = (flat[:, 0] >= 0) & (flat[:, 1] >= 0) & (flat[:, 2] < w) & (flat[:, 3] < h)
        assigned = torch.full((len(flat),), -1)  # As mmdetection: anchors outside take part in nothing.
        assigned[inside] = match(flat[inside], objects[b], 0.7, 0.3, 0.3)
        at, positive = sample(assigned, uniform[b, : len(flat)], ANCHOR_SAMPLES, ANCHOR_SAMPLES // 2)
        assert positive > 2
        target = (torch.arange(len(at)) < positive).double()
        classes = classes + F.binary_cross_entropy_with_logits(torch.cat(logits, 1)[b, at], target, reduction="sum")
        p = at[:positive]
        codes_wanted = encode(flat[p], objects[b][assigned[p] - 1], (1, 1, 1, 1))
        boxes = boxes + F.smooth_l1_loss(torch.cat(codes, 1)[b, p], codes_wanted, beta=1 / 9, reduction="sum")
        total += len(at)
    losses["anchorClass"], losses["anchorBox"] = classes / total, boxes / total

    current = proposals(logits, codes, all_anchors, TRAIN)
    at_number = len(flat)
    for i, (threshold, deviations, weight) in enumerate(STAGES):
        width = (most if i == 0 else SAMPLES) + 3
        sampled, objects_of, positives, own = [], [], [], []
        for b in range(BATCH):
            # This project's places: the objects, padded, then the proposals, padded.
            places = list(range(counts[b])) + [3 + j for j, there in enumerate(current[b]) if there is not None]
            there = torch.stack([x for x in current[b] if x is not None]) if isinstance(current[b], list) else current[b]
            all_boxes = torch.cat([objects[b], there])
            assigned = torch.cat([torch.arange(counts[b]) + 1, match(there, objects[b], threshold, threshold)])
            at, positive = sample(assigned, uniform[b, at_number : at_number + width][places], SAMPLES, SAMPLES // 4)
            sampled.append(all_boxes[at])
            objects_of.append(assigned[at[:positive]] - 1)
            positives.append(positive)
            own.append(at < counts[b])
        at_number += width
        scores, box_codes = box_head(i, levels, sampled, True)
        splits = [len(s) for s in sampled]
        labels = torch.cat([torch.cat([LABELS[b][objects_of[b]], torch.full((splits[b] - positives[b],), CLASSES)]) for b in range(BATCH)])
        losses[f"class{i}"] = weight * F.cross_entropy(scores, labels)
        is_positive = labels < CLASSES
        rois = torch.cat(sampled)
        wanted = torch.cat([objects[b][objects_of[b]] for b in range(BATCH)])
        predicted = decode(rois[is_positive], box_codes[is_positive, labels[is_positive]], deviations)
        losses[f"box{i}"] = weight * 10 * (1 - generalized_box_iou(predicted, wanted).diagonal()).sum() / len(labels)
        first = [s[:p] for s, p in zip(sampled, positives)]
        masks = mask_head(i, levels, first)
        masks = masks[torch.arange(len(masks)), labels[is_positive]]
        targets = torch.cat([
            roi_align(ellipses(b)[objects_of[b]][:, None], torch.cat([torch.arange(len(first[b]), dtype=torch.float64)[:, None], first[b]], 1), 28, 1.0,
                      sampling_ratio=2, aligned=True)[:, 0] for b in range(BATCH)])
        losses[f"mask{i}"] = weight * F.binary_cross_entropy_with_logits(masks, (targets >= 0.5).double())
        print("stage", i, "samples", splits, "positive", positives)

        chosen = torch.where(is_positive, labels, scores.detach()[:, :-1].argmax(1))
        refined = decode(rois, box_codes.detach()[torch.arange(len(rois)), chosen], deviations).split(splits)
        current = []
        for b in range(BATCH):
            r = clip(refined[b], SIZES[b])
            current.append([None if own[b][j] else r[j] for j in range(splits[b])])
    return losses


def detect(features):
    levels = pyramid(features)
    boxes = proposals(*rpn(levels), TEST)
    splits = [len(b) for b in boxes]
    total = 0
    for i, (_, deviations, _) in enumerate(STAGES):
        scores, codes = box_head(i, levels, boxes, False)
        total = total + scores
        flat = torch.cat(boxes)
        if i < 2:
            flat = decode(flat, codes[torch.arange(len(flat)), scores[:, :-1].argmax(1)], deviations)
            boxes = [clip(b, SIZES[j]) for j, b in enumerate(flat.split(splits))]
    per_class = decode(flat[:, None].expand(-1, CLASSES, 4), codes, deviations).split(splits)
    probabilities = (total / 3).softmax(1)[:, :-1].split(splits)
    out = []
    for b in range(BATCH):
        box = clip(per_class[b], SIZES[b]).reshape(-1, 4)
        score, label = probabilities[b].reshape(-1), torch.arange(CLASSES).repeat(len(probabilities[b]))
        order = score.argsort(descending=True)
        order = order[score[order] > 0.05][:CANDIDATES]
        keep = torch.cat([order[label[order] == c][nms(box[order][label[order] == c], score[order][label[order] == c], 0.5)] for c in range(CLASSES)])
        keep = keep[score[keep].argsort(descending=True)][:DETECTIONS]
        out.append((box[keep], score[keep], label[keep]))
    masks = sum(mask_head(i, levels, [o[0] for o in out]).sigmoid() for i in range(3)) / 3
    labels = torch.cat([o[2] for o in out])
    masks = masks[torch.arange(len(masks)), labels].split([len(o[2]) for o in out])
    return [{"Boxes": o[0].tolist(), "Scores": o[1].tolist(), "Labels": o[2].tolist(), "Masks": [[m.mean().item(), m[3, 20].item(), (m * noise(0, 28, 28)).sum().item()] for m in ms]}
            for o, ms in zip(out, masks)]


features = noise(1000, BATCH, ROWS, COLUMNS, DIM).requires_grad_()
x = features.permute(0, 3, 1, 2)
losses = train(x)
total = sum(losses.values())
total.backward()
print({k: round(v.item(), 4) for k, v in losses.items()})
out = {
    "Variables": variables, "Losses": {k: v.item() for k, v in losses.items()}, "FeatureGradient": [float(f"{v:.9g}") for v in features.grad.flatten().tolist()],
    "Gradients": {k: [(v.grad * noise(7, *v.shape)).sum().item(), v.grad.square().sum().sqrt().item()] for k, v in gradients_of.items()},
    "Running": {k: v.tolist() for k, v in running.items()},
}
with torch.no_grad():
    out["Detections"] = detect(x)
print([len(d["Scores"]) for d in out["Detections"]], [d["Scores"][:3] for d in out["Detections"]])
with open("detector.json", "w") as f:
    json.dump(out, f, separators=(",", ":"))
    f.write("\n")
