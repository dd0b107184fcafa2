"""Files of weights in the layouts that each family of models publishes, and layouts.json, which says what a reader has to find in them.

Run: python layouts.py   (needs torch, timm and safetensors)

The names follow the training code of DINO (main_dino.py), iBOT (main_ibot.py), Mugs (main.py) and Leopart (a LightningModule).
"""

import argparse
import json
import pathlib
import sys
import types

import numpy
import timm
import torch
from torch import nn
from safetensors.torch import save_file

from vit import randomise

folder = pathlib.Path(__file__).parent / "layouts"
dim = 8


def backbone():
    return timm.models.vision_transformer.VisionTransformer(
        img_size=8, patch_size=4, embed_dim=dim, depth=1, num_heads=2, num_classes=0, global_pool="token")


weights = dict(randomise(backbone(), 3).state_dict())


def under(prefix, state, scale=1.0):
    return {prefix + name: scale * value if value.is_floating_point() else value for name, value in state.items()}


def normed(out):
    """A linear layer with its norm apart, as nn.utils.weight_norm keeps it."""
    return {"weight_g": torch.ones(out, 1), "weight_v": torch.linspace(-1, 1, out * 4).reshape(out, 4)}


def dino_head(norm=False):
    layers = [nn.Linear(dim, 6), nn.BatchNorm1d(6), nn.GELU()] if norm else [nn.Linear(dim, 6), nn.GELU()]
    state = under("mlp.", nn.Sequential(*layers, nn.Linear(6, 4)).state_dict())
    return {**state, **under("last_layer.", normed(5))}


def optimizer(parameters):
    made = torch.optim.AdamW([{"params": parameters, "name": "blocks"}])
    for p in parameters:
        p.grad = torch.ones_like(p)
    made.step()
    state = made.state_dict()
    state["param_groups"][0]["weight_decay"] = numpy.float64(0.04)  # Schedules are arrays of NumPy.
    return state


arguments = argparse.Namespace(arch="vit_small", output_dir=pathlib.PosixPath("out"), global_crops_scale=(0.25, 1.0), use_fp16=True, gpu=torch.device("cpu"))
common = {"optimizer": optimizer([nn.Parameter(torch.ones(2))]), "epoch": 100, "args": arguments, "fp16_scaler": {"scale": 65536.0, "_growth_tracker": 3}}


def dino():
    # The teacher's tensors are pieces of one array here, which every reader of offsets has to get right.
    teacher, at = {}, 5
    flat = torch.cat([torch.full((at,), 9.0), *(value.flatten() for value in weights.values())])
    for name, value in weights.items():
        teacher["backbone." + name] = flat[at:at + value.numel()].reshape(value.shape)
        at += value.numel()
    return {"student": {**under("module.backbone.", weights, 0.5), **under("module.head.", dino_head())},
            "teacher": {**teacher, **under("head.", dino_head())}, **common, "dino_loss": {"center": torch.zeros(1, 5)}}


def ibot():
    head = dino_head(norm=True)
    head.update(under("last_norm.", nn.BatchNorm1d(5, affine=False).state_dict()))
    shared = {**head, **{name.replace("last_layer.", "last_layer2."): value for name, value in head.items() if "last_layer." in name}}
    return {"student": {**under("module.backbone.", weights, 0.5), "module.backbone.masked_embed": torch.zeros(1, dim), **under("module.head.", shared)},
            "teacher": {**under("module.backbone.", weights), **under("module.head.", shared)}, **common,
            "ibot_loss": {"center": torch.zeros(1, 5), "center2": torch.zeros(1, 1, 5)}}


def mugs_backbone():
    return {**weights, **{name.replace("blocks.0.", "relation_blocks.0."): 3 * value for name, value in weights.items() if name.startswith("blocks.0.")}}


def mugs():
    projector = under("projector.", nn.Sequential(nn.Linear(dim, 6, bias=False), nn.BatchNorm1d(6), nn.GELU(), nn.Linear(6, 4, bias=False)).state_dict())
    heads = {**under("instance_head.", projector), **under("local_group_head.", projector), **under("group_head.", projector),
             **under("group_head.last_layer.", normed(5))}
    predictor = {"instance_head.predictor.0.weight": torch.ones(4, 4), "local_group_head.predictor.0.weight": torch.ones(4, 4)}
    memory = {"weak.block.queue_q": torch.zeros(3, dim), "weak.block.queue_ptr": torch.zeros(1, dtype=torch.long)}
    return {"student": {**under("module.backbone.", mugs_backbone(), 0.5), **under("module.", {**heads, **predictor})},
            "teacher": {**under("module.backbone.", mugs_backbone()), **under("module.", heads)},
            "student_mem": memory, "teacher_mem": dict(memory), **common,
            "instance-sup.": {}, "local-group-sup.": {}, "group-sup.": {"center": torch.zeros(1, 5)}}


