"""Vision transformers with random weights, as PyTorch and timm write and compute them.

    python vit.py                    makes tiny-*.pth, tiny.safetensors and tiny.json: a transformer small enough to keep
    python vit.py SEMCON [--arch A]  compares the built binary's features at full size with timm's, at 224², 448² and 336×480, from .pth with
                                     either way of resizing positions, and again from what "semcon import" writes, which timm has to load
                                     strictly; prints the largest difference of each

Needs torch, timm and safetensors.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import timm
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional

here = pathlib.Path(__file__).parent


def randomise(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        scale = 0.5 if p.dim() < 3 else 1.0
        if p.dim() in (2, 4):
            scale = math.sqrt(1 / p[0].numel())
        p.data = scale * torch.randn(p.shape, generator=generator)
        if "norm" in name and name.endswith("weight"):
            p.data += 1
    return model.eval()


def dino_positions(model, rows, columns):
    """The embeddings as DINO's own code resizes them: scale factors of a grid that is 0.1 larger than it is."""
    table, side = model.pos_embed, int(math.sqrt(model.pos_embed.shape[1] - 1))
    if (rows, columns) == (side, side):
        return table
    grid = table[:, 1:].reshape(1, side, side, -1).permute(0, 3, 1, 2)
    grid = functional.interpolate(grid, scale_factor=((rows + 0.1) / side, (columns + 0.1) / side), mode="bicubic")
    assert grid.shape[2:] == (rows, columns)
    return torch.cat([table[:, :1], grid.permute(0, 2, 3, 1).flatten(1, 2)], 1)


def tokens(model, images, way):
    """All tokens after the last normalisation, by timm itself or with DINO's positions."""
    if way == "timm":
        return model.forward_features(images)
    x = model.patch_embed(images)  # [batch, rows, columns, features]
    rows, columns = x.shape[1:3]
    x = torch.cat([model.cls_token.expand(len(x), -1, -1), x.flatten(1, 2)], 1) + dino_positions(model, rows, columns)
    return model.norm(model.blocks(x))


def wave(k, shape):
    n = math.prod(shape)
    return torch.tensor([math.sin(12.9898 * i + 78.233 * k) for i in range(n)], dtype=torch.float64).reshape(shape)


def nested(model, arguments):
    """What DINO's training saves: both branches, the student's wrapped, with heads, optimizer and arguments."""
    state = model.state_dict()
    student = {"module.backbone." + name: value * 0.5 for name, value in state.items()}
    teacher = {"backbone." + name: value for name, value in state.items()}
    # Views with an offset and with strides: what a reader gets wrong that takes a tensor for its storage.
    table = torch.cat([torch.full_like(state["pos_embed"][0, :3], 9.0), state["pos_embed"][0]])
    teacher["backbone.pos_embed"] = table[3:].unsqueeze(0)
    teacher["backbone.blocks.0.mlp.fc1.weight"] = state["blocks.0.mlp.fc1.weight"].t().contiguous().t()
    head = torch.nn.Sequential(torch.nn.Linear(model.embed_dim, 8), torch.nn.GELU(), torch.nn.Linear(8, 4))
    for name, value in head.state_dict().items():
        teacher["head.mlp." + name] = student["module.head.mlp." + name] = value
    optimizer = torch.optim.AdamW(head.parameters())
    head(torch.ones(1, model.embed_dim)).sum().backward()
    optimizer.step()
    return {"student": student, "teacher": teacher, "optimizer": optimizer.state_dict(), "epoch": 3, "args": arguments,
            "fp16_scaler": None, "dino_loss": {"center": torch.zeros(1, 4)}}


