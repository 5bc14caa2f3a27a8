"""``hiprt bench checks``: how much slower kernels run on the CPU device while they are checked.

On one core both are timed by the process's CPU time; with ``--threads 2`` and more by wall time. Blocks of a checked
kernel use all cores too unless they tell each other something, as those of `last` do. First runs are not timed.

axpy       y = a x + y, a thread each element: no barriers, which unchecked runs as vectors
tree       sums of 256 elements by a tree in shared memory
shuffles   the same sums by shuffles
product    a product of matrices, by tiles in shared memory
rows       the same product, a loop in each thread
stencil    the mean of a matrix's element and its four neighbours
histogram  counts of 64 values in shared memory, by atomics
transpose  a matrix by tiles in shared memory
scan       sums of all elements before each, in blocks of 256
last       a sum of all elements: the block that ends last adds those of the blocks
decode     the kernels of a token of a small model with quantised weights, by wall time
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from hiprt.bench.graph import positive
from hiprt.bench.table import text_table
from hiprt.command import set_run
from hiprt.flags import flags
from hiprt.machine import machine

__all__ = ["Report", "Slowdown", "add_arguments", "measure", "run"]

SOURCE = """
extern "C" __global__ void axpy(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i] + y[i];
}
extern "C" __global__ void tree(const float *x, float *y, int n) {
  __shared__ float part[256];
  int t = threadIdx.x, i = blockIdx.x * 256 + t;
  part[t] = i < n ? x[i] : 0;
  for (int d = 128; d; d /= 2) {
    __syncthreads();
    if (t < d) part[t] += part[t + d];
  }
  if (!t) y[blockIdx.x] = part[0];
}
extern "C" __global__ void shuffles(const float *x, float *y, int n) {
  __shared__ float part[8];
  int t = threadIdx.x, i = blockIdx.x * 256 + t;
  float sum = i < n ? x[i] : 0;
  for (int d = 16; d; d /= 2) sum += __shfl_xor(sum, d);
  if (t % 32 == 0) part[t / 32] = sum;
  __syncthreads();
  for (int w = 1; w < 8; ++w) sum += part[w];
  if (!t) y[blockIdx.x] = sum;
}
extern "C" __global__ void product(const float *x, float *y, int n) {
  __shared__ float a[16][16], b[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    a[threadIdx.y][threadIdx.x] = x[row * n + k + threadIdx.x];
    b[threadIdx.y][threadIdx.x] = x[(k + threadIdx.y) * n + column];
    __syncthreads();
    for (int j = 0; j < 16; ++j) sum += a[threadIdx.y][j] * b[j][threadIdx.x];
    __syncthreads();
  }
  y[row * n + column] = sum;
}
extern "C" __global__ void rows(const float *x, float *y, int n) {
  int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += x[row * n + k] * x[k * n + column];
  y[row * n + column] = sum;
}
extern "C" __global__ void stencil(const float *x, float *y, int n) {
  int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y, i = row * n + column;
  if (!row || !column || row == n - 1 || column == n - 1) return;
  y[i] = (x[i] + x[i - 1] + x[i + 1] + x[i - n] + x[i + n]) / 5;
}
extern "C" __global__ void histogram(const float *x, float *y, int n) {
  __shared__ unsigned count[64];
  int t = threadIdx.x;
  if (t < 64) count[t] = 0;
  __syncthreads();
  for (int k = 0, i = blockIdx.x * 4096 + t; k < 16 && i < n; ++k, i += 256)
    atomicAdd(&count[(i + int(x[i])) % 64], 1u);
  __syncthreads();
  if (t < 64) y[blockIdx.x * 64 + t] = count[t];
}
extern "C" __global__ void transpose(const float *x, float *y, int n) {
  __shared__ float tile[16][17];
  tile[threadIdx.y][threadIdx.x] = x[(blockIdx.y * 16 + threadIdx.y) * n + blockIdx.x * 16 + threadIdx.x];
  __syncthreads();
  y[(blockIdx.x * 16 + threadIdx.y) * n + blockIdx.y * 16 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
extern "C" __global__ void scan(const float *x, float *y, int n) {
  __shared__ float sums[256];
  int t = threadIdx.x, i = blockIdx.x * 256 + t;
  sums[t] = i < n ? x[i] : 0;
  for (int d = 1; d < 256; d *= 2) {
    __syncthreads();
    float before = t >= d ? sums[t - d] : 0;
    __syncthreads();
    sums[t] += before;
  }
  if (i < n) y[i] = sums[t];
}
__device__ unsigned ended;
extern "C" __global__ void last(const float *x, float *y, int n) {
  __shared__ float part[8];
  __shared__ bool is_last;
  int t = threadIdx.x, i = blockIdx.x * 256 + t;
  float sum = i < n ? x[i] : 0;
  for (int d = 16; d; d /= 2) sum += __shfl_xor(sum, d);
  if (t % 32 == 0) part[t / 32] = sum;
  __syncthreads();
  if (!t) {
    for (int w = 1; w < 8; ++w) sum += part[w];
    y[blockIdx.x] = sum;
    __threadfence();
    is_last = atomicAdd(&ended, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last || t) return;
  ended = 0;
  for (unsigned b = 1; b < gridDim.x; ++b) sum += y[b];
  y[gridDim.x] = sum + y[0];
}
"""
ELEMENTS = 1 << 20
SIDE = 256  # of the matrices
SUMS = ((ELEMENTS, (ELEMENTS // 256,), (256,)),) * 3
PRODUCTS = ((SIDE, (SIDE // 16, SIDE // 16), (16, 16)),) * 2
IMAGE = (SIDE * 4, (SIDE // 4, SIDE // 4), (16, 16))
KERNELS = dict(zip(("axpy", "tree", "shuffles", "product", "rows"), SUMS + PRODUCTS, strict=True))
KERNELS |= {
    "stencil": IMAGE,
    "histogram": (ELEMENTS, (ELEMENTS // 4096,), (256,)),
    "transpose": IMAGE,
    "scan": SUMS[0],
    "last": SUMS[0],
}
DECODE = ("decode", "--model", "qwen3-mini", "--mode", "graph", "--tokens", "32", "--json")
SECONDS = 2.0  # for each kernel, in each process


@dataclass(frozen=True)
class Slowdown:
    """What a kernel, or a token's kernels, take without checks and with them.

    Attributes
    ----------
    plain_ms, checked_ms : float
        The best time of all rounds, in milliseconds.
    factor : float
    """

    plain_ms: float
    checked_ms: float
    factor: float


@dataclass(frozen=True)
class Report:
    """How much slower checked kernels are.

    Attributes
    ----------
    rounds : int
        Processes of each kind, which take turns.
    threads : int
        Cores that kernels may use.
    works : dict of str to Slowdown
    """

    rounds: int
    threads: int
    works: dict[str, Slowdown]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt bench checks``."""
    parser.add_argument("--rounds", metavar="N", type=positive, default=3, help="processes of each kind (default: 3)")
    parser.add_argument(
        "--threads", metavar="N", type=positive, default=1, help="cores that kernels may use (default: 1)"
    )
    set_run(parser, run)


def run(options: argparse.Namespace) -> int:
    """Run the benchmark."""
    report = measure(options.rounds, options.threads)
    if options.json:
        print(json.dumps({**asdict(report), **machine()}, indent=2))
        return 0
    rows = [
        (name, f"{work.plain_ms:.3f}", f"{work.checked_ms:.3f}", f"{work.factor:.1f}")
        for name, work in report.works.items()
    ]
    print(text_table(("work", "plain ms", "checked ms", "factor"), rows))
    return 0


def measure(rounds: int, threads: int = 1) -> Report:
    """Time all works in processes without checks and with them, in turn.

    Parameters
    ----------
    rounds : int
    threads : int, default 1

    Returns
    -------
    Report

    Raises
    ------
    RuntimeError
        A process failed; the message is what it wrote.
    """
    best: dict[str, dict[str, float]] = {"": {}, "all": {}}
    for _ in range(rounds):
        for checks, times in best.items():
            for name, ms in {**in_process(checks, threads, __name__), **token(checks, threads)}.items():
                times[name] = min(ms, times.get(name, ms))
    plain, checked = best[""], best["all"]
    works = {name: Slowdown(plain[name], checked[name], checked[name] / plain[name]) for name in plain}
    return Report(rounds, threads, works)


def token(checks: str, threads: int) -> dict[str, float]:
    """Return the milliseconds of a token's kernels."""
    return {"decode": in_process(checks, threads, "hiprt", "bench", *DECODE)["kernels_us"] / 1e3}


def in_process(checks: str, threads: int, module: str, *arguments: str) -> dict[str, Any]:
    """Return what a module prints as JSON on the CPU device with some kinds of checks."""
    variables = {**os.environ, "HIPRT_PROVIDER": "cpu", "HIPRT_CPU_THREADS": str(threads), "HIPRT_CPU_CHECK": checks}
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def best_of(call: Callable[[], None]) -> float:
    """Return the milliseconds of the fastest of some calls: of CPU time on one core, else of wall time."""
    clock = time.process_time if flags.cpu_threads == 1 else time.perf_counter
    call()
    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        begin = clock()
        call()
        best = min(best, clock() - begin)
    return best * 1e3


def times() -> dict[str, float]:
    """Return the milliseconds of each kernel in this process."""
    import numpy as np

    import hiprt
    from hiprt.kernels import hip_kernel

    x, y = (hiprt.array(np.ones(ELEMENTS, np.float32)) for _ in range(2))
    out = {}
    for name, (n, grid, block) in KERNELS.items():
        kernel = hip_kernel(SOURCE, name, {"x": "read float32", "y": "update float32", "n": "int32"})

        def call(kernel: Any = kernel, n: int = n, grid: Any = grid, block: Any = block) -> None:
            kernel(x, y, n, grid=grid, block=block)
            hiprt.current_stream().synchronize()

        out[name] = best_of(call)
    return out


if __name__ == "__main__":
    print(json.dumps(times()))
