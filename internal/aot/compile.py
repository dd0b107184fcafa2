"""Compiles a StableHLO program for an NVIDIA H200 that is not there, until its buffers are assigned, and writes the optimised program and the memory
report into a folder.

    python compile.py step.mlir FOLDER
"""

import glob
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# Without a device XLA cannot choose the tiles of Triton's products.
# The other one is the first of cudaFlags of package backend.
FLAGS = "--xla_gpu_enable_triton_gemm=false --xla_gpu_dot_merger_threshold_mb=0"


def compile_here(program):
    os.environ["JAX_PLATFORMS"] = "cpu"
    from jax._src.interpreters import mlir as jax_mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir
    from jax.experimental import topologies

    target = open(os.path.join(HERE, "h200.txtpb")).read()
    device = topologies.get_topology_desc(platform="cuda", target_config=target, topology="1x1x1").devices[0]
    options = xla_client.CompileOptions()
    options.num_replicas = options.num_partitions = 1
    with jax_mlir.make_ir_context():
        module = ir.Module.parse(open(program).read())
        device.client.compile(module, xla_client.DeviceList((device,)), options)


def main():
    if sys.argv[1] == "--child":
        return compile_here(sys.argv[2])
    program, folder = sys.argv[1:]
    flags = f"{os.environ.get('XLA_FLAGS', '')} {FLAGS} --xla_dump_to={folder} --xla_dump_hlo_as_text"
    env = dict(os.environ, XLA_FLAGS=flags, TF_CPP_MIN_LOG_LEVEL="2")
    child = subprocess.Popen([sys.executable, __file__, "--child", program], env=env)
    # Kernels are compiled last, take twice the time of everything before, and change nothing that is counted here.
    while child.poll() is None:
        time.sleep(0.5)
        if glob.glob(os.path.join(folder, "*memory-usage-report.txt")):
            time.sleep(2)
            child.terminate()
            child.wait()
            return
    if child.returncode:
        sys.exit("XLA does not compile the program")


main()
