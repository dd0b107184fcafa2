"""Makes the images beside it and golden.json: what Pillow makes of them, cropped about the centre and resized bicubically.

Run in this folder: python golden.py (Pillow, NumPy).
"""

import json

import numpy as np
from PIL import Image

x, y = np.meshgrid(np.arange(40), np.arange(24))
colours = np.stack([6 * x, 10 * y, 128 + 100 * np.sin(x / 5) * np.cos(y / 4)], axis=-1).astype(np.uint8)
# Blocks of one colour: what a decoder does between them is its own affair.
blocks = colours[4::16, 4::16].repeat(16, 0).repeat(16, 1)[:24, :40]

Image.fromarray(colours).save("rgb.png")
Image.fromarray(blocks).convert("CMYK").save("cmyk.jpg", quality=95)
Image.fromarray(blocks).save("progressive.jpg", quality=95, progressive=True, subsampling=0)
Image.fromarray(colours).convert("L").save("grey.jpg", quality=95)

golden = []
for name in ["rgb.png", "cmyk.jpg", "progressive.jpg", "grey.jpg"]:
    picture = Image.open(name).convert("RGB")
    side = min(picture.size)
    left, top = (picture.width - side) // 2, (picture.height - side) // 2
    square = picture.crop((left, top, left + side, top + side))
    for size in [24, 10] + ([32] if name == "rgb.png" else []):
        pixels = np.asarray(square.resize((size, size), Image.BICUBIC))
        golden.append({"file": name, "size": size, "pixels": pixels.ravel().tolist()})

with open("golden.json", "w") as out:
    out.write("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in golden) + "\n]\n")
