"""Writes propagation.json: two short videos and the masks that the label propagation of DINO's code finds in them, where the features of a
patch are its standardised pixels.

Run: python propagation.py   (needs torch, numpy, pillow)
"""
import base64
import json
import zlib

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

SHORT, PATCH, PREVIOUS, K, RADIUS, TEMPERATURE = 64, 8, 2, 5, 3, 0.1
MEAN, STD = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])


def size_of(height, width):
    if height > width:
        return SHORT * height // width // 64 * 64, SHORT
    return SHORT, SHORT * width // height // 64 * 64


def features_of(frame, size):
    x = torch.from_numpy(frame).double().permute(2, 0, 1)[None] / 255
    x = F.interpolate(x, size=size, mode="bilinear", align_corners=False)[0]
    x = (x - MEAN[:, None, None]) / STD[:, None, None]
    patches = F.unfold(x[None], PATCH, stride=PATCH)[0].T  # [patches, 3·8·8]
    return F.normalize(patches, dim=1)


def propagate(target, sources, maps, rows, columns):
    y, x = np.divmod(np.arange(rows * columns), columns)
    near = (abs(y[:, None] - y) <= RADIUS) & (abs(x[:, None] - x) <= RADIUS)
    affinity = torch.cat([torch.exp(target @ s.T / TEMPERATURE) * torch.from_numpy(near) for s in sources], 1)
    last = affinity.topk(K, dim=1).values[:, -1:]
    affinity[affinity < last] = 0
    affinity /= affinity.sum(1, keepdim=True)
    return affinity @ torch.cat(maps)  # [patches, labels]


def decided(labels, rows, columns, height, width):
    x = labels.T.reshape(1, -1, rows, columns)
    x = F.interpolate(x, scale_factor=PATCH, mode="bilinear", align_corners=False, recompute_scale_factor=False)[0]
    for c in range(len(x)):
        if x[c].max() > 0:
            x[c] -= x[c].min()
            x[c] /= x[c].max()
    small = x.argmax(0).numpy().astype(np.uint8)
    return np.array(Image.fromarray(small).resize((width, height), Image.NEAREST))


def track(frames, mask):
    height, width = mask.shape
    size = size_of(height, width)
    rows, columns = size[0] // PATCH, size[1] // PATCH
    small = np.array(Image.fromarray(mask).resize((columns, rows), Image.NEAREST))
    first = features_of(frames[0], size), F.one_hot(torch.from_numpy(small).long().flatten()).double()
    found, queue = [mask], []
    for frame in frames[1:]:
        target = features_of(frame, size)
        looked = [first] + queue
        labels = propagate(target, [f for f, _ in looked], [l for _, l in looked], rows, columns)
        queue = (queue + [(target, labels)])[-PREVIOUS:]
        found.append(decided(labels.clone(), rows, columns, height, width))
    return found


def packed(arrays):
    return base64.b64encode(zlib.compress(np.stack(arrays).astype(np.uint8).tobytes(), 9)).decode()


rng = np.random.default_rng(1)
videos = []
for height, width in [(44, 66), (160, 70)]:
    ys, xs = np.mgrid[:height, :width]
    blocks = lambda low, high: rng.integers(low, high, (height // 6 + 1, width // 6 + 1, 3)).repeat(6, 0).repeat(6, 1)[:height, :width]
    ground = blocks(0, 90)
    frames, masks = [], []
    for i in range(6):
        frame, mask = ground.copy(), np.zeros((height, width), np.uint8)
        for o, (cx, cy, dx, dy) in enumerate([(0.3, 0.3, 0.03, 0.02), (0.7, 0.6, -0.03, 0.01)]):
            inside = (xs - (cx + dx * i) * width) ** 2 + (ys - (cy + dy * i) * height) ** 2 < (0.22 * min(height, width)) ** 2
            frame[inside] = [[230, 120, 60], [70, 210, 190]][o]
            mask[inside] = o + 1
        frame = np.clip(frame + blocks(-6, 7), 0, 255).astype(np.uint8)
        frames.append(frame)
        masks.append(mask)
    videos.append({"Height": height, "Width": width, "Frames": packed(frames), "First": packed([masks[0]]),
                   "Found": packed(track(frames, masks[0]))})
with open("propagation.json", "w") as f:
    json.dump({"Short": SHORT, "Patch": PATCH, "Previous": PREVIOUS, "K": K, "Radius": RADIUS, "Temperature": TEMPERATURE, "Videos": videos}, f)
