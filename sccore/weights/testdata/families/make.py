"""Tiny members of each family of vision transformers under each naming, and the features that they compute.

Run: python make.py   (needs torch, timm, transformers and safetensors)

The weights of a family are drawn once under the official names. timm's own converter makes timm's names of them; the names of transformers are
checked by loading them without a missing or an unused key. families.json describes the files, features.safetensors holds the [CLS] token and the
patches' tokens for images of several sizes: of official files by official.py, of the others by timm and transformers themselves. Before anything is
written, official.py is compared with both.
"""

import json
import logging
import math
import pathlib
import re
import shutil
import sys

import timm
import torch
import transformers
from safetensors.torch import save_file
from timm.models import eva, vision_transformer

from official import Official

here = pathlib.Path(__file__).parent
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
logging.disable(logging.WARNING)

mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
half = (0.5, 0.5, 0.5)

# What each family is: Official's arguments; timm's architecture with its tag and further arguments; the model of transformers with its configuration;
# the methods of resizing positions of the official code and of transformers (timm's is "timm").
plain = dict(dim=16, heads=2, patch=4)
shallow = dict(**plain, depth=1)
families = {
    "dino": dict(generation=1, net=plain, timm=("vit_small_patch16_224", "dino", {}), hf=("ViTModel", {}), positions=("dino", "transformers")),
    "mae": dict(generation=1, net=shallow, timm=("vit_base_patch16_224", "mae", {}), hf=("ViTMAEForPreTraining", dict(
        decoder_hidden_size=8, decoder_num_hidden_layers=1, decoder_num_attention_heads=2, decoder_intermediate_size=32)),
        positions=("transformers", "transformers")),
    "deit": dict(generation=1, net=shallow, timm=("deit_small_patch16_224", "fb_in1k", {"num_classes": 3}),
                 hf=("ViTForImageClassification", {"num_labels": 3}), positions=("transformers", "transformers")),
    "augreg": dict(generation=1, net=shallow, timm=("vit_small_patch16_224", "augreg_in21k_ft_in1k", {"num_classes": 3}),
                   hf=("ViTModel", {"pooler": True}), positions=(None, "transformers")),
    "dinov2": dict(generation=2, net=dict(dim=16, heads=2, patch=14, depth=1), timm=("vit_small_patch14_dinov2", "lvd142m", {}), hf=("Dinov2Model", {}),
                   positions=("dino", "transformers")),
    "dinov2-reg": dict(generation=2, net=dict(**plain, registers=4), timm=("vit_small_patch14_reg4_dinov2", "lvd142m", {}),
                       hf=("Dinov2WithRegistersModel", {"num_register_tokens": 4}), positions=("timm", "timm")),
    "dinov2-giant": dict(generation=2, net=dict(dim=24, heads=2, patch=4, depth=1, registers=4, swiglu=True, hidden=64),
                         timm=("vit_giant_patch14_reg4_dinov2", "lvd142m", {}),
                         hf=("Dinov2WithRegistersModel", {"num_register_tokens": 4, "use_swiglu_ffn": True}), positions=("timm", "timm")),
    "dinov3": dict(generation=3, net=dict(dim=24, heads=2, patch=4, registers=4, eps=1e-5), timm=("vit_small_patch16_dinov3_qkvb", "lvd1689m", {}),
                   hf=("DINOv3ViTModel", {}), positions=("", "")),
    "dinov3-plus": dict(generation=3, net=dict(dim=24, heads=2, patch=4, depth=1, registers=4, eps=1e-5, swiglu=True, hidden=96),
                        timm=("vit_small_plus_patch16_dinov3_qkvb", "lvd1689m", {}), hf=("DINOv3ViTModel", {"use_gated_mlp": True, "hidden_act": "silu"}), positions=("", "")),
}


def sizes(patch):
    """Images as large as the positions, larger ones, and oblong ones with fewer rows and more columns."""
    return [(4 * patch, 4 * patch), (6 * patch, 6 * patch), (3 * patch, 5 * patch)]


