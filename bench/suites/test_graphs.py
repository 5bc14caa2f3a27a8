"""What recording, replaying, patching and updating a step costs the host, a launch, and an allocation.

    pip install "hiprt[bench]"
    pytest bench/suites

runs on the device in use; plain ``pytest`` leaves this folder out. A step is a chain of 1,000 nodes.
"""

import itertools

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.allocator import Pool
from hiprt.allocator.driver import device_memory
from hiprt.bench.graph import ALLOWED, Bench
from hiprt.bench.topology import BLOCK, GRID, WIDTH, Work
from hiprt.graphs import RUNG_NAMES, Step

NODES, CHANGED, ROUNDS = 1000, 10, 50


@pytest.fixture
def stream():
    """A stream that is the current one of this thread."""
    with hiprt.Stream() as made, hiprt.use_stream(made):
        yield made
        made.synchronize()


@pytest.mark.parametrize("mode", ["eager", "record", "replay", "patch", "update", "instantiate"])
def test_step(benchmark, stream, mode):
    """One step of a mode; between rounds the queue is drained."""
    limits = {"graph_update_budget": 2**62, "graph_update_budget_mb": 2**40, "graph_max_nodes": 0, "graph_max_bytes": 0}
    with hiprt.flags.override(graph_rungs=ALLOWED.get(mode, RUNG_NAMES), **limits):
        bench = Bench(mode, Work("chain", NODES, CHANGED if mode == "patch" else 0, stream))
        bench.prepare()()

        def set_up():
            stream.synchronize()
            return (bench.prepare(),), {}

        benchmark.pedantic(lambda step: step(), setup=set_up, rounds=ROUNDS, warmup_rounds=5)
    benchmark.extra_info["device"] = stream.device.name
    benchmark.extra_info["nodes"] = NODES


@pytest.mark.parametrize("way", ["replay", "varying", "argument", "keep=False"])
def test_changing_value(benchmark, stream, way):
    """One step that is given another number each time, which the nodes behind the first use.

    replay: always the same number. varying: the number lies in device memory. argument: a plain argument of a kept
    step. keep=False: the same of a step that is not kept.
    """
    x = hiprt.full(WIDTH, 1.0)

    def function(by):
        y = kernels.multiply(x, by)
        for _ in range(99):
            y = kernels.sin(y)
        return y

    varying = {"by": np.float32} if way in ("replay", "varying") else None
    step = Step(function, stream=stream, keep=way != "keep=False", overwrite=True, varying=varying)
    numbers = itertools.repeat(1.5) if way == "replay" else itertools.count(0.5)

    def set_up():
        stream.synchronize()
        return (next(numbers),), {}

    benchmark.pedantic(step, setup=set_up, rounds=500, warmup_rounds=10)
    benchmark.extra_info["rungs"] = dict(step.rungs)


def test_launch(benchmark, stream):
    """One kernel, eagerly."""
    work = Work("chain", 1, 0, stream)
    (x, y), launch = work.pairs[0], work.link.launch

    def set_up():
        stream.synchronize()
        return (), {}

    benchmark.pedantic(lambda: launch(stream, GRID, BLOCK, x, y, 1, WIDTH), setup=set_up, rounds=2000, warmup_rounds=50)


@pytest.mark.parametrize("nbytes", [4096, 1 << 20])
def test_allocate(benchmark, stream, nbytes):
    """A buffer is taken from a warm pool and given back."""
    pool = Pool(device_memory, "suite", is_guarded=False)
    pool.allocate(nbytes, stream)

    def take_and_give():
        pool.allocate(nbytes, stream)

    benchmark(take_and_give)
