"""Images per second of timm's ViT-S/16 as a frozen encoder, for comparison with BenchmarkFrozenViTS16.

    python timm_features.py 8 --steps 12        one line: images/s by wall clock, images per CPU-second

Needs PyTorch and timm. Threads: as many as the machine has cores, or OMP_NUM_THREADS.
"""

import argparse
import resource
import time

import timm
import torch


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("batch", type=int)
    parser.add_argument("--steps", type=int, default=12)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    model = timm.create_model("vit_small_patch16_224", pretrained=False, num_classes=0).eval()
    image = (torch.arange(224 * 224 * 3) * 31 % 256).reshape(224, 224, 3).permute(2, 0, 1).float() / 255
    images = image.expand(arguments.batch, -1, -1, -1).contiguous()
    with torch.inference_mode():
        for _ in range(2):
            model.forward_features(images)
        wall, cpu = time.perf_counter(), cpu_seconds()
        for _ in range(arguments.steps):
            model.forward_features(images).numpy().copy()
        images_seen = arguments.batch * arguments.steps
        print("%.2f %.2f" % (images_seen / (time.perf_counter() - wall), images_seen / (cpu_seconds() - cpu)))