def make_tiny():
    torch.manual_seed(0)
    model = timm.models.vision_transformer.VisionTransformer(
        img_size=16, patch_size=4, embed_dim=16, depth=2, num_heads=2, num_classes=0, global_pool="token", dynamic_img_size=True)
    randomise(model, 1)
    state = model.state_dict()
    arguments = argparse.Namespace(arch="vit_tiny", patch_size=4, lr=0.0005, output_dir=pathlib.PurePosixPath("."), names=("a", "b"))
    arguments.output_dir = str(arguments.output_dir)
    torch.save(nested(model, arguments), here / "tiny-dino.pth")
    torch.save(nested(model, arguments), here / "tiny-legacy.pth", _use_new_zipfile_serialization=False)
    torch.save({"state_dict": {"model." + n: v.half() for n, v in state.items()}}, here / "tiny-half.pth")
    torch.save(torch.nn.Conv2d(3, 8, 3).state_dict(), here / "convolution.pth")
    save_file({n: v.contiguous() for n, v in state.items()}, here / "tiny.safetensors")
    cases = []
    model = model.double()
    for way in ("dino", "timm"):
        for height, width in ((16, 16), (32, 32), (12, 24)):
            images = wave(1, (2, height, width, 3)).permute(0, 3, 1, 2)
            model.zero_grad()
            y = tokens(model, images, way)
            (y * wave(2, y.shape)).sum().backward()
            cases.append({
                "positions": way, "height": height, "width": width, "tokens": rounded(y),
                "gradients": {n: rounded(p.grad)[:64] for n, p in model.named_parameters()},
            })
    with open(here / "tiny.json", "w") as file:
        json.dump(cases, file, separators=(",", ":"))


def rounded(tensor):
    return [float("%.8g" % v) for v in tensor.detach().flatten().tolist()]


def compare(semcon, arch):
    name = {"vit-s16": "vit_small_patch16_224", "vit-b16": "vit_base_patch16_224", "vit-b8": "vit_base_patch8_224"}[arch]
    model = randomise(timm.create_model(name, num_classes=0, dynamic_img_size=True), 1)
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        torch.save(nested(model, argparse.Namespace(arch=name)), folder / "dino.pth")
        subprocess.run([semcon, "import", folder / "dino.pth", "--out", folder / "ours.safetensors"], check=True, stdout=subprocess.DEVNULL)
        fresh = timm.create_model(name, num_classes=0, dynamic_img_size=True).eval()
        fresh.load_state_dict(load_file(folder / "ours.safetensors"), strict=True)
        for height, width in ((224, 224), (448, 448), (336, 480)):
            images = torch.randn(1, height, width, 3, generator=torch.Generator().manual_seed(2))
            save_file({"images": images}, folder / "images.safetensors")
            for way in ("dino", "timm"):
                with torch.no_grad():
                    want = tokens(model, images.permute(0, 3, 1, 2), way)
                    assert torch.equal(want, tokens(fresh, images.permute(0, 3, 1, 2), way)), "timm computes otherwise from the import"
                for weights in ("dino.pth", "ours.safetensors"):
                    subprocess.run([semcon, "features", folder / "images.safetensors", "--weights", folder / weights, "--positions", way, "--patches",
                                    "--out", folder / "features.safetensors"], check=True, stdout=subprocess.DEVNULL)
                    got = load_file(folder / "features.safetensors")
                    far = max((got["class"] - want[:, 0]).abs().max(), (got["patches"].flatten(1, 2) - want[:, 1:]).abs().max()).item()
                    print("%s %d×%d, positions %s, from %s: %.1e" % (arch, height, width, way, weights, far), flush=True)
                    worst = max(worst, far)
    return worst


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("semcon", nargs="?")
    parser.add_argument("--arch", choices=["vit-s16", "vit-b16", "vit-b8"], action="append")
    chosen = parser.parse_args()
    if chosen.semcon is None:
        make_tiny()
    else:
        worst = max(compare(chosen.semcon, arch) for arch in chosen.arch or ["vit-s16", "vit-b16", "vit-b8"])
        sys.exit(worst > 1e-4 and "the largest difference, %.1e, is above 1e-4" % worst)
