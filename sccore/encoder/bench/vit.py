"""Images per second of a vision transformer in PyTorch eager, for comparison with the Go benchmarks of this package and with "semcon bench".

    python vit.py vit-s16 8        one line: images/s by wall clock, images per CPU-second, of forward and backward
    python vit.py vit-s16-forward 8
    python vit.py pretrain 256 --device cuda --bf16

The network, batch and loss of the first two are those of BenchmarkViTS16Step and BenchmarkViTS16Forward; attention is PyTorch's own fused one.
The third has the size of the step of "semcon bench --step pretrain --profile full --batch 256": of an image two global and four local views
through the online branch, the global ones through the target branch, the projectors of both, another image's view for half of them, AdamW and the
moving average. It leaves out the views themselves, Sinkhorn-Knopp, CoTAP and prototypes, so it is a little less work. Threads: as many as the machine has
cores, or OMP_NUM_THREADS.
"""

import argparse
import copy
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
        self.side = side
        self.patches = nn.Conv2d(3, dim, patch, patch)
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, 1 + side * side, dim) * 0.02)
        self.blocks = nn.Sequential(*(Block(dim, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(dim, 1e-6)
        self.head = nn.Linear(dim, 10)

    def forward(self, x):
        x = self.patches(x)
        positions = self.positions
        if x.shape[2] != self.side:  # A local view.
            grid = positions[:, 1:].reshape(1, self.side, self.side, -1).permute(0, 3, 1, 2)
            grid = nn.functional.interpolate(grid, x.shape[2:], mode="bicubic").flatten(2).transpose(1, 2)
            positions = torch.cat([positions[:, :1], grid], 1)
        x = x.flatten(2).transpose(1, 2)
        x = self.norm(self.blocks(torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + positions))
        return self.head(x[:, 0]), x[:, 1:]


class Pretraining:
    """The step of pretraining: branches that end in projectors of [CLS] and of patches, cross-entropies of their outputs, AdamW, the moving average."""

    def __init__(self, arguments):
        self.size, self.device, self.bf16 = arguments, arguments.device, arguments.bf16
        self.online = nn.ModuleDict({"vit": ViT(), "image": projector(), "patch": projector()}).to(self.device)
        self.online["vit"].head = nn.Identity()
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.online.parameters(), fused=self.device == "cuda")
        images = lambda number, side: torch.randn(number, 3, side, side, device=self.device)
        self.views = [images(arguments.globals * arguments.batch, arguments.global_size)]
        if arguments.locals:
            self.views.append(images(arguments.locals * arguments.batch, arguments.local_size))
        self.positives = images(max(arguments.batch // 2, 1), arguments.global_size)

    def branch(self, branch, images, all_objects=False):
        cls, patches = branch["vit"](images)
        objects = cls if all_objects else cls[: len(cls) // 2]  # Half of the images are scenes.
        return branch["image"](objects).float(), branch["patch"](patches).float()

    def step(self):
        with torch.autocast(self.device, torch.bfloat16, enabled=self.bf16):
            with torch.no_grad():
                targets = self.branch(self.target, self.views[0])
                positive = self.branch(self.target, self.positives, all_objects=True)
            outputs = [self.branch(self.online, images) for images in self.views]
        loss = 0
        for image, patch in outputs:
            for output, target in ((image, targets[0]), (patch.flatten(0, 1), targets[1].flatten(0, 1))):
                loss = loss - (target.softmax(-1).mean(0) * output.log_softmax(-1)).sum(-1).mean()
        loss = loss + (positive[0].mean(0) * outputs[0][0]).sum(-1).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        torch._foreach_lerp_(list(self.target.parameters()), list(self.online.parameters()), 0.004)


class Plain:
    """Forward of 224² images, and backward unless it is forward alone."""

    def __init__(self, arguments):
        self.model, self.device, self.bf16 = ViT().to(arguments.device), arguments.device, arguments.bf16
        self.images, self.labels = torch.randn(arguments.batch, 3, 224, 224, device=self.device), torch.arange(arguments.batch, device=self.device) % 10
        self.backward, self.run = arguments.network == "vit-s16", torch.compile(self.model) if arguments.compile else self.model

    def step(self):
        with torch.set_grad_enabled(self.backward), torch.autocast(self.device, torch.bfloat16, enabled=self.bf16):
            logits, patches = self.run(self.images)
            loss = nn.functional.cross_entropy(logits, self.labels) + patches.square().mean()
        if self.backward:
            self.model.zero_grad()
            loss.backward()


def projector(dim=384, hidden=2048, out=256):
    return nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, out))


def measure(arguments):
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = arguments.tf32
    work = (Pretraining if arguments.network == "pretrain" else Plain)(arguments)
    wait = torch.cuda.synchronize if arguments.device == "cuda" else lambda: None
    walls, cpus = [], []
    for step in range(arguments.steps + 2):
        wait()
        wall, cpu = time.perf_counter(), cpu_seconds()
        work.step()
        wait()
        if step >= 2:  # The first steps allocate and choose kernels.
            walls.append(time.perf_counter() - wall)
            cpus.append(cpu_seconds() - cpu)
    return arguments.batch / statistics.median(walls), arguments.batch / statistics.median(cpus)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=["vit-s16", "vit-s16-forward", "pretrain"])
    parser.add_argument("batch", type=int)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--compile", action="store_true", help="the first two through torch.compile")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    parser.add_argument("--tf32", action="store_true", help="products in TF32")
    for name, size in (("globals", 2), ("locals", 4), ("global-size", 224), ("local-size", 96)):
        parser.add_argument("--" + name, type=int, default=size, help="of pretrain, %d by default" % size)
    print("%.2f %.2f" % measure(parser.parse_args()))
