"""Writes golden.json: what OpenCV, NumPy and PyTorch compute of what package finetune computes.

    pip install numpy opencv-python-headless torch
    python golden.py

Made with opencv-python-headless 5.0.0 (4.10.0 gives the same), numpy 2.4.6 and torch 2.15.0, on a processor with AVX2 and FMA. With check as its argument, the
script compares its formulas of HSV with OpenCV for all colours instead.
"""

import base64
import json
import os
import sys

import cv2
import numpy as np
import torch
import torch.nn.functional as F

rng = np.random.default_rng(20)


def text(array):
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def image(height, width):
    """A random image of blobs and noise."""
    coarse = rng.integers(0, 256, (height // 4 + 2, width // 4 + 2, 3), dtype=np.uint8)
    smooth = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    return np.clip(smooth.astype(int) + rng.integers(-40, 41, smooth.shape), 0, 255).astype(np.uint8)


# Resizing, as mmcv.imresize: images by INTER_LINEAR, labels by INTER_NEAREST.
def resizing():
    cases = []
    for (h, w), (to_h, to_w) in [((7, 5), (14, 10)), ((7, 5), (12, 11)), ((12, 8), (6, 4)), ((13, 9), (6, 4)), ((1, 6), (3, 4)),
                                 ((6, 1), (5, 3)), ((20, 31), (33, 50)), ((20, 31), (9, 14)), ((9, 9), (9, 9))]:
        x = rng.integers(0, 256, (h, w, 3), dtype=np.uint8)
        y = cv2.resize(x, (to_w, to_h), interpolation=cv2.INTER_LINEAR)
        cases.append({"from": [h, w], "to": [to_h, to_w], "pixels": text(x), "resized": text(y)})
    nearest = []
    for a, b in [(5, 9), (9, 5), (171, 200), (128, 97), (100, 201), (3, 250), (49, 49), (250, 3)]:
        line = cv2.resize(np.arange(a, dtype=np.uint8)[None], (b, 1), interpolation=cv2.INTER_NEAREST)[0]
        nearest.append({"from": a, "to": b, "taken": line.tolist()})
    return cases, nearest


def rescaled(size, scale):
    """The size of mmcv.imrescale."""
    h, w = size
    factor = min(max(scale) / max(h, w), min(scale) / min(h, w))
    return int(h * float(factor) + 0.5), int(w * float(factor) + 0.5)


def sizes():
    cases = [((512, 683), (2048, 512)), ((1024, 2048), (2048, 512)), ((100, 900), (2048, 512)), ((128, 171), (512, 128))]
    for _ in range(30):
        ratio = rng.uniform(0.5, 2)
        cases.append((tuple(rng.integers(40, 900, 2).tolist()), (int(2048 * ratio), int(512 * ratio))))
    return [{"from": size, "long": scale[0], "short": scale[1], "to": rescaled(size, scale)} for size, scale in cases]


# Photometric distortion: mmsegmentation's definition with the draws given. Images are BGR there.
def convert(img, alpha=1, beta=0):
    img = img.astype(np.float32) * alpha + beta
    return np.clip(img, 0, 255).astype(np.uint8)


def distorted(rgb, d):
    img = rgb[..., ::-1].copy()
    img = convert(img, beta=d["brightness"])
    if d["contrast_first"]:
        img = convert(img, alpha=d["contrast"])
    if d["saturation"] is not None:
        img = cv2.cvtColor(img, cv2.COLOR_BGR2HSV)
        img[..., 1] = convert(img[..., 1], alpha=d["saturation"])
        img = cv2.cvtColor(img, cv2.COLOR_HSV2BGR)
    if d["hue"] is not None:
        img = cv2.cvtColor(img, cv2.COLOR_BGR2HSV)
        img[..., 0] = (img[..., 0].astype(int) + d["hue"]) % 180
        img = cv2.cvtColor(img, cv2.COLOR_HSV2BGR)
    if not d["contrast_first"]:
        img = convert(img, alpha=d["contrast"])
    return img[..., ::-1]


def distorting():
    x = image(6, 64)
    x[0, :, :] = np.arange(64, dtype=np.uint8)[:, None] * 4  # Greys.
    cases = []
    for brightness, first, contrast, saturation, hue in [(0, False, 1, None, None), (-31.25, True, 0.51, None, None), (20.6, False, 1.47, None, None),
                                                         (0, False, 1, 1.4, None), (0, False, 1, None, -18), (11.1, True, 1.21, 0.55, 17),
                                                         (-7.7, False, 0.83, 1.32, 5)]:
        d = {"brightness": brightness, "contrast_first": first, "contrast": contrast, "saturation": saturation, "hue": hue}
        cases.append(d | {"distorted": text(distorted(x, d))})
    return {"height": 6, "width": 64, "pixels": text(x), "cases": cases}


def colours():
    rgb = rng.integers(0, 256, (1, 512, 3), dtype=np.uint8)
    hsv = rng.integers(0, 256, (1, 512, 3), dtype=np.uint8)
    hsv[..., 0] = rng.integers(0, 180, (1, 512))
    hsv[0, :6, 0] = [0, 30, 60, 90, 120, 150]
    hsv[0, 6:14] = [[1, 90, 85], [5, 204, 66], [11, 238, 225], [44, 238, 225], [50, 153, 50], [57, 85, 120], [105, 24, 85], [117, 85, 100]]  # These need fused operations.
    return {"rgb": text(rgb), "to_hsv": text(cv2.cvtColor(rgb, cv2.COLOR_RGB2HSV)), "hsv": text(hsv), "to_rgb": text(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB))}


# Inference: mmsegmentation's slide_inference and whole_inference, on a network that averages cells of 4×4 pixels.
weights = torch.from_numpy(rng.normal(size=(3, 3, 1, 1)).astype(np.float32))


def encode_decode(x):
    logits = F.conv2d(F.avg_pool2d(x, 4), weights)
    return F.interpolate(logits, x.shape[2:], mode="bilinear", align_corners=False)


def slide(x, crop, stride):
    _, _, h, w = x.shape
    total, count = x.new_zeros((1, len(weights), h, w)), x.new_zeros((1, 1, h, w))
    for i in range(max(h - crop + stride - 1, 0) // stride + 1):
        for j in range(max(w - crop + stride - 1, 0) // stride + 1):
            bottom, right = min(i * stride + crop, h), min(j * stride + crop, w)
            top, left = max(bottom - crop, 0), max(right - crop, 0)
            logits = encode_decode(x[:, :, top:bottom, left:right])
            total += F.pad(logits, (left, w - right, top, h - bottom))
            count[:, :, top:bottom, left:right] += 1
    assert (count > 0).all()
    return total / count


def inferring():
    cases = []
    for size, scale, mode, crop, stride in [((20, 31), (60, 24), "slide", 16, 11), ((50, 40), (60, 25), "slide", 16, 11), ((20, 60), (36, 16), "slide", 16, 11),
                                            ((24, 24), (28, 28), "slide", 28, 20), ((15, 20), (32, 24), "whole", 0, 0)]:
        x = image(*size)
        h, w = rescaled(size, scale)
        resized = torch.from_numpy(cv2.resize(x, (w, h), interpolation=cv2.INTER_LINEAR)).permute(2, 0, 1)[None].float() / 255
        logits = slide(resized, crop, stride) if mode == "slide" else encode_decode(resized)
        full = F.interpolate(logits, size, mode="bilinear", align_corners=False)
        best = full.topk(2, 1).values
        assert (best[:, 0] - best[:, 1]).min() > 1e-5, "a tie"
        row = logits[0, :, h // 2 + 1].T.numpy()
        cases.append({"height": size[0], "width": size[1], "long": scale[0], "short": scale[1], "mode": mode, "crop": crop, "stride": stride, "pixels": text(x),
                      "resized": [h, w], "middle": text(row), "sum": logits.double().sum((0, 2, 3)).tolist(),
                      "classes": text(full.argmax(1)[0].numpy().astype(np.uint8))})
    return {"weights": weights.flatten().tolist(), "cases": cases}


def check():
    grid = np.arange(256, dtype=np.uint8)
    hsv = np.stack(np.meshgrid(grid[:180], grid, grid, indexing="ij"), -1).reshape(180, -1, 3)
    f, d = np.float32, np.float64
    h, s, v = hsv[..., 0].astype(f) * f(6 / 180), hsv[..., 1].astype(f) * f(1 / 255), hsv[..., 2].astype(f) * f(1 / 255)
    sector = np.floor(h).astype(int)
    h = h - sector.astype(f)
    fused = lambda share: (1 - s.astype(d) * share.astype(d)).astype(f)
    levels = np.trunc(np.stack([v, v * (1 - s), v * fused(h), v * fused(1 - h)], -1) * f(255)).astype(np.uint8)
    order = np.array([[0, 3, 1], [2, 0, 1], [1, 0, 3], [1, 2, 0], [3, 1, 0], [0, 1, 2]])
    ours = np.take_along_axis(levels, order[sector], -1)
    print("HSV to RGB differs for", (ours != cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)).any(-1).sum(), "of", hsv.size // 3)
    rgb = np.stack(np.meshgrid(grid, grid, grid, indexing="ij"), -1).reshape(256, -1, 3)
    over = lambda c: np.array([0] + [int(np.rint((c << 12) / i)) for i in range(1, 256)])
    r, g, b = [rgb[..., c].astype(int) for c in range(3)]
    value = rgb.max(-1).astype(int)
    chroma = value - rgb.min(-1)
    hue = np.where(value == r, g - b, np.where(value == g, b - r + 2 * chroma, r - g + 4 * chroma))
    hue = (hue * over(30)[chroma] + 2048) >> 12
    ours = np.stack([hue + 180 * (hue < 0), (chroma * over(255)[value] + 2048) >> 12, value], -1)
    print("RGB to HSV differs for", (ours != cv2.cvtColor(rgb, cv2.COLOR_RGB2HSV)).any(-1).sum(), "of", rgb.size // 3)


if sys.argv[1:] == ["check"]:
    check()
else:
    resize, nearest = resizing()
    out = {"resize": resize, "nearest": nearest, "sizes": sizes(), "distortion": distorting(), "colours": colours(), "inference": inferring()}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden.json"), "w") as file:
        json.dump(out, file, separators=(",", ":"))
        file.write("\n")
