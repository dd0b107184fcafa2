"""Writes golden.json: views made by torchvision, for the Go tests to compare with.

    python golden.py        # torch 2.11, torchvision 0.26; run in this folder

Each case holds the parameters that torchvision's functions got and the float32 pixels that came out, height x width x 3,
little-endian, in base64.
"""

import base64
import itertools
import json
import random

import numpy as np
import torch
import torchvision
from torchvision.transforms import functional as F

rng = random.Random(1)
noise = np.random.default_rng(1)


def picture(height, width):
    """Smooth gradients with a noisy, a gray, a black, a white and a saturated patch."""
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    image = np.stack([255 * x, 255 * y, 127 + 127 * np.sin(9 * x + 5 * y)], -1)
    h, w = height // 4, width // 4
    image[:h, :w] = noise.integers(0, 256, (h, w, 3))
    image[h : 2 * h, :w] = noise.integers(0, 256, (h, w, 1))
    image[-h:, :w] = 0
    image[-h:, -w:] = 255
    image[:h, -w:] = (255, 0, 0)
    return image.astype(np.uint8)


images = [
    noise.integers(0, 256, (12, 12, 3)).astype(np.uint8),
    picture(12, 12),
    picture(32, 32),
    picture(40, 56),
]

adjust = {
    "brightness": F.adjust_brightness,
    "contrast": F.adjust_contrast,
    "saturation": F.adjust_saturation,
    "hue": F.adjust_hue,
}
cases = []


def case(name, image, size=None, box=None, flip=False, jitter=(), grayscale=False, kernel=0, sigma=0.0):
    height, width, _ = images[image].shape
    size = size or height
    box = box or [0, 0, height, width]
    x = torch.from_numpy(images[image]).permute(2, 0, 1).float() / 255
    x = F.resized_crop(x, *box, [size, size], antialias=True)
    if flip:
        x = F.hflip(x)
    for kind, amount in jitter:
        x = adjust[kind](x, amount)
    if grayscale:
        x = F.rgb_to_grayscale(x, num_output_channels=3)
    if kernel:
        x = F.gaussian_blur(x, [kernel, kernel], [sigma, sigma])
    cases.append(
        dict(
            name=name, image=image, size=size, box=box, flip=flip, jitter=[dict(kind=k, amount=a) for k, a in jitter],
            grayscale=grayscale, kernel=kernel, sigma=sigma,
            pixels=base64.b64encode(x.permute(1, 2, 0).contiguous().numpy().astype("<f4").tobytes()).decode(),
        )
    )


def amounts(order):
    return [(kind, rng.uniform(-0.1, 0.1) if kind == "hue" else rng.uniform(0.6, 1.4)) for kind in order]


case("identity", 2)
case("flip", 1, flip=True)
for box in [0, 0, 7, 7], [2, 3, 10, 9], [5, 2, 3, 10], [11, 11, 1, 1]:
    case("enlarged", 0, box=box)
case("enlarged", 2, box=[11, 3, 20, 27], flip=True)
case("same size", 3, size=16, box=[20, 33, 16, 16])
case("reduced", 3, size=16)
case("reduced", 3, size=16, box=[1, 2, 39, 50], flip=True)
case("reduced to one half", 3, size=16, box=[4, 4, 32, 32])
case("reduced one way", 3, size=16, box=[30, 0, 9, 56])
case("reduced", 3, size=32, box=[0, 10, 40, 41])
for image in 0, 1:
    for kind in "brightness", "contrast", "saturation":
        for factor in 0.6, 1.4:
            case(kind, image, jitter=[(kind, factor)])
    for shift in -0.5, -0.1, 0.03, 0.1, 0.5:
        case("hue", image, jitter=[("hue", shift)])
    case("grayscale", image, grayscale=True)
    for kernel, sigma in (3, 0.1), (3, 1.0), (3, 2.0), (5, 0.3), (5, 2.0):
        case("blur", image, kernel=kernel, sigma=sigma)
for i, order in enumerate(itertools.permutations(adjust)):
    case("jitter " + " ".join(order), i % 2, jitter=amounts(order))
orders = list(itertools.permutations(adjust))
for image, size, box in (1, 12, [2, 3, 7, 8]), (2, 32, [5, 1, 18, 23]), (3, 16, [3, 9, 36, 40]):
    case("all", image, size, box, True, amounts(rng.choice(orders)), False, 3, 1.3)
    case("all", image, size, box, False, amounts(rng.choice(orders)), True, 5, 0.7)

with open("golden.json", "w") as file:
    pictures = [dict(height=i.shape[0], width=i.shape[1], pixels=base64.b64encode(i.tobytes()).decode()) for i in images]
    json.dump(dict(torchvision=torchvision.__version__, images=pictures, cases=cases), file, indent=0)
    file.write("\n")
