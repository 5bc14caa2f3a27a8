"""Long runs: replays and updates without end leave handles, memory and rungs as they are after warm-up.

Short forms run by default, and with ``--all``; a million replays and 100,000 updates: ``pytest -m soak``. The
profile is the environment's: ``HIPRT_CPU_PROFILE=clr-10 pytest -m soak …``.
"""

import gc
import os
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from helpers.kernels import accumulate, mix, scale

import hiprt
from hiprt import allocator, graphs

pytestmark = pytest.mark.soak
IN_FLIGHT = 16
PAGE = os.sysconf("SC_PAGE_SIZE")
# The sanitizer keeps what is freed for a while.
MEMORY = (1 << 40) if "asan" in os.environ.get("LD_PRELOAD", "") else (16 << 20)


@pytest.fixture
def replays(form):
    """How often to replay."""
    return 1_000_000 if form == "long" else 5_000


@pytest.fixture
def updates(form):
    """How often to change an exec."""
    return 100_000 if form == "long" else 3_000


@dataclass
class Usage:
    """What a process holds, and what of it may not grow."""

    step: graphs.Step
    rungs: dict = field(default_factory=dict)

    def __post_init__(self):
        gc.collect()
        self.rungs = dict(self.step.rungs)
        self.device = allocator.default_pool.stats().allocated, allocator.default_pool.stats().reserved
        self.memory = self.step.ladder.memory.stats().reserved
        self.slots = Counter(exec_.recording.key for exec_ in self.step.ladder.execs)
        self.kept = len(self.step.kept)
        self.objects = len(gc.get_objects())
        self.files = len(os.listdir("/proc/self/fd"))
        with open("/proc/self/statm") as file:
            self.resident = int(file.read().split()[1]) * PAGE

    def check_flat(self, **rungs):
        """Compare with now: nothing has grown, and these rungs were taken, so often, and no others."""
        now = Usage(self.step)
        none = dict.fromkeys(graphs.RUNG_NAMES, 0)
        assert {rung: now.rungs[rung] - self.rungs[rung] for rung in none} == none | rungs
        assert (now.device, now.memory, now.slots) == (self.device, self.memory, self.slots)
        assert (now.kept, now.files) == (self.kept, self.files)
        assert now.objects - self.objects < 300
        assert now.resident - self.resident < MEMORY


def execs(step):
    """Every executable graph a step holds."""
    return list(step.ladder.execs)


@pytest.mark.timeout(7200)
def test_replays_are_flat(stream, replays):
    """A kept step is launched again and again: nothing but replay, nothing grows, nothing is lost."""
    x, total = hiprt.array(np.ones(64, np.int32).view(np.float32)), hiprt.zeros(64)
    ones = hiprt.full(64, 1.0)

    def function():
        accumulate(ones, total)
        return mix(scale(x, 2.0), x)

    step = graphs.Step(function, stream=stream)
    for _ in range(200):
        step()
    stream.synchronize()
    usage = Usage(step)
    for i in range(replays):
        step()
        if i % IN_FLIGHT == 0:
            stream.synchronize()
    stream.synchronize()
    usage.check_flat(replay=replays)
    assert total.numpy()[0] == replays + 200


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("rung", ["patch", "update"])
def test_changes_are_flat_and_within_the_budget(stream, updates, rung):
    """A step issued again with other arguments each time: one exec at a time, each retired before it is overspent."""
    source, target = hiprt.full(64, 1.0), hiprt.empty(64)
    factor, budget = 0.0, 1000

    def function():
        target.copy_from(scale(source, factor))

    step = graphs.Step(function, stream=stream, keep=False)
    with hiprt.flags.override(graph_rungs=(rung, "instantiate"), graph_update_budget=budget):
        for i in range(-1500, updates):
            if i == 0:
                usage = Usage(step)
                replaced = step.reasons["replaced: update budget spent"]
            factor = float(i)
            step()
            # What is in flight cannot be changed: another exec would be made.
            stream.synchronize()
            assert all(slot.updated_nodes <= budget for slot in execs(step))
        usage.check_flat(**{rung: updates})
        nodes = {"patch": 1, "update": 2}[rung]
        assert abs(step.reasons["replaced: update budget spent"] - replaced - updates * nodes / budget) <= 1
    assert target.numpy()[0] == updates - 1


