"""Writes oddcoco.json: annotations and detections as people's tools write them, each with the AP of boxes that pycocotools has for their plain form.

pip install pycocotools; python oddcoco.py > oddcoco.json
"""
import contextlib, copy, io, json, sys

from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

box = lambda x, y, w, h: [x, y, w, h]
polygon = lambda b: [b[0], b[1], b[0] + b[2], b[1], b[0] + b[2], b[1] + b[3], b[0], b[1] + b[3]]
truth = {
    "images": [{"id": i, "width": 100, "height": 80, "file_name": f"{i}.jpg"} for i in (1, 2, 3)],
    "categories": [{"id": 7, "name": "cat"}, {"id": 90, "name": "dog"}],
    "annotations": [
        {"id": i + 1, "image_id": image, "category_id": category, "bbox": b, "area": b[2] * b[3], "iscrowd": 0, "segmentation": [polygon(b)]}
        for i, (image, category, b) in enumerate([
            (1, 7, box(10, 10, 30, 30)), (1, 7, box(50, 20, 20, 40)), (1, 90, box(5, 40, 60, 30)),
            (2, 7, box(0, 0, 50, 50)), (3, 90, box(20, 30, 40, 20)), (3, 90, box(70, 5, 25, 60))])],
}
found = [
    {"image_id": image, "category_id": category, "bbox": b, "score": score}
    for image, category, b, score in [
        (1, 7, box(11, 10, 30, 28), .9), (1, 7, box(51, 20, 20, 38), .8), (1, 90, box(6, 40, 60, 28), .7), (2, 7, box(1, 0, 50, 48), .9),
        (2, 90, box(1, 0, 50, 48), .9), (3, 90, box(21, 30, 40, 19), .9), (3, 90, box(0, 5, 25, 60), .9)]]


def ap(truth, found):
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = copy.deepcopy(truth)
        coco.createIndex()
        e = COCOeval(coco, coco.loadRes(copy.deepcopy(found)), "bbox")
        e.evaluate(), e.accumulate(), e.summarize()
    return float(e.stats[0])


def case(name, change_truth=lambda t: None, change_found=lambda f: None, judged=True):
    t, f = copy.deepcopy(truth), copy.deepcopy(found)
    change_truth(t), change_found(f)
    # What pycocotools itself fails on is judged in its plain form.
    return {"name": name, "truth": t, "found": f, "ap": ap(t, f) if judged else ap(truth, found)}


def each(key, of, change):
    for o in of:
        change(o)


def ids(convert):
    def in_truth(t):
        for i in t["images"]:
            i["id"] = convert(i["id"])
        for a in t["annotations"]:
            a["image_id"] = convert(a["image_id"])

    def in_found(f):
        for d in f:
            d["image_id"] = convert(d["image_id"])
    return in_truth, in_found


def set_all(key, value):
    return lambda t: [a.update({key: value(a)}) for a in t["annotations"]]


def drop(where, key):
    return lambda t: [a.pop(key) for a in t[where]]


cases = [
    case("plain"),
    case("ids with a point", *ids(float)),
    case("ids that are texts", *ids(lambda i: f"img_{9 - i}")),
    case("images without sizes", lambda t: [drop("images", k)(t) for k in ("width", "height")]),
    case("flat polygons", set_all("segmentation", lambda a: polygon(a["bbox"]))),
    case("a polygon of two points", lambda t: t["annotations"][0]["segmentation"].append([1, 2, 3, 4])),
    case("empty segmentations", set_all("segmentation", lambda a: [])),
    case("crowd 0.0", set_all("iscrowd", lambda a: 0.0)),
    case("without areas", drop("annotations", "area"), judged=False),
    case("without segmentations", drop("annotations", "segmentation")),
    case("a box outside the image", lambda t: t["annotations"][5].update(bbox=[200, 5, 25, 60])),
    case("ids of categories that are texts",
         lambda t: (each("id", t["categories"], lambda c: c.update(id=f"c{c['id']}")), set_all("category_id", lambda a: f"c{a['category_id']}")(t)),
         lambda f: each("category_id", f, lambda d: d.update(category_id=f"c{d['category_id']}"))),
]
json.dump(cases, sys.stdout, separators=(",", ":"))
print()
