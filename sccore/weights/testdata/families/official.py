"""The forward passes of the official code of DINO, MAE, DeiT, DINOv2 and DINOv3 in one module, which has their parameter names.

make.py shows that it computes what timm and transformers compute from the same weights.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Scale(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gamma = nn.Parameter(torch.empty(dim))

    def forward(self, x):
        return x * self.gamma


class Mlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class PackedSwiGLU(nn.Module):
    """DINOv2's."""

    def __init__(self, dim, hidden):
        super().__init__()
        self.w12, self.w3 = nn.Linear(dim, 2 * hidden), nn.Linear(hidden, dim)

    def forward(self, x):
        gate, value = self.w12(x).chunk(2, dim=-1)
        return self.w3(F.silu(gate) * value)


class SwiGLU(nn.Module):
    """DINOv3's."""

    def __init__(self, dim, hidden):
        super().__init__()
        self.w1, self.w2, self.w3 = nn.Linear(dim, hidden), nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x):
        return self.w3(F.silu(self.w1(x)) * self.w2(x))


class MaskedLinear(nn.Linear):
    """DINOv3's projection to queries, keys and values. The mask removes the bias of the keys. A mask of NaN is one that was never set."""

    def __init__(self, dim, out):
        super().__init__(dim, out)
        self.register_buffer("bias_mask", torch.empty(out))

    def forward(self, x):
        mask = self.bias_mask
        if mask.isnan().any():
            third = len(mask) // 3
            mask = torch.cat([torch.ones(third), torch.zeros(third), torch.ones(third)]).to(mask)
        return F.linear(x, self.weight, self.bias * mask)


class Attention(nn.Module):
    def __init__(self, dim, heads, masked):
        super().__init__()
        self.heads = heads
        self.qkv = MaskedLinear(dim, 3 * dim) if masked else nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, rope):
        batch, count, dim = x.shape
        q, k, v = self.qkv(x).reshape(batch, count, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        if rope is not None:
            q, k = rotated(q, *rope), rotated(k, *rope)
        maps = (q @ k.transpose(-2, -1) / math.sqrt(dim // self.heads)).softmax(-1)
        return self.proj((maps @ v).transpose(1, 2).reshape(batch, count, dim))


def rotated(x, sin, cos):
    """Rotates the features of the patches, which come last."""
    first = x.shape[2] - len(sin)
    head, x = x[:, :, :first], x[:, :, first:]
    a, b = x.chunk(2, dim=-1)
    return torch.cat([head, x * cos + torch.cat([-b, a], -1) * sin], 2)


class Block(nn.Module):
    def __init__(self, dim, heads, hidden, eps, scaled, mlp, masked):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=eps), nn.LayerNorm(dim, eps=eps)
        self.attn = Attention(dim, heads, masked)
        self.ls1, self.ls2 = (Scale(dim), Scale(dim)) if scaled else (nn.Identity(), nn.Identity())
        self.mlp = mlp(dim, hidden)

    def forward(self, x, rope):
        x = x + self.ls1(self.attn(self.norm1(x), rope))
        return x + self.ls2(self.mlp(self.norm2(x)))


class Rope(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("periods", torch.empty(size))

    def forward(self, rows, columns):
        dtype = self.periods.dtype
        at = torch.stack(torch.meshgrid(torch.arange(0.5, rows, dtype=dtype) / rows, torch.arange(0.5, columns, dtype=dtype) / columns, indexing="ij"), -1)
        angles = 2 * math.pi * (2 * at.flatten(0, 1) - 1)[:, :, None] / self.periods
        angles = angles.flatten(1).tile(2)
        return angles.sin(), angles.cos()


class PatchEmbed(nn.Module):
    def __init__(self, dim, patch):
        super().__init__()
        self.proj = nn.Conv2d(3, dim, patch, patch)


class Official(nn.Module):
    """generation is 1 for DINO, MAE and DeiT, 2 for DINOv2, 3 for DINOv3. positions is dino, timm or transformers, as in families.json."""

    def __init__(self, generation, *, dim, heads, patch, depth=2, grid=4, registers=0, swiglu=False, hidden=None, eps=1e-6, positions="dino"):
        super().__init__()
        self.grid, self.positions = grid, positions
        self.patch_embed = PatchEmbed(dim, patch)
        self.cls_token = nn.Parameter(torch.empty(1, 1, dim))
        mlp = Mlp if not swiglu else PackedSwiGLU if generation == 2 else SwiGLU
        self.blocks = nn.ModuleList(Block(dim, heads, hidden or 4 * dim, eps, generation > 1, mlp, generation == 3) for _ in range(depth))
        self.norm = nn.LayerNorm(dim, eps=eps)
        if generation > 1:
            self.mask_token = nn.Parameter(torch.empty(1, dim))
        if generation == 3:
            self.storage_tokens = nn.Parameter(torch.empty(1, registers, dim))
            self.rope_embed = Rope(dim // heads // 4)
        else:
            self.pos_embed = nn.Parameter(torch.empty(1, 1 + grid * grid, dim))
            if registers:
                self.register_tokens = nn.Parameter(torch.empty(1, registers, dim))
        self.generation, self.extra = generation, registers

    def resized(self, rows, columns):
        pos = self.pos_embed
        if rows == columns == self.grid:
            return pos
        grid = pos[:, 1:].reshape(1, self.grid, self.grid, -1).permute(0, 3, 1, 2)
        if self.positions == "dino":
            factors = ((rows + 0.1) / self.grid, (columns + 0.1) / self.grid)
            grid = F.interpolate(grid, scale_factor=factors, mode="bicubic")
        else:
            grid = F.interpolate(grid, size=(rows, columns), mode="bicubic", antialias=self.positions == "timm")
        return torch.cat([pos[:, :1], grid.permute(0, 2, 3, 1).flatten(1, 2)], 1)

    def forward(self, images):
        x = self.patch_embed.proj(images)
        rows, columns = x.shape[2:]
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x.flatten(2).transpose(1, 2)], 1)
        rope = None
        if self.generation == 3:
            rope = self.rope_embed(rows, columns)
        else:
            x = x + self.resized(rows, columns)
        if self.extra:
            registers = self.storage_tokens if self.generation == 3 else self.register_tokens
            x = torch.cat([x[:, :1], registers.expand(len(x), -1, -1), x[:, 1:]], 1)
        for block in self.blocks:
            x = block(x, rope)
        x = self.norm(x)
        return x[:, 0], x[:, 1 + self.extra:]
