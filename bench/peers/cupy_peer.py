"""CuPy: a raw kernel is launched eagerly, and as a captured graph."""

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import cupy

SOURCE = r"""
extern "C" __global__ void link(const int* x, int* y, int by, int n) {
  int i = threadIdx.x;
  if (i < n) y[i] += x[i] * by;
}
"""
ROUNDS = 20
Call = Callable[[], Any]


def clock(call: Call, stream: Any) -> tuple[float, float]:
    """Return the host's time and the whole time of a call, both medians in microseconds."""
    host, whole = [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        call()
        host.append(time.perf_counter() - start)
        stream.synchronize()
        whole.append(time.perf_counter() - start)
    return statistics.median(host) * 1e6, statistics.median(whole) * 1e6


def main() -> None:
    """Measure the workload in the first argument, which is JSON."""
    nodes = json.loads(sys.argv[1])["nodes"]
    kernel, stream = cupy.RawKernel(SOURCE, "link"), cupy.cuda.Stream(non_blocking=True)
    with stream:
        x, y = cupy.ones(32, cupy.int32), cupy.zeros(32, cupy.int32)
        by, n = cupy.int32(1), cupy.int32(32)

        def issue() -> None:
            for _ in range(nodes):
                kernel((1,), (32,), (x, y, by, n))

        issue()
        stream.synchronize()
        eager, _ = clock(issue, stream)
        stream.begin_capture()
        issue()
        graph = stream.end_capture()
        graph.launch(stream)
        host, whole = clock(lambda: graph.launch(stream), stream)
    answer = {"version": cupy.__version__, "chain_eager_us_per_node": eager / nodes}
    print(json.dumps({**answer, "chain_replay_us": host, "chain_device_us_per_node": whole / nodes}))


if __name__ == "__main__":
    main()
