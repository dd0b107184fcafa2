"""Writes jf.json: region and boundary measures of the DAVIS-2017 benchmark for made-up masks, by its definitions, with OpenCV's
dilation and scikit-image's disk.

Run: python jf.py   (needs numpy, opencv-python-headless, scikit-image)
"""
import base64
import json
import zlib

import cv2
import numpy as np
from skimage.morphology import disk


def jaccard(truth, predicted):
    union = np.logical_or(truth, predicted).sum()
    return 1.0 if union == 0 else np.logical_and(truth, predicted).sum() / union


def boundary(mask):
    """Pixels unlike the right, lower or lower right neighbour; the last row looks right only, the last column down only."""
    padded = np.pad(mask, ((0, 1), (0, 1)), mode="edge")
    here = padded[:-1, :-1]
    edges = (here != padded[:-1, 1:]) | (here != padded[1:, :-1]) | (here != padded[1:, 1:])
    edges[-1, :] = np.append(mask[-1, :-1] != mask[-1, 1:], False)
    edges[:, -1] = np.append(mask[:-1, -1] != mask[1:, -1], False)
    return edges


def f_measure(truth, predicted):
    radius = int(np.ceil(0.008 * np.linalg.norm(truth.shape)))
    t, p = boundary(truth), boundary(predicted)
    dilate = lambda edges: cv2.dilate(edges.astype(np.uint8), disk(radius).astype(np.uint8)) > 0
    if p.sum() == 0 or t.sum() == 0:
        precision, recall = float(p.sum() == 0), float(t.sum() == 0)
    else:
        precision, recall = (p & dilate(t)).sum() / p.sum(), (t & dilate(p)).sum() / t.sum()
    return 0.0 if precision + recall == 0 else 2 * precision * recall / (precision + recall)


def statistics(values):
    values = np.array(values)
    ends = (np.round(np.linspace(1, len(values), 5) + 1e-10) - 1).astype(int)
    quarters = [values[ends[i]:ends[i + 1] + 1] for i in range(4)]
    return {"Mean": values.mean(), "Recall": (values > 0.5).mean(), "Decay": quarters[0].mean() - quarters[3].mean()}


def ellipse(height, width, x, y, a, b, angle):
    ys, xs = np.mgrid[:height, :width]
    u = np.cos(angle) * (xs - x) + np.sin(angle) * (ys - y)
    v = np.cos(angle) * (ys - y) - np.sin(angle) * (xs - x)
    return (u / a) ** 2 + (v / b) ** 2 < 1


def packed(masks):
    return base64.b64encode(zlib.compress(np.stack(masks).astype(np.uint8).tobytes(), 9)).decode()


rng = np.random.default_rng(0)
cases = []
for frames, height, width, objects in [(3, 40, 60, 1), (4, 50, 41, 2), (8, 90, 160, 3), (25, 100, 100, 2), (12, 240, 427, 1), (270, 12, 20, 1)]:
    truth, predicted = [], []
    at = rng.uniform(0.2, 0.8, (objects, 2)) * [width, height]
    speed = rng.normal(0, 0.03, (objects, 2)) * [width, height]
    for i in range(frames):
        t, p = np.zeros((height, width), np.uint8), np.zeros((height, width), np.uint8)
        for o in range(objects):
            x, y = at[o] + speed[o] * i
            size = 0.12 * min(height, width) * (1 + o / 2)
            t[ellipse(height, width, x, y, size, 0.7 * size, 0.1 * i)] = o + 1
            drift = rng.normal(0, 0.02 * min(height, width) * (1 + 3 * i / frames), 2)
            p[ellipse(height, width, x + drift[0], y + drift[1], size * rng.uniform(0.7, 1.3), 0.7 * size, 0.1 * i)] = o + 1
        if i % 7 == 3:  # Lost altogether.
            p[:] = 0
        if i % 11 == 5:  # Gone, and here and there marked all the same.
            t[t == 1] = 0
        truth.append(t)
        predicted.append(p)
    results = []
    for o in range(1, objects + 1):
        inner = range(1, frames - 1)  # Without the first frame and the last one.
        results.append({"J": statistics([jaccard(truth[i] == o, predicted[i] == o) for i in inner]),
                        "F": statistics([f_measure(truth[i] == o, predicted[i] == o) for i in inner])})
    cases.append({"Height": height, "Width": width, "Truth": packed(truth), "Predicted": packed(predicted), "Objects": results})
with open("jf.json", "w") as f:
    json.dump(cases, f)
