"""Writes pyramid.json: iBOT's pyramid of a vision transformer, UPerNet, its auxiliary head and semantic FPN in plain PyTorch, with the modules and the
names of mmsegmentation: a forward pass in training without dropout, one in evaluation with the statistics it left, and the losses of both.

    python pyramid.py          needs PyTorch
"""

import json
import pathlib

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
batch, rows, columns, dim, classes, depth = 2, 3, 4, 4, 3, 4


def resize(x, size):
    return F.interpolate(x, size, mode="bilinear", align_corners=False)


class ConvModule(nn.Module):
    def __init__(self, before, after, size):
        super().__init__()
        self.conv = nn.Conv2d(before, after, size, padding=size // 2, bias=False)
        self.bn = nn.BatchNorm2d(after)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class Backbone(nn.Module):
    """The part of iBOT's backbone that follows the blocks."""

    def __init__(self):
        super().__init__()
        self.fpn1 = nn.Sequential(nn.ConvTranspose2d(dim, dim, 2, 2), nn.BatchNorm2d(dim), nn.GELU(), nn.ConvTranspose2d(dim, dim, 2, 2))
        self.fpn2 = nn.Sequential(nn.ConvTranspose2d(dim, dim, 2, 2))

    def forward(self, blocks, indices):
        maps = [blocks[i][:, 1:].transpose(1, 2).reshape(batch, dim, rows, columns) for i in indices]
        return [self.fpn1(maps[0]), self.fpn2(maps[1]), maps[2], F.max_pool2d(maps[3], 2)]


class UPerHead(nn.Module):
    def __init__(self, channels, scales=(1, 2, 3, 6)):
        super().__init__()
        self.psp_modules = nn.ModuleList(nn.Sequential(nn.AdaptiveAvgPool2d(scale), ConvModule(dim, channels, 1)) for scale in scales)
        self.bottleneck = ConvModule(dim + len(scales) * channels, channels, 3)
        self.lateral_convs = nn.ModuleList(ConvModule(dim, channels, 1) for _ in range(3))
        self.fpn_convs = nn.ModuleList(ConvModule(channels, channels, 3) for _ in range(3))
        self.fpn_bottleneck = ConvModule(4 * channels, channels, 3)
        self.conv_seg = nn.Conv2d(channels, classes, 1)

    def forward(self, levels):
        top = levels[3]
        pooled = [top] + [resize(module(top), top.shape[2:]) for module in self.psp_modules]
        maps = [lateral(level) for lateral, level in zip(self.lateral_convs, levels)] + [self.bottleneck(torch.cat(pooled, 1))]
        for i in (3, 2, 1):
            maps[i - 1] = maps[i - 1] + resize(maps[i], maps[i - 1].shape[2:])
        maps = [conv(x) for conv, x in zip(self.fpn_convs, maps)] + [maps[3]]
        maps = [resize(x, maps[0].shape[2:]) for x in maps]
        return self.conv_seg(self.fpn_bottleneck(torch.cat(maps, 1)))


class FCNHead(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.convs = nn.Sequential(ConvModule(dim, channels, 3))
        self.conv_seg = nn.Conv2d(channels, classes, 1)

    def forward(self, levels):
        return self.conv_seg(self.convs(levels[2]))


class Plain(nn.Module):
    """mmcv's ConvModule without normalisation and activation."""

    def __init__(self, before, after, size):
        super().__init__()
        self.conv = nn.Conv2d(before, after, size, padding=size // 2)

    def forward(self, x):
        return self.conv(x)


class FPN(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.lateral_convs = nn.ModuleList(Plain(dim, channels, 1) for _ in range(4))
        self.fpn_convs = nn.ModuleList(Plain(channels, channels, 3) for _ in range(4))

    def forward(self, levels):
        maps = [lateral(level) for lateral, level in zip(self.lateral_convs, levels)]
        for i in (3, 2, 1):
            maps[i - 1] = maps[i - 1] + F.interpolate(maps[i], maps[i - 1].shape[2:], mode="nearest")
        return [conv(x) for conv, x in zip(self.fpn_convs, maps)]


class FPNHead(nn.Module):
    def __init__(self, before, channels):
        super().__init__()
        self.scale_heads = nn.ModuleList()
        for i in range(4):
            scale = []
            for k in range(max(1, i)):
                scale.append(ConvModule(before if k == 0 else channels, channels, 3))
                if i > 0:
                    scale.append(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False))
            self.scale_heads.append(nn.Sequential(*scale))
        self.conv_seg = nn.Conv2d(channels, classes, 1)

    def forward(self, maps):
        out = self.scale_heads[0](maps[0])
        for head, x in zip(self.scale_heads[1:], maps[1:]):
            out = out + resize(head(x), out.shape[2:])
        return self.conv_seg(out)


class UPerNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.decode_head, self.auxiliary_head = Backbone(), UPerHead(4), FCNHead(3)

    def forward(self, blocks):
        levels = self.backbone(blocks, (0, 1, 2, 3))
        return {"logits": self.decode_head(levels), "auxiliary": self.auxiliary_head(levels)}


class SemanticFPN(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.neck, self.decode_head = Backbone(), FPN(4), FPNHead(4, 3)

    def forward(self, blocks):
        return {"logits": self.decode_head(self.neck(self.backbone(blocks, (1, 3, 3, 0))))}


def short(t, digits=3):
    """Rounds to values that the file holds exactly."""
    return torch.round(t * 10**digits) / 10**digits


def ours(value):
    """A weight in our layout: [height, width, in, out], and for transposed convolutions [height, width, out, in]; PyTorch swaps in and out too."""
    value = value.permute(2, 3, 1, 0) if value.dim() == 4 else value
    return {"shape": list(value.shape), "values": [round(v, 6) for v in value.flatten().tolist()]}


def listed(maps):
    """[batch, channels, height, width] to [height, width, batch, channels]."""
    maps = maps.permute(2, 3, 0, 1)
    return {"shape": list(maps.shape), "values": [round(v, 5) for v in maps.flatten().tolist()]}


def loss(logits):
    # mmsegmentation's mean: over all pixels, those that are ignored included.
    return F.cross_entropy(resize(logits, labels.shape[1:]), labels, ignore_index=255, reduction="none").mean().item()


blocks = [short(torch.randn(batch, 1 + rows * columns, dim)) for _ in range(depth)]
labels = torch.randint(0, classes + 1, (batch, 17, 21))
labels[labels == classes] = 255
golden = {"blocks": [block.tolist() for block in blocks], "labels": labels.permute(1, 2, 0).tolist(), "networks": {}}
for network in (UPerNet(), SemanticFPN()):
    with torch.no_grad():
        for name, p in network.named_parameters():
            p.copy_(short(torch.randn(p.shape) * (0.3 if p.dim() == 4 else 0.5) + (1 if name.endswith("bn.weight") else 0)))
        out = {"weights": {k: ours(v) for k, v in network.state_dict().items() if not k.endswith("num_batches_tracked")}}
        for mode in ("train", "eval"):
            results = network.train(mode == "train")(blocks)
            out[mode] = {name: {"logits": listed(logits), "loss": loss(logits)} for name, logits in results.items()}
            if mode == "train":
                out["statistics"] = {k: ours(v) for k, v in network.state_dict().items() if "running" in k}
    golden["networks"][type(network).__name__] = out
pathlib.Path(__file__).with_name("pyramid.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")