def wave(height, width):
    """[1, 3, height, width]. Value i of the image in the order [height, width, 3] is sin(12.9898·i + 78.233)."""
    values = [math.sin(12.9898 * i + 78.233) for i in range(height * width * 3)]
    return torch.tensor(values, dtype=torch.float64).reshape(1, height, width, 3).permute(0, 3, 1, 2)


def drawn(model, seed):
    """Random weights that leave nothing trivial. The tokens are small enough that the norms' epsilon shows."""
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for name, value in model.state_dict().items():
        noise = torch.randn(value.shape, generator=generator)
        if name.startswith(("patch_embed", "cls_token", "pos_embed", "register", "storage")):
            state[name] = 0.03 * noise / (math.sqrt(value[0].numel()) if name == "patch_embed.proj.weight" else 1)
        elif name.endswith("norm.weight") or re.search(r"norm\d\.weight", name):
            state[name] = 1 + 0.3 * noise
        elif name.endswith("gamma"):
            state[name] = 0.6 + 0.4 * noise
        elif name.endswith("bias_mask"):
            third = len(value) // 3
            state[name] = torch.cat([torch.ones(third), torch.zeros(third), torch.ones(third)])
        elif name.endswith("periods"):
            state[name] = 100 ** (torch.arange(len(value)) / len(value))
        elif value.ndim == 2 and name != "mask_token":
            state[name] = 1.5 * noise / math.sqrt(value.shape[1])
        else:
            state[name] = 0.3 * noise
    return state


