"""Pool: stream-ordered reuse, size classes, trimming, accounting."""

import gc
import random
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st

import hiprt
from hiprt import core
from hiprt.allocator import Pool
from hiprt.allocator.parts import with_gap
from hiprt.allocator.pool import size_class
from hiprt.buffer import Buffer
from hiprt.errors import OutOfMemoryError


class Source:
    """Memory with a limit, and the addresses that are out."""

    def __init__(self, limit=1 << 30):
        self.limit = limit
        self.live = {}
        self.next = 1 << 20

    def __call__(self, nbytes, stream):
        if sum(self.live.values()) + nbytes > self.limit:
            raise OutOfMemoryError(2, "hipErrorOutOfMemory", "hipMalloc")
        address, self.next = self.next, self.next + nbytes
        self.live[address] = nbytes
        return Buffer(address, nbytes, 0, lambda: self.live.pop(address))


class Lane:
    """Stands for a stream that is closed already: nothing can be put behind its work."""

    device = SimpleNamespace(index=0)
    is_open = False

    def __init__(self, number):
        self.number = number
        self.core = core.create("hiprt_stream", core.lib.hiprt_stream_release, core.lib.hiprt_stream_create, 0, 0)


@given(st.integers(0, 1 << 40))
def test_size_class_wastes_at_most_an_eighth(nbytes):
    """Blocks are multiples of 512 bytes and at most 9/8 of what was asked, rounding to 512 apart."""
    size = size_class(nbytes)
    assert size % 512 == 0
    assert nbytes <= size <= max(512, nbytes + nbytes // 8 + 512)
    assert size_class(size) == size


def test_freed_block_is_reused_on_its_stream_only():
    """G1: reuse at once in stream order, never by another stream."""
    pool, lane, other = Pool(Source()), Lane(1), Lane(2)
    first = pool.allocate(1000, lane)
    address = first.address
    del first
    assert pool.allocate(1000, other).address != address
    assert pool.allocate(1000, lane).address == address


def test_exhaustion_trims_then_raises():
    """A full source gets the free blocks back before the error."""
    source = Source(limit=4096)
    pool, lane = Pool(source), Lane(1)
    small = [pool.allocate(512, lane) for _ in range(4)]
    small.clear()
    kept = pool.allocate(4096, lane)
    assert source.live == {kept.address: 4096}
    with pytest.raises(OutOfMemoryError):
        pool.allocate(512, lane)
    assert pool.stats().allocated == 4096


def test_memory_of_objects_that_hold_each_other_is_taken_before_a_refusal(stream):
    """A program may let the collector run seldom, or not at all."""
    pool = Pool(Source(1 << 20))
    gc.disable()
    try:
        circle = [pool.allocate(1 << 20, stream)]
        circle.append(circle)
        del circle
        assert pool.allocate(1 << 20, stream).nbytes == 1 << 20
    finally:
        gc.enable()


def test_stats_follow_use():
    """allocated, reserved and peak in bytes."""
    pool, lane = Pool(Source()), Lane(1)
    a, b = pool.allocate(512, lane), pool.allocate(1024, lane)
    del a
    stats = pool.stats()
    assert (stats.allocated, stats.reserved, stats.peak) == (1024, 1536, 1536)
    assert pool.peak == 1536
    pool.reset_peak()
    assert pool.stats().peak == 0
    c = pool.allocate(512, lane)
    assert pool.stats().peak == 1536
    del b, c
    assert pool.trim() == 1536
    assert pool.stats().reserved == 0


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5000), st.booleans()), max_size=80))
def test_live_buffers_never_overlap(operations):
    """Whatever the order of allocations and frees, live buffers are disjoint and everything comes back."""
    source = Source()
    pool = Pool(source)
    lanes = {n: Lane(n) for n in (1, 2, 3)}
    live = []
    for lane, nbytes, drop in operations:
        if drop and live:
            live.pop(nbytes % len(live))
        else:
            live.append(pool.allocate(nbytes, lanes[lane]))
        spans = sorted((b.address, b.address + b.nbytes) for b in live)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    live.clear()
    pool.trim()
    assert not source.live
    assert pool.stats().allocated == pool.stats().reserved == 0


@given(st.lists(st.tuples(st.integers(1, 3000), st.integers(0, 5)), max_size=40), st.integers(0, 2**32))
def test_repeated_sequences_get_the_same_addresses(operations, seed):
    """A step that is recorded again gets the addresses it had the first time, wherever the source puts its blocks."""
    rng = random.Random(seed)
    pool, lane = Pool(Scattered(rng)), Lane(1)

    def run():
        live, addresses = [], []
        for nbytes, drop in operations:
            if drop and len(live) >= drop:
                live.pop(drop - 1)
            live.append(pool.allocate(nbytes, lane))
            addresses.append(live[-1].address)
        return addresses

    assert run() == run() == run()


class Scattered:
    """A source whose addresses go up and down."""

    def __init__(self, rng):
        self.addresses = rng.sample(range(1 << 20), 200)

    def __call__(self, nbytes, stream):
        return Buffer(self.addresses.pop() << 12, nbytes, 0)


def test_arrays_come_from_the_default_pool(stream):
    """Importing hiprt.allocator makes the pool the source of arrays."""
    from hiprt.allocator import default_pool

    before = default_pool.stats().allocated
    x = hiprt.empty(1000, stream=stream)
    assert default_pool.stats().allocated == before + size_class(with_gap(4000))
    assert x.buffer.pool is default_pool


def test_buffer_in_a_reference_cycle_is_given_back_once():
    """The collector finalises a cycle in any order; the block must not go to the source and to the free list."""
    source = Source()
    pool, lane = Pool(source), Lane(1)

    class Cycle:
        pass

    for _ in range(50):
        cycle = Cycle()
        cycle.me, cycle.buffer = cycle, pool.allocate(1000, lane)
        del cycle
        gc.collect()
    again = pool.allocate(1000, lane)
    assert source.live == {again.address: 1024}
