"""Images per second of a training step in PyTorch eager, for comparison with the Go benchmarks of this package.

    python step.py resnet18 64        one line: images/s by wall clock, images per CPU-second

The network, batch, loss and update are those of BenchmarkResNet18Step and BenchmarkConv4Step. Threads: as many as the machine has
cores, or OMP_NUM_THREADS. Of contiguous and channels_last tensors, the faster counts.
"""

import argparse
import resource
import statistics
import time
from collections import OrderedDict

import torch
from torch import nn


def conv4(width=16):
    layers, before = OrderedDict(), 3
    for i, (channels, stride) in enumerate(((width, 2), (2 * width, 2), (4 * width, 2), (4 * width, 1)), 1):
        layers["conv%d" % i] = nn.Conv2d(before, channels, 3, stride, 1, bias=False)
        layers["bn%d" % i] = nn.BatchNorm2d(channels)
        layers["relu%d" % i] = nn.ReLU(inplace=True)
        before = channels
    return nn.Sequential(layers | {"pool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}), before


class Block(nn.Module):
    def __init__(self, before, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or before != channels:
            self.downsample = nn.Sequential(nn.Conv2d(before, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


def resnet18(width=64):
    layers, before = OrderedDict(conv1=nn.Conv2d(3, width, 3, 1, 1, bias=False), bn1=nn.BatchNorm2d(width)), width
    layers["relu"] = nn.ReLU(inplace=True)
    for stage in range(4):
        channels = width << stage
        layers["layer%d" % (stage + 1)] = nn.Sequential(Block(before, channels, 2 if stage else 1), Block(channels, channels, 1))
        before = channels
    return nn.Sequential(layers | {"pool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}), before


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(name, batch, memory_format, steps):
    torch.manual_seed(0)
    backbone, features = {"resnet18": resnet18, "conv4": conv4}[name]()
    model = nn.Sequential(backbone, nn.Linear(features, 10)).to(memory_format=memory_format).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, weight_decay=5e-4)
    images = torch.randn(batch, 3, 32, 32).contiguous(memory_format=memory_format)
    labels = torch.arange(batch) % 10
    walls, cpus = [], []
    for step in range(steps + 2):
        wall, cpu = time.perf_counter(), cpu_seconds()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        if step >= 2:  # The first steps allocate and choose kernels.
            walls.append(time.perf_counter() - wall)
            cpus.append(cpu_seconds() - cpu)
    return batch / statistics.median(walls), batch / statistics.median(cpus)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=["resnet18", "conv4"])
    parser.add_argument("batch", type=int)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--all", action="store_true", help="print both memory formats")
    arguments = parser.parse_args()
    rates = {}
    for memory_format in (torch.contiguous_format, torch.channels_last):
        rates[memory_format] = measure(arguments.network, arguments.batch, memory_format, arguments.steps)
        if arguments.all:
            print("%-24s %8.1f images/s %8.1f images/CPU-s" % (memory_format, *rates[memory_format]))
    print("%.2f %.2f" % max(rates.values()))
