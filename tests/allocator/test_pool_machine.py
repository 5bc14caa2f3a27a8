"""The pool against a simple oracle: random allocations, frees, launches, fences, trims and limits on several streams.

20,000 operations by default; the variable POOL_OPERATIONS asks for more.
"""

import os

import numpy as np
from helpers.gate import Gate
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import hiprt
from hiprt import core
from hiprt.allocator import Pool
from hiprt.allocator.pool import size_class
from hiprt.buffer import Buffer, hip_malloc
from hiprt.errors import OutOfMemoryError

OPERATIONS = int(os.environ.get("POOL_OPERATIONS", "20000"))
STEPS = 50
REGION = 64 << 20
sizes = st.one_of(
    st.sampled_from([512, 1024, 2048]),
    st.integers(0, 3000),
    st.integers(1, 40).map(lambda n: 512 * n),
    st.integers(1, 1 << 19),
)
lanes = st.integers(0, 2)


class Source:
    """Carves a region. What comes back is used again once every stream is idle, as after a hipFree."""

    def __init__(self, region):
        self.region = region
        self.at = region.address
        self.live = {}

    def __call__(self, nbytes, stream):
        address, self.at = self.at, self.at + nbytes
        assert self.at <= self.region.address + REGION, "the test's region is too small"
        self.live[address] = nbytes
        return Buffer(address, nbytes, 0, lambda: self.live.pop(address))


class Held:
    """A buffer in use, and the byte that its stream wrote last."""

    def __init__(self, buffer, lane):
        self.buffer, self.lane, self.tag = buffer, lane, None
        self.start = buffer.address
        self.end = buffer.address + max(size_class(buffer.nbytes), 1)


class Machine(RuleBasedStateMachine):
    """Streams that can be held back, so that what they freed stays in use."""

    shared = None

    def __init__(self):
        super().__init__()
        if Machine.shared is None:
            first = hiprt.Stream()
            Machine.shared = first, hip_malloc(REGION, first)
        self.source = Source(Machine.shared[1])
        self.pool = Pool(self.source, "machine")
        self.step = Pool(self.pool.allocate, "step")
        self.streams = [hiprt.Stream() for _ in range(3)]
        self.gates = [Gate(stream) for stream in self.streams]
        self.held = []
        self.freed = [[] for _ in self.streams]  # behind a gate that is closed: in use until it opens
        self.limit, self.tags = 0, 0

    @initialize()
    def begin(self):
        """Start without a limit."""
        self.override = hiprt.flags.override(alloc_limit_mb=0)
        self.override.__enter__()

    def open(self, lane):
        self.gates[lane].open()
        self.freed[lane].clear()

    def take(self, pool, nbytes, lane):
        stream = self.streams[lane]
        try:
            new = Held(pool.allocate(nbytes, stream), lane)
        except OutOfMemoryError:
            assert self.limit
            # All that could be given back was; what is left holds on to too much.
            assert pool.stats().reserved + size_class(nbytes) > self.limit << 20
            return
        for other in self.held:
            assert new.end <= other.start or other.end <= new.start, "two live buffers overlap"
        for k, ranges in enumerate(self.freed):
            for start, end in ranges:
                assert k == lane or new.end <= start or end <= new.start, "another stream may still use it"
        self.held.append(new)

    @rule(nbytes=sizes, lane=lanes)
    def allocate(self, nbytes, lane):
        self.take(self.pool, nbytes, lane)

    @precondition(lambda self: not self.limit)
    @rule(nbytes=sizes)
    def record(self, nbytes):
        """A step's intermediates come from a pool of its own, on one stream."""
        self.take(self.step, nbytes, 0)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def launch(self, data):
        """Write a byte everywhere."""
        held = self.held[data.draw(st.integers(0, len(self.held) - 1))]
        if held.buffer.nbytes:
            self.tags = held.tag = (self.tags + 1) % 251
            stream = self.streams[held.lane]
            stream.submit(core.lib.hiprt_fill, held.start, held.tag, 1, held.buffer.nbytes)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def free(self, data):
        """Look whether nobody else wrote, then free."""
        held = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        lane = held.lane
        if self.gates[lane].is_closed:
            if held.buffer.pool is self.pool:
                self.freed[lane].append((held.start, held.end))
        else:
            self.compare(held)
        # The draws may keep `held` itself alive.
        held.buffer = None

    def compare(self, held):
        if held.tag is not None:
            out = np.empty(held.buffer.nbytes, np.uint8)
            stream = self.streams[held.lane]
            stream.submit(core.lib.hiprt_copy, int(out.ctypes.data), held.start, out.nbytes, 2)
            stream.synchronize()
            assert (out == held.tag).all(), "somebody else wrote into a live buffer"

    @precondition(lambda self: not self.limit)
    @rule(lane=lanes)
    def hold(self, lane):
        """Keep a stream's work from being done."""
        if not self.gates[lane].is_closed:
            self.gates[lane].shut()

    @rule(lane=lanes)
    def go(self, lane):
        """Let it be done."""
        self.open(lane)

    @rule(lane=lanes)
    def replace(self, lane):
        """Close a stream and go on with a new one; its buffers are freed on the old one."""
        for each in range(len(self.streams)):
            self.open(each)
        if not any(held.lane == lane for held in self.held):
            self.streams[lane].close()
            # The pool waits for the device when it first sees that a stream is gone.
            self.pool.close_lanes()
            self.streams[lane] = self.gates[lane].stream = hiprt.Stream()

    @rule()
    def trim(self):
        """Every chunk without a live buffer goes back, and no other."""
        for lane in range(len(self.streams)):
            self.open(lane)
        self.pool.trim()
        for start, nbytes in self.source.live.items():
            inside = [c for c in self.step.chunks.values() if start <= c.address < start + nbytes]
            assert inside or any(start <= h.start < start + nbytes for h in self.held if h.buffer.pool is self.pool)

    @rule(mb=st.integers(0, 3))
    def bound(self, mb):
        """Change the limit; a pool that waits at it must not wait for ever."""
        for lane in range(len(self.streams)):
            self.open(lane)
        self.limit = hiprt.flags.__dict__["alloc_limit_mb"] = mb

    @invariant()
    def books_are_right(self):
        used = sum(held.end - held.start for held in self.held if held.buffer.pool is self.pool)
        stats = self.pool.stats()
        assert stats.allocated == used + self.step.stats().reserved
        assert stats.allocated <= stats.reserved == sum(self.source.live.values())

    def teardown(self):
        for lane in range(len(self.streams)):
            self.open(lane)
        for held in self.held:
            self.compare(held)
            held.buffer = None
        assert self.step.stats().allocated == 0
        self.step.trim()
        self.pool.trim()
        assert not self.source.live
        assert self.pool.stats().reserved == self.pool.stats().allocated == 0
        for gate in self.gates:
            gate.close()
            gate.stream.close()
        if hasattr(self, "override"):
            self.override.__exit__(None, None, None)


def test_pool_agrees_with_the_oracle():
    """No overlap in stream order, nothing lost, limits kept."""
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=-(-OPERATIONS // STEPS),
            stateful_step_count=STEPS,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
