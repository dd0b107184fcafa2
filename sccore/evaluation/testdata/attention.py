"""Writes attention.json: the attention of [CLS] to patches in the last block of small transformers of timm. Needs torch and timm.

Weights and pixels are those of wave, which attention_test.go knows, so that the file holds the maps alone.
"""
import json

import numpy as np
import timm
import torch

timm.layers.set_fused_attn(False)


def wave(k, *shape):
    """Tensor k: sin(12.9898·i + 78.233·k)."""
    return torch.tensor(np.sin(12.9898 * np.arange(np.prod(shape)) + 78.233 * k), dtype=torch.float32).reshape(shape)


cases = []
for registers in (0, 2):
    vit = timm.models.vision_transformer.VisionTransformer(
        img_size=16, patch_size=4, embed_dim=12, depth=2, num_heads=3, num_classes=0, global_pool="token",
        reg_tokens=registers, no_embed_class=registers > 0).eval()
    names = []
    for k, (name, parameter) in enumerate(vit.named_parameters()):
        parameter.data = wave(k, *parameter.shape)
        names.append(name)
    maps = []
    vit.blocks[-1].attn.attn_drop.register_forward_hook(lambda module, given, out: maps.append(out))
    vit(wave(1000, 1, 3, 16, 16))
    of_class = maps[0][0, :, 0, 1 + registers:]  # [heads, patches]
    cases.append({"registers": registers, "names": names, "maps": [[float(f"{x:.8g}") for x in head] for head in of_class.detach().double()]})
json.dump(cases, open("attention.json", "w"), separators=(",", ":"))
