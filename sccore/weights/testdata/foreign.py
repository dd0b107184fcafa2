"""Files of weights that other training code writes around the transformer of layouts.py, and foreign.json, which says what a reader has to find in them.

Run: python foreign.py   (needs torch and safetensors)

torch.load reads all of them, with the classes at hand; each holds the values of layouts/timm.safetensors or, of the other branch, half of them.
"""

import collections
import datetime
import enum
import json
import pathlib
import sys
import types

import torch
from safetensors.torch import load_file, save_file

folder = pathlib.Path(__file__).parent / "layouts"
weights = load_file(folder / "timm.safetensors")
dim = 8


def under(prefix, scale=1.0, renamed=lambda name: name):
    return {prefix + renamed(name): scale * value for name, value in weights.items()}


def foreign(name, *bases, **members):
    """A class by the name that it has in a package, without the package."""
    module, _, class_name = name.rpartition(".")
    for i in range(len(module.split("."))):
        part = ".".join(module.split(".")[:i + 1])
        sys.modules.setdefault(part, types.ModuleType(part))
    if hasattr(sys.modules[module], class_name):
        return getattr(sys.modules[module], class_name)
    made = enum.Enum(class_name, members, module=module) if enum.Enum in bases else type(class_name, bases, {"__module__": module, **members})
    setattr(sys.modules[module], class_name, made)
    return made


class Keywords(dict):
    """An object that Python makes with keywords: the opcode NEWOBJ_EX of protocol 4."""

    def __getnewargs_ex__(self):
        return (), {"a": 1}

    def __new__(cls, **_):
        return super().__new__(cls)


def move(made, module):
    """Gives a class another module."""
    made.__module__ = module
    foreign(module + "." + made.__name__)
    setattr(sys.modules[module], made.__name__, made)


move(Keywords, "mmengine.config")


def objects():
    """What lies beside weights in the checkpoints of Lightning, mmengine and others."""
    node = foreign("omegaconf.nodes.AnyNode", object)()
    node._metadata, node._val = {"ref_type": object}, 3
    config = foreign("omegaconf.dictconfig.DictConfig", object)()
    config._content = {"lr": node, "path": pathlib.PurePosixPath("out")}
    attributes = foreign("lightning_fabric.utilities.data.AttributeDict", dict)(arch="vit", crops=[2, 4])
    attributes.extra = config
    colour = foreign("mmengine.registry.Mode", enum.Enum, TRAIN=1, TEST=2)
    return {
        "hyper_parameters": config, "attributes": attributes, "started": datetime.datetime(2024, 5, 1, 12, 30), "took": datetime.timedelta(hours=3),
        "losses": collections.deque([0.5, 0.25], maxlen=10), "counts": collections.Counter("aab"), "mode": colour.TRAIN, "tags": {"a", "b"},
        "frozen": frozenset({1}), "number": 1 << 100, "bytes": b"\x00" * 300, "array": bytearray(300), "complex": complex(1, 2), "range": range(3),
        "function": len, "keywords": Keywords(), "nested": [config, (config, attributes)], "spectrum": torch.zeros(2, dtype=torch.complex64),
        "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"total": {"ready": 1}}}},
    }


def wrapped(name):
    """Activation checkpointing in FSDP."""
    return name.replace("blocks.0.", "blocks.0._fsdp_wrapped_module._checkpoint_wrapped_module.").replace("mlp.", "mlp._checkpoint_wrapped_module.")


def moco():
    return {"arch": "vit_small", "state_dict": {**under("module.base_encoder."), "module.base_encoder.head.0.weight": torch.ones(3, dim),
            **under("module.momentum_encoder.", 0.5), "module.predictor.0.weight": torch.ones(2, 2)}}


class Parameters(torch.nn.Parameter):
    """A subclass of tensors."""


move(Parameters, "lightly.parameters")


def tensors(value, prefix=""):
    for key, inner in value.items():
        if isinstance(key, str) and isinstance(inner, torch.Tensor):
            yield prefix + key
        elif isinstance(key, str) and isinstance(inner, dict):
            yield from tensors(inner, prefix + key + ".")


