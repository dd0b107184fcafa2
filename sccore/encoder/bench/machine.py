"""The machine and PyTorch that a comparison is made with, in one line. Exits with 1 if PyTorch would use fewer threads than the machine lets it."""

import os
import sys

import torch

cores = len(os.sched_getaffinity(0))
with open("/proc/cpuinfo") as info:
    fields = dict(line.split(":", 1) for line in info.read().split("\n\n")[0].splitlines() if ":" in line)
fields = {key.strip(): value.strip() for key, value in fields.items()}
flags = fields.get("flags", "").split()
vectors = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_tile") if name in flags]
limits = ["%s=%s" % (name, os.environ[name]) for name in ("ATEN_CPU_CAPABILITY", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS") if name in os.environ]
print("%s (%s), %d cores; PyTorch %s at %s, %d threads %s" % (
    fields.get("model name", "unknown processor"), " ".join(vectors), cores, torch.__version__, torch.backends.cpu.get_cpu_capability(),
    torch.get_num_threads(), " ".join(limits)))
if torch.get_num_threads() < cores:
    sys.exit("PyTorch has %d threads for %d cores: unset OMP_NUM_THREADS" % (torch.get_num_threads(), cores))