def lightning(name):
    """A class by the name that it has in Lightning, without Lightning."""
    module, _, class_name = name.rpartition(".")
    made = type(class_name, (dict,), {"__module__": module})
    for i in range(len(module.split("."))):
        part = ".".join(module.split(".")[:i + 1])
        sys.modules.setdefault(part, types.ModuleType(part))
    setattr(sys.modules[module], class_name, made)
    return made


def leopart():
    head = {**under("projection_head.", nn.Sequential(nn.Linear(dim, 6), nn.GELU(), nn.Linear(6, 4)).state_dict()), "prototypes.weight": torch.ones(5, 4)}
    checkpoint = lightning("pytorch_lightning.callbacks.model_checkpoint.ModelCheckpoint")
    attributes = lightning("pytorch_lightning.utilities.parsing.AttributeDict")
    return {"epoch": 50, "global_step": 1000, "pytorch-lightning_version": "1.2.3",
            "callbacks": {checkpoint: {"monitor": None, "best_model_score": None, "best_model_path": ""}},
            "optimizer_states": [common["optimizer"]], "lr_schedulers": [{"T_max": 10, "base_lrs": [0.1], "_last_lr": [numpy.float64(0.1)]}],
            "state_dict": {**under("teacher.", {**weights, **head}), **under("model.", {**weights, **head}, 0.5)},
            "hparams_name": "kwargs", "hyper_parameters": attributes(arch="vit-small", nmb_crops=[2, 4])}


def tensors(value, prefix=""):
    for key, inner in value.items():
        if isinstance(key, str) and isinstance(inner, torch.Tensor):
            yield prefix + key
        elif isinstance(key, str) and isinstance(inner, dict):
            yield from tensors(inner, prefix + key + ".")


if __name__ == "__main__":
    torch.manual_seed(0)
    folder.mkdir(exist_ok=True)
    save_file({name: value.contiguous() for name, value in weights.items()}, folder / "timm.safetensors")
    expected = []
    for name, made, branches, head in (
        ("dino.pth", dino(), {"teacher": "teacher.backbone.", "student": "student.module.backbone."}, "head."),
        ("dino-backbone.pth", dict(weights), {"": ""}, None),
        ("ibot.pth", ibot(), {"teacher": "teacher.module.backbone.", "student": "student.module.backbone."}, "head."),
        ("ibot-teacher.pth", {"state_dict": {**weights, "head.weight": torch.ones(5, dim), "head.bias": torch.zeros(5)}}, {"": "state_dict."}, "head."),
        ("mugs.pth", mugs(), {"teacher": "teacher.module.backbone.", "student": "student.module.backbone."}, "head."),
        ("mugs-backbone.pth", {"state_dict": under("module.", mugs_backbone())}, {"": "state_dict.module."}, None),
        ("leopart.ckpt", leopart(), {"teacher": "state_dict.teacher.", "student": "state_dict.model."}, None),
        ("leopart-model.pth", under("model.", weights), {"": "model."}, None),
    ):
        torch.save(made, folder / name)
        keys = sorted(tensors(made))
        for branch, prefix in branches.items():
            around = prefix.removesuffix("backbone.") + (head or "head.")
            expected.append({
                "file": name, "branch": branch, "prefix": prefix, "scale": 0.5 if branch == "student" else 1,
                "unused": [k for k in keys if k not in {prefix + n for n in weights}],
                "head": [k.removeprefix(around) for k in keys if k.startswith(around) and not k.endswith("num_batches_tracked")],
            })
    linear = dict(weights)
    linear["patch_embed.proj.weight"] = linear["patch_embed.proj.weight"].flatten(1)
    torch.save(linear, folder / "linear-patches.pth")
    diverged = {name: value.clone() for name, value in weights.items()}
    diverged["norm.bias"][3] = -torch.inf
    torch.save({"teacher": under("backbone.", diverged)}, folder / "diverged.pth")
    with open(folder / "layouts.json", "w") as file:
        json.dump(expected, file, indent=1)