@pytest.mark.timeout(7200)
def test_moves_are_flat_and_within_the_budget(stream, updates):
    """A kept step called with one array after the other."""
    arrays = [hiprt.full(64, float(i)) for i in range(7)]
    total, budget = hiprt.zeros(64), 1000

    def function(x):
        accumulate(x, total)

    step = graphs.Step(function, stream=stream, moves=True)
    with hiprt.flags.override(graph_update_budget=budget):
        for i in range(-2100, updates):
            if i == 0:
                usage = Usage(step)
            step(arrays[i % 7])
            assert all(slot.updated_nodes <= budget for slot in execs(step))
        usage.check_flat(patch=updates)
    assert total.numpy()[0] == sum(i % 7 for i in range(-2100, updates))


@pytest.mark.timeout(7200)
def test_changes_in_flight_keep_to_the_slots(stream, updates):
    """Without waiting: as many execs as there are slots, and no more."""
    source, total = hiprt.full(64, 1.0), hiprt.zeros(64)
    factor = 0.0

    def function():
        accumulate(scale(source, factor), total)

    step = graphs.Step(function, stream=stream, keep=False)
    for i in range(updates):
        factor = float(i % 3 + i // 3 % 2 * 0.5)
        step()
        assert len(execs(step)) <= hiprt.flags.graph_slots
    counts = step.rungs
    assert counts["eager"] == 0
    assert counts["instantiate"] <= hiprt.flags.graph_slots
    assert sum(counts.values()) == updates
    assert total.numpy()[0] == sum(i % 3 + i // 3 % 2 * 0.5 for i in range(updates))


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("keep", [True, False])
def test_shapes_without_end_keep_to_the_keys(stream, updates, keep):
    """Far more topologies than are kept: the oldest go, with all they held.

    They come again, so that plans, which are remembered by shape until they are 4,096, do not count as what grows.
    """
    memory = hiprt.zeros(64 * 101)
    step = graphs.Step(lambda x: scale(x, 1.0).size, stream=stream, keep=keep)
    shapes = [64 * (1 + i * 7 % 101) for i in range(101)]
    with hiprt.flags.override(graph_keys=4):
        for i in range(-303, updates // 10):
            if i == 0:
                usage = Usage(step)
            assert step(memory[: shapes[i % 101]]) == shapes[i % 101]
            stream.synchronize()
            assert len(step.kept) <= 4
            assert len(execs(step)) <= 4
        now = Usage(step)
    assert now.objects - usage.objects < 300
    assert now.files == usage.files
    assert now.resident - usage.resident < MEMORY


@pytest.mark.timeout(7200)
def test_execs_that_may_not_be_changed_do_not_pile_up(stream):
    """Where neither patch nor update is allowed, an exec is made each time, and the one before goes."""
    source = hiprt.full(64, 1.0)
    factor = 0.0
    step = graphs.Step(lambda: scale(source, factor), stream=stream, keep=False)
    with hiprt.flags.override(graph_rungs=("replay", "instantiate")):
        for i in range(50):
            factor = float(i)
            np.testing.assert_array_equal(step().numpy(), np.full(64, i, np.float32))
            assert len(execs(step)) <= hiprt.flags.graph_slots


@pytest.mark.timeout(7200)
def test_tokens_that_allocate_and_free_are_flat(stream, form):
    """Two million tokens, replayed and recorded again in turn, each with memory of its own: flat to the byte."""
    tokens = 2_000_000 if form == "long" else 4_000
    x, total = hiprt.full(64, 1.0), hiprt.zeros(64)

    def function():
        accumulate(scale(scale(x, 0.5), 2.0), total)
        return mix(total, x)

    kept = graphs.Step(function, name="kept", stream=stream)
    issued = graphs.Step(function, name="issued", stream=stream, keep=False)
    results = []
    for token in range(-400, tokens):
        if token == 0:
            results.clear()
            stream.synchronize()
            usages = Usage(kept), Usage(issued)
        results.append((kept if token % 2 else issued)())
        # A user that looks back at some results, and lets them go.
        del results[: -(token % 3) or None]
        if token % IN_FLIGHT == 0:
            stream.synchronize()
    results.clear()
    for usage in usages:
        usage.check_flat(replay=tokens // 2)
    # Float32 counts up to here without rounding.
    assert total.numpy()[0] == tokens + 400 or tokens + 400 > 1 << 24
