"""Writes cocoap.json: the 12 numbers for boxes and for masks that pycocotools gives for drawn annotations and detections.

    pip install pycocotools==2.0.11
    python cocoap.py                     # the sets that the tests compare
    python cocoap.py 1500 /tmp/all.json  # more of them, and then:
    go test ./sccore/metrics -run EvaluateCOCOGolden -cocoap /tmp/all.json

The sets are drawn by the generator of internal/testvalues/integers.go. cocoset_test.go draws the same JSON, which the digests show. The sets have equal
scores and equal IoU, crowds, the field "ignore", images and categories without objects, boxes without area, areas at the ends of the ranges, more than 100
detections of one image, detections of unknown categories, annotations with the id 0, and detections with boxes, masks or both.
"""

import contextlib
import hashlib
import io
import json
import pathlib
import sys

from pycocotools import mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval


class Integers:
    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n


def runs(r, box, height, width):
    """Counts of a ragged rectangle. Boxes are x, y, width and height in tenths of a pixel."""
    counts, inside_end = [], 0
    for x in range(max(box[0] // 10, 0), min((box[0] + box[2]) // 10, width)):
        top = min(max(box[1] // 10 + r.below(3), 0), height)
        bottom = min(max((box[1] + box[3]) // 10 - r.below(3), 0), height)
        if bottom <= top:
            continue
        if counts and x * height + top == inside_end:
            counts[-1] += bottom - top
        else:
            counts += [x * height + top - inside_end, bottom - top]
        inside_end = x * height + bottom
    if inside_end < height * width:
        counts.append(height * width - inside_end)
    return counts


def numbers(values):
    return "[" + ",".join(f"{v / 10:.1f}" for v in values) + "]"


def segmentation(r, kind, box, height, width):
    """The JSON of a mask: a rectangle, polygons, counts, or compressed text."""
    x, y, w, h = box
    rectangle = [x, y, x, y + h, x + w, y + h, x + w, y]
    if kind == 0:
        return "[" + numbers(rectangle) + "]"
    if kind == 1:
        polygon = []
        for _ in range(3 + r.below(5)):
            polygon.append(x + r.below(w + 1))
            polygon.append(y + r.below(h + 1))
        if r.below(3) == 0:
            return "[" + numbers(polygon) + "," + numbers(rectangle) + "]"
        return "[" + numbers(polygon) + "]"
    counts = runs(r, box, height, width)
    if kind == 2:
        return f'{{"size":[{height},{width}],"counts":[' + ",".join(str(c) for c in counts) + "]}"
    text = mask.frPyObjects({"size": [height, width], "counts": counts}, height, width)["counts"].decode()
    return f'{{"size":[{height},{width}],"counts":{json.dumps(text)}}}'


BOXES, BOTH, MASKS, MASKS_FIRST, BOXES_FIRST, MANY, UNMASKED = range(7)


def draw(seed):
    r = Integers(seed)
    style, grid = r.below(7), [1, 10, 50, 100][r.below(4)]
    images, categories, annotations, detections = [], [], [], []
    for k in range(1 + r.below(5)):
        images.append((7 * k + r.below(7), 20 + r.below(140), 20 + r.below(140)))
    if r.below(2) == 0:
        images.reverse()
    for k in range(1 + r.below(3)):
        categories.append(3 * k + 1 + r.below(3))
    if r.below(2) == 0:
        categories.reverse()
    first = 0 if r.below(20) == 0 else 1
    fine_scores = r.below(2)

    def score():
        return f"0.{r.below(1000):03d}" if fine_scores else f"0.{r.below(10)}"

    def detection(image, category, box):
        number, height, width = image
        if r.below(30) == 0:
            category = 99
        text = f'{{"image_id":{number},"category_id":{category},"score":{score()}'
        if style not in (MASKS, MASKS_FIRST) or style == MASKS_FIRST and detections and r.below(2):
            text += ',"bbox":' + numbers(box)
        if style in (MASKS, MASKS_FIRST):
            text += ',"segmentation":' + segmentation(r, 3, box, height, width)
        elif style == BOTH or style == BOXES_FIRST and r.below(2):
            text += ',"segmentation":' + segmentation(r, r.below(4), box, height, width)
        detections.append(text + "}")

    def side(longest):
        return 0 if r.below(15) == 0 else r.below([20, 60, longest][r.below(3)] * 10) // grid * grid

    def box(height, width):
        return [r.below(width * 10) // grid * grid, r.below(height * 10) // grid * grid, side(width), side(height)]

    for image in images:
        number, height, width = image
        for _ in range(r.below(4) and r.below(8)):
            category, b = categories[r.below(len(categories))], box(height, width)
            area = [b[2] * b[3], b[2] * b[3], b[2] * b[3], 102400, 921600, 0][r.below(6)]
            text = f'{{"id":{first + len(annotations)},"image_id":{number},"category_id":{category},"bbox":{numbers(b)},"area":{area / 100:.2f}'
            text += f',"iscrowd":{int(r.below(6) == 0)}'
            if r.below(8) == 0:
                text += ',"ignore":1'
            if style != UNMASKED:
                text += ',"segmentation":' + segmentation(r, r.below(4), b, height, width)
            annotations.append(text + "}")
            for _ in range(r.below(4)):
                moved = [b[0] + (r.below(5) - 2) * grid, b[1] + (r.below(5) - 2) * grid, max(b[2] + (r.below(5) - 2) * grid, 0), b[3]]
                detection(image, category, moved if r.below(4) else b)
        for _ in range(120 if style == MANY and r.below(2) == 0 else r.below(4)):
            detection(image, categories[0] if style == MANY else categories[r.below(len(categories))], box(height, width))
    if not detections:
        detection(images[0], categories[0], box(images[0][1], images[0][2]))
    truth = '{"images":[' + ",".join(f'{{"id":{n},"height":{h},"width":{w}}}' for n, h, w in images)
    truth += '],"annotations":[' + ",".join(annotations)
    truth += '],"categories":[' + ",".join(f'{{"id":{c}}}' for c in categories) + "]}"
    return style, truth, "[" + ",".join(detections) + "]"


def evaluate(truth, detections, kind):
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = json.loads(truth)
        coco.createIndex()
        judge = COCOeval(coco, coco.loadRes(json.loads(detections)), kind)
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return [float(v) for v in judge.stats]


sets = int(sys.argv[1]) if len(sys.argv) > 1 else 200
path = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(__file__).with_name("cocoap.json")
out = []
for seed in range(sets):
    style, truth, detections = draw(seed)
    row = {"digest": hashlib.sha256((truth + "\n" + detections).encode()).hexdigest()[:8], "boxes": evaluate(truth, detections, "bbox")}
    if style != UNMASKED:
        row["masks"] = evaluate(truth, detections, "segm")
    out.append(json.dumps(row, separators=(",", ":")).replace("-1.0", "-1").replace("0.0,", "0,"))
path.write_text("[\n" + ",\n".join(out) + "\n]\n")
