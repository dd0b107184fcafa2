"""Runs a training step that "internal/aot --dump" has written on a GPU, by JAX with its CUDA plugin, and says which kernels take its time.

    python kernels.py step.mlir IMAGES [STEPS]

One JSON object: ms of a step by wall clock and on the device, images/s, and the groups of kernels with most time, in ms a step. Inputs and weights are random.
Nothing is read from disk or moved to the device between steps, so this is the step alone.
"""

import collections
import glob
import json
import os
import re
import sys
import tempfile
import time

os.environ["XLA_FLAGS"] = "--xla_gpu_dot_merger_threshold_mb=0 --xla_gpu_enable_command_buffer=-CUDNN " + os.environ.get("XLA_FLAGS", "")

os.environ["JAX_ENABLE_X64"] = "1"  # Inputs have the program's dtypes.

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jax._src.lib.mlir import ir

DTYPES = {"f64": "float64", "f32": "float32", "bf16": "bfloat16", "ui8": "uint8", "i32": "int32", "i64": "int64", "ui64": "uint64", "ui32": "uint32", "i1": "bool"}


def arguments(program):
    """The shape, dtype and number of the result that takes its memory of each argument of the main function; None without one."""
    signature = program[program.index("@main(") : program.index("->", program.index("@main("))]
    found = re.findall(r"%[\w.]+: tensor<((?:\d+x)*)(\w+)>(?: { ?tf.aliasing_output = (\d+))?", signature)
    return [(tuple(int(n) for n in dims.split("x")[:-1]), DTYPES[dtype], int(out) if out else None) for dims, dtype, out in found]


def fields(data):
    """The fields of a message of protocol buffers, as pairs of a number and an int or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or varint()
            yield key >> 3, data[at : at + size]
            at += size


def kernels(folder):
    """The seconds of each kernel in a trace, and how often it ran, of the planes of GPUs (XSpace: plane 1; XPlane: name 2, line 3, names 4; XLine: event 4)."""
    seconds, counts = collections.Counter(), collections.Counter()
    for file in glob.glob(os.path.join(folder, "**", "*.xplane.pb"), recursive=True):
        for _, plane in (f for f in fields(open(file, "rb").read()) if f[0] == 1):
            parts = list(fields(plane))
            name = next((value for number, value in parts if number == 2), b"").decode()
            if not name.startswith("/device:GPU"):
                continue
            names = {}
            for _, entry in (p for p in parts if p[0] == 4):
                metadata = dict(fields(dict(fields(entry)).get(2, b"")))
                names[metadata.get(1, 0)] = metadata.get(2, b"").decode(errors="replace")
            for _, line in (p for p in parts if p[0] == 3):
                line = list(fields(line))
                if not next((value for number, value in line if number == 2), b"").startswith(b"Stream"):
                    continue
                for _, event in (f for f in line if f[0] == 4):
                    event = dict(fields(event))
                    seconds[names.get(event.get(1, 0), "?")] += event.get(3, 0) / 1e12
                    counts[names.get(event.get(1, 0), "?")] += 1
    return seconds, counts


def main():
    path, images, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 10
    program = open(path).read()
    device, numbers = jax.devices()[0], np.random.default_rng(0)
    taken = arguments(program)

    def draw(shape, dtype, _):
        if dtype in ("float32", "bfloat16", "float64"):
            return jax.device_put(jnp.asarray(numbers.random(shape, np.float32) * 0.04, dtype), device)
        return jax.device_put(jnp.asarray(numbers.integers(0, 255 if dtype == "uint8" else 2, shape), dtype), device)

    values = [draw(*argument) for argument in taken]
    options, began = xla_client.CompileOptions(), time.time()
    options.num_replicas = options.num_partitions = 1
    with mlir.make_ir_context():
        step = device.client.compile_and_load(ir.Module.parse(program), xla_client.DeviceList((device,)), options)
    compiling = time.time() - began

    def take():
        results = [shards[0] for shards in step.execute_sharded(values).disassemble_into_single_device_arrays()]
        for i, (_, _, out) in enumerate(taken):
            if out is not None:
                values[i] = results[out]
        return results

    for _ in range(3):
        last = take()
    jax.block_until_ready(last)
    began = time.time()
    for _ in range(steps):
        last = take()
    jax.block_until_ready(last)
    wall = (time.time() - began) / steps
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(3):
                last = take()
            jax.block_until_ready(last)
        seconds, counts = kernels(folder)
    groups, launches = collections.Counter(), collections.Counter()
    for name, value in seconds.items():
        group = re.sub(r"[._]?\d+", "", name)[:90]
        groups[group] += value
        launches[group] += counts[name]
    print(json.dumps({
        "compile_seconds": compiling, "ms": wall * 1e3, "images_per_second": images / wall, "device_ms": sum(seconds.values()) / 3 * 1e3,
        "launches": sum(counts.values()) / 3, "finite": bool(np.all([np.isfinite(np.asarray(x, np.float32)).all() for x in last[-8:]])),
        "groups": [[name, round(value / 3 * 1e3, 3), launches[name] / 3] for name, value in groups.most_common(60)],
        "top": [[name, round(value / 3 * 1e3, 3), counts[name] / 3] for name, value in seconds.most_common(60)],
    }))


main()
