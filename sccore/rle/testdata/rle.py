"""Writes rle.json: masks of polygons, of boxes and of pixels by pycocotools, with their areas, boxes, unions, intersections and IoU.

    pip install pycocotools==2.0.11
    python rle.py

The inputs are drawn by the generator of internal/testvalues/integers.go, and the test draws the same. The file holds the first results as text and a digest
of all of them.
"""

import hashlib
import json
import pathlib

import numpy as np
from pycocotools import mask

CASES, SHOWN = 2000, 12


class Integers:
    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n


def polygon(r, height, width):
    """Corners in hundredths of a pixel, up to half the image outside it; some on whole pixels, some twice."""
    unit = [1, 10, 20, 50, 100][r.below(5)]
    out = []
    for _ in range(3 + r.below(8)):
        x = (r.below(2 * width * 100 // unit + 1) * unit - width * 50) / 100
        y = (r.below(2 * height * 100 // unit + 1) * unit - height * 50) / 100
        for _ in range(1 + r.below(8) // 7):
            out += [x, y]
    return out


def merged(polygons, height, width):
    return mask.merge(mask.frPyObjects(polygons, height, width))


def case(seed):
    r = Integers(seed)
    height, width = 1 + r.below(60), 1 + r.below(60)
    masks = [merged([polygon(r, height, width) for _ in range(1 + r.below(3))], height, width)]
    x, y, w, h = [v / 10 for v in (r.below(width * 10), r.below(height * 10), r.below(width * 10), r.below(height * 10))]
    masks.append(merged([[x, y, x, y + h, x + w, y + h, x + w, y]], height, width))
    share = r.below(5)
    masks.append(mask.encode(np.asfortranarray([[r.below(4) < share for _ in range(width)] for _ in range(height)], dtype=np.uint8)))
    lines = [f"{seed} {height} {width}"]
    for m in masks:
        lines.append(f"{m['counts'].decode()} {mask.area(m)} " + " ".join(str(int(v)) for v in mask.toBbox(m)))
    for intersect in (0, 1):
        lines.append(mask.merge(masks, intersect=intersect)["counts"].decode())
    for crowd in (0, 1):
        for a, b in ((0, 1), (1, 2), (2, 0)):
            lines.append(f"{mask.iou([masks[a]], [masks[b]], [crowd])[0][0]:.13f}")
    return lines


digest, shown = hashlib.sha256(), []
for seed in range(CASES):
    lines = case(seed)
    digest.update(("\n".join(lines) + "\n").encode())
    if seed < SHOWN:
        shown.append(lines)
path = pathlib.Path(__file__).with_name("rle.json")
path.write_text(json.dumps({"cases": CASES, "sha256": digest.hexdigest(), "shown": shown}, indent=1) + "\n")
