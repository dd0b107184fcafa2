"""Makes the golden files of optimizer_test.go: three steps of fine-tuning a tiny vision transformer in PyTorch.

The transformer is timm's. Stochastic depth multiplies each branch by given factors. The groups of AdamW are those of BEiT's and iBOT's
layer-decay constructor, written out here. Needs torch, timm and safetensors. Run: python optimizer.py
"""

import json

import timm
import torch
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer

DEPTH, STEPS, BATCH, CLASSES = 2, 3, 2, 3
RATE, LAYER_DECAY, WEIGHT_DECAY = 1e-2, 0.6, 0.5

torch.manual_seed(0)


class Factor(torch.nn.Module):
    """Multiplies what a branch adds to each image's tokens by a factor of the image."""

    def forward(self, x):
        return x * self.value[:, None, None]


vit = VisionTransformer(img_size=16, patch_size=4, embed_dim=8, depth=DEPTH, num_heads=2, num_classes=0)
head = torch.nn.Linear(8, CLASSES)
with torch.no_grad():
    for p in list(vit.parameters()) + list(head.parameters()):
        p.copy_(torch.randn_like(p) * 0.2)
for block in vit.blocks:
    block.drop_path1, block.drop_path2 = Factor(), Factor()


def named():
    for name, p in vit.named_parameters():
        yield name, p
    for name, p in head.named_parameters():
        yield "head." + name, p


def layer(name):
    if name in ("cls_token", "pos_embed") or name.startswith("patch_embed"):
        return 0
    if name.startswith("blocks."):
        return int(name.split(".")[1]) + 1
    return DEPTH + 1


groups = []
for name, p in named():
    decays = p.ndim > 1 and not name.endswith(".bias") and name not in ("cls_token", "pos_embed")
    scale = LAYER_DECAY ** (DEPTH + 1 - layer(name))
    groups.append({"params": [p], "weight_decay": WEIGHT_DECAY if decays else 0, "scale": scale})
optimizer = torch.optim.AdamW(groups, lr=RATE)


def weights():
    return {name: p.detach().clone().contiguous() for name, p in named()}


save_file(weights(), "before.safetensors")
images = torch.randint(256, (STEPS, BATCH, 3, 16, 16))
labels = torch.randint(CLASSES, (STEPS, BATCH, 16))
keep = torch.tensor([0, 1.25, 1.6])[torch.randint(3, (STEPS, DEPTH, 2, BATCH))]
losses = []
for step in range(STEPS):
    for i, block in enumerate(vit.blocks):
        block.drop_path1.value, block.drop_path2.value = keep[step, i, 0], keep[step, i, 1]
    x = vit._pos_embed(vit.patch_embed(images[step] / 255))
    for block in vit.blocks:
        x = block(x)
    logits = head(x[:, 1:])
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, CLASSES), labels[step].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    for group in optimizer.param_groups:
        group["lr"] = RATE * (step + 1) * group["scale"]
    optimizer.step()
    losses.append(loss.item())
save_file(weights(), "after.safetensors")
json.dump(
    {
        "versions": {"torch": torch.__version__, "timm": timm.__version__},
        "rate": RATE, "layer_decay": LAYER_DECAY, "weight_decay": WEIGHT_DECAY,
        "images": images.permute(0, 1, 3, 4, 2).reshape(STEPS, -1).tolist(),
        "labels": labels.reshape(STEPS, -1).tolist(), "keep": keep.reshape(STEPS, -1).tolist(), "losses": losses,
    },
    open("optimizer.json", "w"),
    separators=(",", ":"),
)