if __name__ == "__main__":
    expected = []
    legacy = {"_use_new_zipfile_serialization": False}
    empty = {"optimizer": {"state": {0: {"step": torch.tensor(1.0), "exp_avg": torch.zeros(0)}}, "flat": torch.empty(0, 3)}}
    for name, made, options, branches, head in (
        ("fsdp.pth", {"model": under("_orig_mod.", renamed=wrapped)}, legacy, {"": "model._orig_mod."}, ""),
        ("compiled-blocks.pth", under("", renamed=lambda name: name.replace("blocks.0.", "blocks.0._orig_mod.")), legacy, {"": ""}, ""),
        ("objects.ckpt", {**objects(), "state_dict": under("model.")}, legacy, {"": "state_dict.model."}, ""),
        ("objects-4.ckpt", {**objects(), "state_dict": under("model.")}, {"pickle_protocol": 4}, {"": "state_dict.model."}, ""),
        ("legacy-3.pth", under(""), {**legacy, "pickle_protocol": 3}, {"": ""}, ""),
        ("legacy-4.pth", {"args": objects(), "model": under("")}, {**legacy, "pickle_protocol": 4}, {"": "model."}, ""),
        ("empty.pth", {"model": under(""), **empty}, legacy, {"": "model."}, ""),
        ("subclass.pth", {name: Parameters(value) for name, value in weights.items()}, legacy, {"": ""}, ""),
        ("moco-v3.pth.tar", moco(), legacy, {"": "state_dict.module.base_encoder.", "base_encoder": "state_dict.module.base_encoder.",
                                             "momentum_encoder": "state_dict.module.momentum_encoder."}, "state_dict.module.base_encoder.head."),
        ("timm-ema.pth.tar", {"epoch": 1, "arch": "vit", "state_dict": under("", 0.5), "state_dict_ema": under("")}, legacy,
         {"": "state_dict_ema.", "state_dict": "state_dict."}, ""),
        ("solo-learn.ckpt", {"state_dict": {**under("backbone."), **under("momentum_backbone.", 0.5), "projector.0.weight": torch.ones(2, dim)}}, legacy,
         {"": "state_dict.backbone.", "momentum": "state_dict.momentum_backbone.", "state_dict.momentum_backbone": "state_dict.momentum_backbone."}, ""),
        ("lightly-train.ckpt", {"state_dict": {**under("teacher_embedding_model.wrapped_model._model."),
                                               **under("student_embedding_model.wrapped_model._model.", 0.5)}, "lightly_train": objects()["attributes"]}, legacy,
         {"": "state_dict.teacher_embedding_model.wrapped_model._model.", "student": "state_dict.student_embedding_model.wrapped_model._model."}, ""),
        ("byol.pth", {**under("online.net."), **under("target.net.", 0.5)}, legacy, {"": "online.net.", "target": "target.net."}, ""),
    ):
        torch.save(made, folder / name, **options)
        keys = sorted(tensors(made))
        seen = list(tensors(torch.load(folder / name, weights_only=False)))
        assert sorted(seen) == keys, name
        renamed = {"fsdp.pth": wrapped, "compiled-blocks.pth": lambda name: name.replace("blocks.0.", "blocks.0._orig_mod.")}.get(name, lambda name: name)
        whole = next(iter(branches.values()))
        for branch, prefix in branches.items():
            expected.append({
                "file": name, "branch": branch, "prefix": prefix, "scale": 1 if prefix == whole else 0.5,
                **({"matched": [prefix + renamed(n) for n in weights]} if renamed("blocks.0.") != "blocks.0." else {}),
                "unused": [k for k in keys if k not in {prefix + renamed(n) for n in weights}],
                "head": [k.removeprefix(head) for k in keys if head and prefix == whole and k.startswith(head)],
            })
    save_file(dict(weights), folder / "safetensors.pth")
    expected.append({"file": "safetensors.pth", "branch": "", "prefix": "", "scale": 1, "unused": [], "head": []})
    repeated = {**weights, "norm.bias": torch.tensor([0.25]).expand(dim)}
    torch.save(repeated, folder / "repeated.pth", **legacy)
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), folder / "torchscript.pt")
    torch.save(torch.nn.Linear(2, 2), folder / "whole-model.pth", **legacy)
    with open(folder / "foreign.json", "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(entry) for entry in expected) + "\n]\n")
