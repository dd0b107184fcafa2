"""Images per second of a vision transformer in PyTorch eager, for comparison with the Go benchmarks of this package.

    python vit.py vit-s16 8        one line: images/s by wall clock, images per CPU-second, of forward and backward
    python vit.py vit-s16-forward 8

The network, batch and loss are those of BenchmarkViTS16Step and BenchmarkViTS16Forward; attention is PyTorch's own fused one. Threads: as
many as the machine has cores, or OMP_NUM_THREADS.
"""

import argparse
import statistics
import time

import torch
from step import cpu_seconds
from torch import nn


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim, 1e-6), nn.LayerNorm(dim, 1e-6)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        batch, tokens, dim = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, dim)
        x = x + self.proj(y)
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, patch=16, dim=384, depth=12, heads=6, side=14):
        super().__init__()
        self.patches = nn.Conv2d(3, dim, patch, patch)
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, 1 + side * side, dim) * 0.02)
        self.blocks = nn.Sequential(*(Block(dim, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(dim, 1e-6)
        self.head = nn.Linear(dim, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = self.norm(self.blocks(torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.positions))
        return self.head(x[:, 0]), x[:, 1:]


def measure(batch, backward, steps, compiled):
    torch.manual_seed(0)
    model, images, labels = ViT(), torch.randn(batch, 3, 224, 224), torch.arange(batch) % 10
    run = torch.compile(model) if compiled else model
    walls, cpus = [], []
    for step in range(steps + 2):
        wall, cpu = time.perf_counter(), cpu_seconds()
        with torch.set_grad_enabled(backward):
            logits, patches = run(images)
            loss = nn.functional.cross_entropy(logits, labels) + patches.square().mean()
        if backward:
            model.zero_grad()
            loss.backward()
        if step >= 2:  # The first steps allocate and choose kernels.
            walls.append(time.perf_counter() - wall)
            cpus.append(cpu_seconds() - cpu)
    return batch / statistics.median(walls), batch / statistics.median(cpus)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=["vit-s16", "vit-s16-forward"])
    parser.add_argument("batch", type=int)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--compile", action="store_true", help="through torch.compile")
    arguments = parser.parse_args()
    print("%.2f %.2f" % measure(arguments.batch, arguments.network == "vit-s16", arguments.steps, arguments.compile))
