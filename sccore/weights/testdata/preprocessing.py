"""What image processors of transformers and transforms of timm make of two drawn images by the files that they keep beside weights: preprocessing.json.

Run: python preprocessing.py   (needs timm, torchvision and transformers)
"""

import json
import pathlib

import numpy
import timm.data
import transformers
from PIL import Image
from timm.models import PretrainedCfg

half = 1 / 255


def drawn(height, width):
    y, x, c = numpy.mgrid[:height, :width, :3]
    return Image.fromarray(((37 * x + 11 * y * y + 5 * x * y * (c + 1) + 80 * c) % 256).astype(numpy.uint8))


images = [drawn(20, 30), drawn(33, 19)]
vit, bit = {"image_processor_type": "ViTImageProcessor", "size": {"height": 4, "width": 4}}, {"image_processor_type": "BitImageProcessor"}
short = {"size": {"shortest_edge": 5}, "crop_size": {"height": 4, "width": 4}}
cases = {
    "Bit, all keys": {**bit, **short, "do_center_crop": True, "do_convert_rgb": True, "do_normalize": True, "do_rescale": True, "do_resize": True,
                      "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "resample": 3, "rescale_factor": half},
    "Bit's defaults": {**bit, **short},
    "Bit's bilinear": {**bit, **short, "resample": 2},
    "CLIP, sizes of one number": {"image_processor_type": "CLIPImageProcessor", "size": 5, "crop_size": 4},
    "CLIP of old": {"feature_extractor_type": "CLIPFeatureExtractor", "size": 5, "crop_size": [4, 4]},
    "ViT's defaults": vit,
    "ViT, a size of one number": {**vit, "size": 4},
    "ViT, nulls": {**vit, "do_normalize": None, "crop_size": None, "do_center_crop": None, "do_pad": None},
    "ViT with a crop": {**vit, "size": 7, "crop_size": 4, "do_center_crop": True},
    "ViT, not normalised": {**vit, "do_normalize": False, "image_mean": [0.485, 0.456, 0.406]},
    "ViT, not rescaled": {**vit, "do_rescale": False, "image_mean": [123.7, 116.3, 103.5], "image_std": [58.4, 57.1, 57.4]},
    "ViT, neither": {**vit, "do_rescale": False, "do_normalize": False},
    "ViT, another factor": {**vit, "rescale_factor": 2 * half},
    "ViT, colours of one number": {**vit, "image_mean": 0.25, "image_std": 0.5},
    "ViT by the model's type": {"model_type": "vit_mae", "size": 4},
    "Bit by the model's type": {"model_type": "dinov2", **short},
    "DeiT": {"image_processor_type": "DeiTImageProcessor", "size": 7, "crop_size": 4},
    "DINOv3": {"image_processor_type": "DINOv3ViTImageProcessorFast", "size": {"height": 4, "width": 4}},
}
timms = {
    "timm's defaults": {"input_size": [3, 4, 4]},
    "timm, nulls": {"input_size": [3, 4, 4], "interpolation": None, "crop_pct": None, "mean": None, "std": None, "crop_mode": None},
    "timm, all keys": {"input_size": [3, 4, 4], "interpolation": "bilinear", "crop_pct": 0.6, "crop_mode": "center", "mean": [0.5, 0.4, 0.3],
                       "std": [0.2, 0.3, 0.4], "test_input_size": [3, 8, 8], "test_crop_pct": 1.0, "fixed_input_size": True, "num_classes": 10},
    "timm, squashed": {"input_size": [3, 4, 4], "crop_mode": "squash", "crop_pct": 0.5},
}


def processor(config):
    config = dict(config)
    kind = config.pop("image_processor_type", config.pop("feature_extractor_type", None))
    model_type = config.pop("model_type", None)
    kind = kind or {"vit_mae": "ViTImageProcessor", "dinov2": "BitImageProcessor"}[model_type]
    kind = kind.replace("FeatureExtractor", "ImageProcessor").removesuffix("Fast")
    if not kind.startswith("DINOv3"):  # Which exists for torchvision alone and resizes numbers that are not rounded.
        kind += "Pil"
    made = getattr(transformers, kind)(**config)
    return lambda image: numpy.asarray(made(images=image, return_tensors="np")["pixel_values"][0]).transpose(1, 2, 0)


def transform(config):
    made = timm.data.create_transform(**timm.data.resolve_data_config(pretrained_cfg=PretrainedCfg(**config).to_dict()))
    return lambda image: made(image).numpy().transpose(1, 2, 0)


with open(pathlib.Path(__file__).parent / "preprocessing.json", "w") as file:
    lines = []
    for name, config in {**cases, **timms}.items():
        made = (transform if name in timms else processor)(config)
        values = [[float("%.6g" % v) for v in made(image).flatten().tolist()] for image in images]
        entry = {"name": name, "values": values}
        model_type = config.pop("model_type", None)
        entry["files"] = {"config.json": {"architecture": "vit_tiny_patch16_224", "pretrained_cfg": config}} if name in timms else {"preprocessor_config.json": config}
        if model_type:
            entry["files"]["config.json"] = {"model_type": model_type}
        lines.append(json.dumps(entry))
    file.write("[\n" + ",\n".join(lines) + "\n]\n")
