"""Writes python.safetensors with the format's own library.

Run: python golden.py   (needs safetensors and numpy)
"""
import numpy as np
from safetensors.numpy import save_file

save_file(
    {"matrix": np.arange(6, dtype=np.float32).reshape(2, 3) / 2, "integers": np.array([-1, 1 << 40], dtype=np.int64)},
    "python.safetensors",
    metadata={"made by": "safetensors"},
)
