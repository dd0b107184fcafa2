"""Exports every file of families.json under each naming with semcon and judges the exports by their own libraries.

Run: python judge.py SEMCON [FOLDER]   (needs torch, timm, transformers and safetensors; the exports stay in FOLDER)

timm and transformers load an export from its folder, by its config.json; official.py loads it strictly. They compute the features of the weights that
were drawn, to 1e-4. The Python lines on the model card are run as well. An export that is refused must say why.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file

from make import close, families, here, hf_features, hf_load, official_model, sizes, timm_features, timm_load, wave
from official import Official

# Why semcon refuses an export, by the source's and the export's naming, and what makes it possible.
refusals = {("dinov3", "official", "timm"): "bfloat16", ("dinov3", "official", "transformers"): "bfloat16"}
unrounded = ["--ignore", "rope_embed.periods"]


def drawn_weights(entry, unrounded):
    """The weights of an entry under official names."""
    name = entry["family"]
    f = families[name]
    if (here / (name + ".pth")).exists():
        state = torch.load(here / (name + ".pth"))
        state = state.get("model", state)
    else:
        state = load_file(here / (name + ".timm") / "model.safetensors")  # timm has the official names of the first generation.
    keys = Official(f["generation"], **f["net"]).state_dict().keys()
    state = {k: state[k].float() for k in keys}
    if entry["name"].startswith("dinov3-unbiased"):
        state = {k: torch.zeros_like(v) if k.endswith("qkv.bias") else v for k, v in state.items()}
    if unrounded and "rope_embed.periods" in state:
        count = len(state["rope_embed.periods"])
        state["rope_embed.periods"] = 100 ** (torch.arange(count) / count)
    return {k: v for k, v in state.items() if not k.startswith("blocks.") or int(k.split(".")[1]) < entry["depth"]}


def arguments(entry):
    """What the file does not say."""
    if entry["naming"] != "official":
        return []
    return ["--heads", str(entry["heads"])]


def run_card(card, naming):
    """The model that the card's Python lines make."""
    code = re.search(r"```python\n(.*?)```", card.read_text(), re.S).group(1)
    before, space = os.getcwd(), {}
    os.chdir(card.parent)
    try:
        exec(code, space)
    finally:
        os.chdir(before)
    return space["model"].double().eval()


def judge(entry, naming, out, unrounded):
    f = families[entry["family"]]
    net = f["net"]
    positions = {"official": f["positions"][0] or "dino", "timm": "timm", "transformers": f["positions"][1]}[naming]
    own = net.get("eps", 1e-6)
    file = out / "model.safetensors"
    state = drawn_weights(entry, unrounded)
    if naming == "official":
        made = official_model(entry["family"], load_file(file), depth=entry["depth"], positions=positions)
        computed, epsilon = [lambda x: made(x)], [own]
    elif naming == "timm":
        made, by_card = timm_load(out), run_card(out / "model.md", naming)
        assert set(made.state_dict()) == set(load_file(file))
        computed, epsilon = [lambda x: timm_features(made, x), lambda x: timm_features(by_card, x)], [own, entry["epsilon"]]
    else:
        made, by_card = hf_load(out), run_card(out / "model.md", naming)
        transformers.AutoImageProcessor.from_pretrained(out)
        computed, epsilon = [lambda x: hf_features(made, x), lambda x: hf_features(by_card, x)], [entry["epsilon"]] * 2
    for features, eps in zip(computed, epsilon):
        reference = official_model(entry["family"], state, depth=entry["depth"], positions=positions, eps=eps)
        for height, width in sizes(net["patch"]):
            with torch.no_grad():
                close(reference(wave(height, width)), features(wave(height, width)), "%s to %s, %d×%d" % (entry["name"], naming, height, width), 1e-4)


def export(semcon, entry, naming, out, more):
    command = [semcon, "import", here / entry["file"], "--naming", naming, "--out", out / "model.safetensors", *arguments(entry), *more]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stderr.strip()


def main(semcon, folder):
    counts = {"ok": 0, "refused": 0}
    for entry in json.loads((here / "families.json").read_text()):
        for naming in ("official", "timm", "transformers"):
            out = folder / (entry["name"] + "--" + naming)
            out.mkdir(parents=True, exist_ok=True)
            if "refused" in entry:
                code, said = subprocess.run([semcon, "import", here / entry["file"]], capture_output=True, text=True).returncode, ""
                assert code == 1, entry
                counts["refused"] += 1
                continue
            reason = refusals.get((entry["name"].split(".")[0].split("-")[0], entry["naming"], naming))
            code, said = export(semcon, entry, naming, out, [])
            if reason:
                assert code == 1 and reason in said, (entry["name"], naming, code, said)
                print("%s to %s is refused: %s" % (entry["name"], naming, said))
                counts["refused"] += 1
                code, said = export(semcon, entry, naming, out, unrounded)
            assert code == 0, (entry["name"], naming, said)
            judge(entry, naming, out, bool(reason) or entry["naming"] != "official")
            counts["ok"] += 1
    print("%(ok)d exports are right, %(refused)d files and exports are refused" % counts)


if __name__ == "__main__":
    binary = pathlib.Path(sys.argv[1]).resolve()
    if len(sys.argv) > 2:
        main(binary, pathlib.Path(sys.argv[2]).resolve())
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(binary, pathlib.Path(temporary))