def sincos(dim, grid):
    """MAE's fixed positions, [1, 1 + grid², dim]: the position of [CLS] is 0."""
    omega = 1 / 10000 ** (torch.arange(dim // 4, dtype=torch.float64) / (dim / 4))
    rows, columns = torch.meshgrid(torch.arange(grid, dtype=torch.float64), torch.arange(grid, dtype=torch.float64), indexing="ij")
    parts = [f(at.flatten()[:, None] * omega) for at in (columns, rows) for f in (torch.sin, torch.cos)]
    return torch.cat([torch.zeros(1, dim), torch.cat(parts, 1)])[None].float()


def official_model(family, state, **changes):
    f = families[family]
    model = Official(f["generation"], **{**f["net"], "positions": f["positions"][0], **changes})
    model.load_state_dict(state, strict=True)
    return model.double().eval()


def timm_arguments(family):
    f = families[family]
    net, (architecture, tag, more) = f["net"], f["timm"]
    arguments = dict(embed_dim=net["dim"], depth=net.get("depth", 2), num_heads=net["heads"], patch_size=net["patch"], img_size=4 * net["patch"])
    return architecture, tag, {"num_classes": 0, **arguments, **more}


def timm_state(family, state, architecture, arguments):
    model = timm.create_model(architecture, **arguments)
    f = families[family]
    own = {k: v for k, v in state.items() if not k.startswith("decoder")}
    if family == "mae":
        own.pop("mask_token", None)
    converted = (eva if f["generation"] == 3 else vision_transformer).checkpoint_filter_fn(dict(own), model)
    model.load_state_dict(converted, strict=True)
    return {k: v.contiguous() for k, v in model.state_dict().items()}


def hf_config(family):
    f = families[family]
    name, more = f["hf"]
    net, more = f["net"], dict(more)
    more.pop("pooler", None)
    kind = getattr(transformers, name).config_class
    size = {} if name.startswith("Dinov2") else {"intermediate_size": net.get("hidden", 4 * net["dim"])}
    if f["generation"] == 3:
        size["num_register_tokens"] = net["registers"]
    config = kind(hidden_size=net["dim"], num_hidden_layers=net.get("depth", 2), num_attention_heads=net["heads"], image_size=4 * net["patch"], patch_size=net["patch"],
                  **size, **more)
    config.architectures = [name]
    return config


def hf_state(family, state):
    """The official weights under the names of transformers."""
    f = families[family]
    v3, v2 = f["generation"] == 3, f["generation"] == 2
    prefix = "vit." if f["hf"][0].startswith("ViT") and f["hf"][0] != "ViTModel" else ""
    qkv = ("q_proj", "k_proj", "v_proj") if v3 else ("attention.query", "attention.key", "attention.value")
    rules = [("patch_embed.proj.", "embeddings.patch_embeddings." if v3 else "embeddings.patch_embeddings.projection."),
             ("cls_token", "embeddings.cls_token"), ("mask_token", "embeddings.mask_token"), ("pos_embed", "embeddings.position_embeddings"),
             ("register_tokens", "embeddings.register_tokens"), ("storage_tokens", "embeddings.register_tokens"),
             (r"blocks\.(\d+)\.", r"layer.\1." if v3 else r"encoder.layer.\1."), (r"^norm\.", "norm." if v3 else "layernorm."),
             (r"ls(\d)\.gamma", r"layer_scale\1.lambda1"), (r"attn\.proj\.", "attention.o_proj." if v3 else "attention.output.dense.")]
    if v3:
        rules += [(r"mlp\.(fc1|w2)\.", "mlp.up_proj."), (r"mlp\.(fc2|w3)\.", "mlp.down_proj."), (r"mlp\.w1\.", "mlp.gate_proj.")]
    elif v2:
        rules += [(r"mlp\.w12\.", "mlp.weights_in."), (r"mlp\.w3\.", "mlp.weights_out.")]
    else:
        rules += [(r"\.norm1\.", ".layernorm_before."), (r"\.norm2\.", ".layernorm_after."), (r"mlp\.fc1\.", "intermediate.dense."),
                  (r"mlp\.fc2\.", "output.dense.")]
    out = {}
    for name, value in state.items():
        if name.endswith(("bias_mask", "periods")):
            continue
        if name.startswith(("decoder", "mask_token")) and family == "mae":
            name = name.replace("decoder_blocks.", "decoder_encoder.layer.")
            for old, new in rules[6:] if name.startswith("decoder_encoder") else []:
                name = re.sub(old, new, name)
            parts = zip(qkv, value.chunk(3)) if ".attn.qkv." in name else [("", value)]
            for part, v in parts:
                out["decoder." + name.replace("attn.qkv", "attention." + part)] = v.clone()
            continue
        if name.startswith("head."):
            out[name.replace("head.", "classifier.")] = value
            continue
        for old, new in rules:
            name = re.sub(old, new, name)
        if name == "embeddings.mask_token" and v3:
            value = value[None]
        if ".attn.qkv." in name:
            for part, v in zip(qkv, value.chunk(3)):
                if not (v3 and name.endswith("bias") and part == "k_proj"):
                    out[prefix + name.replace("attn.qkv", "attention." + part)] = v.clone()
        else:
            out[prefix + name] = value
    if f["hf"][1].get("pooler"):
        noise = torch.Generator().manual_seed(9)
        out["pooler.dense.weight"], out["pooler.dense.bias"] = torch.randn(16, 16, generator=noise), torch.randn(16, generator=noise)
    return out


def timm_load(folder):
    return timm.create_model("local-dir:" + str(folder), pretrained=True, **({} if "dinov3" in json.loads((folder / "config.json").read_text())[
        "architecture"] else {"dynamic_img_size": True})).double().eval()


def timm_features(model, images):
    with torch.no_grad():
        x = model.forward_features(images)
    return x[:, 0], x[:, model.num_prefix_tokens:]


def hf_load(folder, pooler=False):
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = getattr(transformers, config.architectures[0])
    more = {"add_pooling_layer": pooler} if kind is transformers.ViTModel else {}
    model, info = kind.from_pretrained(folder, output_loading_info=True, **more)
    wrong = {k: v for k, v in info.items() if v}
    assert not wrong, (folder, wrong)
    return model.double().eval()


def hf_features(model, images):
    base = getattr(model, "vit", model)
    more = {}
    if base.config.model_type in ("vit", "vit_mae"):
        more["interpolate_pos_encoding"] = True
    if base.config.model_type == "vit_mae":
        base.config.mask_ratio = 0.0
        count = images.shape[2] * images.shape[3] // base.config.patch_size ** 2
        more["noise"] = torch.arange(count)[None] / count
    with torch.no_grad():
        x = base(images, **more).last_hidden_state
    first = 1 + getattr(base.config, "num_register_tokens", 0)
    return x[:, 0], x[:, first:]


def close(a, b, what, at_most=5e-6):
    far = max((x - y).abs().max().item() for x, y in zip(a, b))
    print("%-75s %.1e" % (what, far))
    assert far < at_most, (what, far)


described, features = [], {}


def describe(name, family, naming, file, positions, unused, compute, depth=0):
    f = families[family]
    net = f["net"]
    cases = [dict(height=h, width=w) for h, w in sizes(net["patch"])]
    eps = {"official": net.get("eps", 1e-6), "timm": net.get("eps", 1e-6)}.get(naming, 1e-12 if f["hf"][0].startswith("ViT") else net.get("eps", 1e-6))
    described.append(dict(
        name=name, family=family, naming=naming, file=file, positions=positions, patch=net["patch"], dim=net["dim"], depth=depth or net.get("depth", 2), heads=net["heads"],
        grid=0 if f["generation"] == 3 else 4, registers=net.get("registers", 0), hidden=net.get("hidden", 4 * net["dim"]),
        swiglu=net.get("swiglu", False), layer_scale=f["generation"] > 1, rope=f["generation"] == 3, epsilon=eps, unused=sorted(unused), cases=cases))
    for case in cases:
        images = wave(case["height"], case["width"])
        cls, patches = compute(images)
        rows, columns = case["height"] // net["patch"], case["width"] // net["patch"]
        assert patches.shape[1] == rows * columns
        key = "%s/%dx%d/" % (name, case["height"], case["width"])
        features[key + "class"] = cls[0].float().contiguous()
        features[key + "patches"] = patches[0].reshape(rows, columns, -1).float().contiguous()


def refused(name, naming, file, why):
    described.append(dict(name=name, naming=naming, file=file, refused=why))


def write_timm(folder, family, state, **changes):
    folder.mkdir()
    architecture, tag, arguments = timm_arguments(family)
    architecture = changes.get("architecture", architecture)
    arguments = {**arguments, **changes.get("arguments", {})}
    classes = arguments.pop("num_classes")
    normal = half if tag.startswith("augreg") else mean
    deviation = half if tag.startswith("augreg") else std
    size = arguments["img_size"]
    config = dict(architecture=architecture, num_classes=classes, num_features=arguments["embed_dim"],
                  global_pool="avg" if "dinov3" in architecture else "token",
                  pretrained_cfg=dict(tag=tag, custom_load=False, input_size=[3, size, size], fixed_input_size=True, interpolation="bicubic",
                                      crop_pct=0.9 if classes else 1.0, crop_mode="center", mean=normal, std=deviation, num_classes=classes,
                                      pool_size=None, first_conv="patch_embed.proj", classifier="head"),
                  model_args=arguments)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    save_file({k: v.contiguous() for k, v in state.items()}, folder / "model.safetensors", metadata={"format": "pt"})


def write_hf(folder, family, state, shard=None):
    folder.mkdir()
    hf_config(family).save_pretrained(folder)
    if shard is None:
        save_file({k: v.contiguous() for k, v in state.items()}, folder / "model.safetensors", metadata={"format": "pt"})
        return folder / "model.safetensors"
    names = sorted(state)
    parts = [names[i::shard] for i in range(shard)]
    files = ["model-%05d-of-%05d.safetensors" % (i + 1, shard) for i in range(shard)]
    for file, part in zip(files, parts):
        save_file({k: state[k].contiguous() for k in part}, folder / file, metadata={"format": "pt"})
    total = sum(v.numel() * v.element_size() for v in state.values())
    index = {"metadata": {"total_size": total}, "weight_map": {k: file for file, part in zip(files, parts) for k in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1, sort_keys=True))
    return folder / "model.safetensors.index.json"


def make(family, seed):
    f = families[family]
    net, positions = f["net"], f["positions"]
    state = drawn(Official(f["generation"], **net), seed)
    model = official_model(family, state)
    extra = {}
    noise = torch.Generator().manual_seed(100 + seed)
    if family == "mae":
        state["pos_embed"] = sincos(16, 4)
        decoder = Official(1, dim=8, heads=2, patch=4)
        for name, value in drawn(decoder, 50).items():
            if name.startswith("blocks."):
                if name.startswith("blocks.0."):
                    extra["decoder_" + name] = value
            elif name.startswith("norm."):
                extra["decoder_" + name] = value
        extra |= {"mask_token": torch.randn(1, 1, 8, generator=noise), "decoder_pos_embed": sincos(8, 4),
                  "decoder_embed.weight": torch.randn(8, 16, generator=noise), "decoder_embed.bias": torch.randn(8, generator=noise),
                  "decoder_pred.weight": torch.randn(48, 8, generator=noise), "decoder_pred.bias": torch.randn(48, generator=noise)}
    if "num_labels" in f["hf"][1] or f["timm"][2]:
        extra |= {"head.weight": torch.randn(3, 16, generator=noise), "head.bias": torch.randn(3, generator=noise)}

    # Official: dictionaries as published. DINOv3's periods are bfloat16.
    official = dict(state)
    if f["generation"] == 3:
        official["rope_embed.periods"] = state["rope_embed.periods"].bfloat16()
    more = {**extra, **({"local_cls_norm.weight": torch.ones(24), "local_cls_norm.bias": torch.zeros(24)} if family == "dinov3-plus" else {})}
    if positions[0] is not None:
        whole = {**official, **more}
        torch.save({"model": whole} if family in ("mae", "deit") else whole, here / (family + ".pth"))
        loaded = official_model(family, {k: v.float() for k, v in official.items()})
        wrapped = "model." if family in ("mae", "deit") else ""
        unused = [wrapped + k for k in [*more, *(["mask_token"] if "mask_token" in official else []),]]
        with torch.no_grad():
            describe(family + ".official", family, "official", family + ".pth", positions[0], unused, loaded)

    # timm.
    architecture, tag, arguments = timm_arguments(family)
    converted = timm_state(family, {**state, **extra}, architecture, arguments)
    folder = here / (family + ".timm")
    write_timm(folder, family, converted)
    model = timm_load(folder)
    assert set(model.state_dict()) == set(converted)
    describe(family + ".timm", family, "timm", folder.name + "/model.safetensors", "" if f["generation"] == 3 else "timm",
             [k for k in converted if k.startswith("head")], lambda x: timm_features(model, x))
    for h, w in sizes(net["patch"]):
        ours = official_model(family, state, positions="timm")
        with torch.no_grad():
            close(ours(wave(h, w)), timm_features(model, wave(h, w)), "%s %d×%d: official.py as timm" % (family, h, w), 1e-4 if f["generation"] == 3 else 5e-6)

    # transformers.
    named = hf_state(family, {**state, **({k: v for k, v in extra.items() if family != "augreg"})})
    folder = here / (family + ".transformers")
    file = write_hf(folder, family, named, shard=3 if family == "dinov2-reg" else None)
    hf = hf_load(folder, pooler=family == "augreg")
    unused = [k for k in named if k.startswith(("decoder.", "classifier.", "pooler.")) or k.endswith("mask_token")]
    describe(family + ".transformers", family, "transformers", folder.name + "/" + file.name, positions[1], unused, lambda x: hf_features(hf, x))
    eps = getattr(hf, "vit", hf).config.layer_norm_eps
    for h, w in sizes(net["patch"]):
        ours = official_model(family, state, positions=positions[1], eps=eps)
        with torch.no_grad():
            close(ours(wave(h, w)), hf_features(hf, wave(h, w)), "%s %d×%d: official.py as transformers" % (family, h, w), 1e-4 if f["generation"] == 3 else 5e-6)

    # What the goldens can tell apart.
    h, w = sizes(net["patch"])[2]
    with torch.no_grad():
        for what, other in (("epsilon", dict(eps=1e-5 if eps == 1e-6 else 1e-6)), ("positions", dict(positions="timm" if positions[0] == "dino" else "dino"))):
            if what == "positions" and f["generation"] == 3:
                continue
            mine, theirs = official_model(family, state, eps=eps)(wave(h, w)), official_model(family, state, **{"eps": eps, **other})(wave(h, w))
            far = max((a - b).abs().max().item() for a, b in zip(mine, theirs))
            print("    another %s moves the features by %.1e" % (what, far))
            assert far > 3e-4
        if f["generation"] == 3:
            far = max((a - b).abs().max().item() for a, b in zip(
                official_model(family, state)(wave(h, w)), official_model(family, {k: v.float() for k, v in official.items()})(wave(h, w))))
            print("    periods of bfloat16 move the features by %.1e" % far)
            assert far > 3e-4
    return state


def main():
    for path in here.iterdir():
        if path.is_dir() and path.suffix in (".timm", ".transformers"):
            shutil.rmtree(path)
        elif path.suffix == ".pth":
            path.unlink()
    states = {family: make(family, seed) for seed, family in enumerate(families, 1)}

    # timm's DINOv3 without biases, and the mask of NaN that counts as the standard one.
    state = {k: torch.zeros_like(v) if k.endswith("qkv.bias") else v for k, v in states["dinov3"].items() if not k.startswith("blocks.1.")}
    architecture, tag, arguments = timm_arguments("dinov3")
    arguments["depth"] = 1
    model = timm.create_model("vit_small_patch16_dinov3", **arguments)
    with open("/dev/null", "w") as nothing:
        out, sys.stdout = sys.stdout, nothing
        converted = eva.checkpoint_filter_fn(dict(state), model)
        sys.stdout = out
    model.load_state_dict(converted, strict=True)
    folder = here / "dinov3-unbiased.timm"
    write_timm(folder, "dinov3", converted, architecture="vit_small_patch16_dinov3", arguments={"depth": 1})
    loaded = timm_load(folder)
    describe("dinov3-unbiased.timm", "dinov3", "timm", folder.name + "/model.safetensors", "", [], lambda x: timm_features(loaded, x), 1)
    with torch.no_grad():
        close(official_model("dinov3", state, depth=1)(wave(16, 16)), timm_features(loaded, wave(16, 16)), "dinov3 without biases: official.py as timm", 1e-4)
    masked = {k: v.bfloat16() if k.endswith("periods") else torch.full_like(v, torch.nan) if k.endswith("bias_mask") else v
              for k, v in states["dinov3"].items() if not k.startswith("blocks.1.")}
    torch.save(masked, here / "dinov3-nan.pth")
    with torch.no_grad():
        nan = official_model("dinov3", {k: v.float() for k, v in masked.items()}, depth=1)
        describe("dinov3-nan.official", "dinov3", "official", "dinov3-nan.pth", "", ["mask_token"], nan, 1)

    # Distilled DeiT has a second token, which is not supported.
    torch.manual_seed(0)
    small = timm.create_model("deit_small_distilled_patch16_224", embed_dim=8, depth=1, num_heads=2, patch_size=4, img_size=8, num_classes=2)
    torch.save({"model": small.state_dict()}, here / "deit-distilled.pth")
    refused("deit-distilled.official", "official", "deit-distilled.pth", "dist_token")
    folder = here / "deit-distilled.transformers"
    config = transformers.DeiTConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=8, patch_size=4)
    transformers.DeiTModel(config).save_pretrained(folder)
    refused("deit-distilled.transformers", "transformers", folder.name + "/model.safetensors", "distillation_token")

    save_file(features, here / "features.safetensors")
    with open(here / "families.json", "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(d) for d in described) + "\n]\n")


if __name__ == "__main__":
    main()
