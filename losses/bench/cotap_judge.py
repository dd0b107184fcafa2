"""Times a fused, blocked brute force of the CoTAP loss and its gradient in JAX and PyTorch, to judge the benchmark of package losses.

Run: python cotap_judge.py [jax|torch] [N ...]   (needs jax or torch; a GPU is used where there is one)
Prints a line for each N: wall and CPU time of one loss with gradient, the loss itself, and on a GPU the peak memory.
"""
import random
import resource
import sys
import time

TAU1, TAU2 = -0.2, 0.5
BLOCK = 256


def scores(n):
    rng = random.Random(7)
    q = [rng.random() for _ in range(n)]
    p = [min(1.0, max(0.0, 0.5 * x + 0.5 * rng.random())) for x in q]
    return p, q


def jax_step(n):
    import jax
    import jax.numpy as jnp

    def padded(x, fill):
        return jnp.pad(x, (0, -n % BLOCK), constant_values=fill).reshape(-1, BLOCK)

    def loss(p, q):
        def block(rows):
            pi, qi = rows
            apart, lower = p[None, :] - pi[:, None], q[None, :] < qi[:, None]
            wide, narrow = jnp.maximum(apart + TAU2, 0), jnp.maximum(apart, 0)
            huber = jnp.sum(jnp.where(lower, wide * wide - narrow * narrow, 0), 1) / TAU2**2
            slope = jnp.sum(jnp.where(lower, wide - narrow, 0), 1)
            same = jnp.sum(jnp.where(lower, 0, apart >= 0).astype(jnp.float32), 1)
            return huber, slope, same

        sums = jax.lax.map(block, (padded(p, 2), padded(q, 2)))
        huber, slope, same = (x.reshape(-1)[:n] for x in sums)
        gamma = jnp.maximum(q - TAU1, 0)
        weight = gamma * same / (huber + same) ** 2

        def pull(rows):
            pi, qi = rows
            apart, higher = pi[:, None] - p[None, :], q[None, :] > qi[:, None]
            each = jnp.maximum(apart + TAU2, 0) - jnp.maximum(apart, 0)
            return jnp.sum(jnp.where(higher, weight[None, :] * each, 0), 1)

        pulls = jax.lax.map(pull, (padded(p, 2), padded(q, 2))).reshape(-1)[:n]
        return jnp.mean(gamma * huber / (huber + same)), 2 / (TAU2**2 * n) * (pulls - weight * slope)

    p, q = (jnp.asarray(x, jnp.float32) for x in scores(n))
    compiled = jax.jit(loss)

    def step():
        value, gradient = compiled(p, q)
        gradient.block_until_ready()
        return float(value)

    def memory():
        stats = jax.local_devices()[0].memory_stats()
        return stats["peak_bytes_in_use"] if stats else None

    return step, memory


def torch_step(n):
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    p, q = (torch.tensor(x, dtype=torch.float32, device=device) for x in scores(n))

    @torch.compile
    def forward(pi, qi):
        apart, lower = p[None, :] - pi[:, None], q[None, :] < qi[:, None]
        wide, narrow = (apart + TAU2).clamp_min(0), apart.clamp_min(0)
        huber = torch.where(lower, wide * wide - narrow * narrow, 0.0).sum(1) / TAU2**2
        slope = torch.where(lower, wide - narrow, 0.0).sum(1)
        return huber, slope, (~lower & (apart >= 0)).sum(1).float()

    @torch.compile
    def pull(pi, qi, weight):
        apart, higher = pi[:, None] - p[None, :], q[None, :] > qi[:, None]
        each = (apart + TAU2).clamp_min(0) - apart.clamp_min(0)
        return torch.where(higher, weight[None, :] * each, 0.0).sum(1)

    def step():
        with torch.no_grad():
            rows = list(zip(p.split(4096), q.split(4096)))
            huber, slope, same = (torch.cat(x) for x in zip(*(forward(a, b) for a, b in rows)))
            gamma = (q - TAU1).clamp_min(0)
            weight = gamma * same / (huber + same) ** 2
            pulls = torch.cat([pull(a, b, weight) for a, b in rows])
            gradient = 2 / (TAU2**2 * n) * (pulls - weight * slope)
            value = (gamma * huber / (huber + same)).mean()
            gradient.sum().item()  # Waits for the device.
            return value.item()

    return step, lambda: torch.cuda.max_memory_allocated() if device == "cuda" else None


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main():
    which = sys.argv[1] if len(sys.argv) > 1 else "jax"
    for n in [int(x) for x in sys.argv[2:]] or [2304, 9604, 38416]:
        step, memory = {"jax": jax_step, "torch": torch_step}[which](n)
        step()  # Compiles.
        times = []
        for _ in range(3):
            wall, cpu = time.perf_counter(), cpu_seconds()
            value = step()
            times.append((time.perf_counter() - wall, cpu_seconds() - cpu))
        wall, cpu = (min(x) for x in zip(*times))
        peak = memory()
        print(f"{which} N {n}: {1e3 * wall:.1f} ms wall, {1e3 * cpu:.1f} ms CPU, loss {value:.6f}" + (f", peak {peak / 1e6:.0f} MB" if peak else ""))


if __name__ == "__main__":
    main()
