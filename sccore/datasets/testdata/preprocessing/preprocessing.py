"""Writes wide.png, tall.png, small.png and preprocessing.json: what timm and torchvision make of these images for evaluation.

    python preprocessing.py          needs Pillow before 13, torchvision and timm

Pillow 13 resizes the columns first where the height shrinks more than the width. All weights of before were evaluated with the rows first.

Each case has the size of the result and its pixels as an 8-bit PNG, base64, before they are normalised.
"""

import base64
import io
import json
import pathlib

import numpy as np
from PIL import Image
from timm.data.transforms_factory import transforms_imagenet_eval
from torchvision import transforms
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F

here = pathlib.Path(__file__).parent
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def drawn(width, height, seed):
    """Waves, hard edges, single bright pixels, and a corner of noise: what kernels overshoot at and what aliases."""
    noise = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width].astype(float)
    rings = np.sin(0.02 * seed * ((x - 0.4 * width) ** 2 + (y - 0.6 * height) ** 2) ** 0.7)
    image = np.stack([127 + 127 * rings, 255 * ((x // 3 + y // 5) % 2), 255 * x / width], -1)
    image[height // 3 : height // 2, width // 4 : width // 3] = (255, 0, 255)
    image[noise.integers(0, height, 9), noise.integers(0, width, 9)] = 255
    part = image[: height // 4, : width // 4]
    part[:] = noise.integers(0, 256, part.shape)
    return Image.fromarray(image.round().astype(np.uint8))


images = {"wide.png": drawn(97, 61, 3), "tall.png": drawn(45, 130, 5), "small.png": drawn(20, 17, 7)}
cases = []


def case(name, result, **preprocessing):
    file = io.BytesIO()
    result.save(file, "png", optimize=True)
    cases.append({"image": name, "height": result.height, "width": result.width, **preprocessing, "png": base64.b64encode(file.getvalue()).decode()})


for name, image in images.items():
    image.save(here / name, optimize=True)
    for size, crop_pct, interpolation, mode in [
        (28, 0.875, "bicubic", "center"), (28, 0.875, "bilinear", "center"), (32, 1.0, "bicubic", "center"), (24, 0.9, "bilinear", "center"),
        (28, 1.0, "bilinear", "squash"), (24, 0.95, "bicubic", "squash"), (61, 1.0, "bicubic", "center"),
    ]:
        transform = transforms_imagenet_eval(size, crop_pct, mode, interpolation=interpolation, mean=MEAN, std=STD, normalize=False)
        result = Image.fromarray(transform(image).permute(1, 2, 0).numpy())
        case(name, result, size=size, crop_pct=crop_pct, interpolation=interpolation, crop_mode=mode)
    for size, patch, interpolation in [(24, 8, "bicubic"), (30, 14, "bilinear")]:  # The whole image.
        resized = transforms.Resize(size, InterpolationMode(interpolation))(image)
        right, below = -resized.width % patch, -resized.height % patch
        padded = F.pad(resized, [0, 0, right, below], fill=tuple(round(255 * v) for v in MEAN))
        case(name, padded, size=size, patch=patch, crop_pct=1.0, interpolation=interpolation, crop_mode="whole")

# One image normalised.
normalized = transforms_imagenet_eval(4, 1.0, "center", interpolation="bicubic", mean=(0.5, 0.4, 0.3), std=(0.1, 0.2, 0.25))(images["wide.png"])
values = {"mean": [0.5, 0.4, 0.3], "std": [0.1, 0.2, 0.25], "values": normalized.permute(1, 2, 0).flatten().tolist()}
(here / "preprocessing.json").write_text(json.dumps({"cases": cases, "normalized": values}, indent=0) + "\n")
