"""Makes whole.json: what Pillow makes of the images beside it, all of each, shrunk bicubically to a longer side of 16 pixels.

Run in this folder after golden.py: python whole.py (Pillow, NumPy).
"""

import json

import numpy as np
from PIL import Image

golden = []
for name in ["rgb.png", "cmyk.jpg", "progressive.jpg", "grey.jpg"]:
    picture = Image.open(name).convert("RGB")
    scale = 16 / max(picture.size)
    size = tuple(round(side * scale) for side in picture.size)
    golden.append({"file": name, "height": size[1], "width": size[0],
                   "pixels": np.asarray(picture.resize(size, Image.BICUBIC)).ravel().tolist()})
with open("whole.json", "w") as out:
    out.write("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in golden) + "\n]\n")
