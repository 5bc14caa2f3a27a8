"""Allocation beside captures that are open somewhere: it works, and the captures come to a good end (G10)."""

import pytest
from helpers.child import child
from quirks.capture_calls import GLOBAL, LOCAL, RELAXED, begin, capturing, end, new_stream, on_thread

import hiprt
from hiprt.allocator import Pool, default_pool
from hiprt.allocator.driver import device_memory
from hiprt.allocator.parts import with_gap
from hiprt.allocator.pool import size_class

QUIRKS = ("", "capture_malloc_900", "capture_devsync_900", "capture_sync_invalidates_all")


def allocate_beside(mode, is_here):
    """Grow, take over another stream's memory, close a stream, wait at a limit and trim, while a capture is open.

    Of this thread or of another one; `capturing` checks how it ends.
    """
    call = (lambda function: function()) if is_here else on_thread
    one, two, pool = hiprt.Stream(), hiprt.Stream(), Pool(device_memory)
    kept = [pool.allocate(1 << 20, one)]
    with capturing(mode):
        kept.append(call(lambda: pool.allocate(3000, one)))
        del kept[0]
        # A fence behind the free, then the block itself.
        kept += [call(lambda: pool.allocate(1 << 20, two)) for _ in range(3)]
        kept.clear()
        one.close()
        call(pool.settle)
        with hiprt.flags.override(alloc_limit_mb=4):
            kept.append(call(lambda: pool.allocate(7 << 19, two)))
        kept.clear()
        returned = call(pool.trim)
    return [returned == size_class(with_gap(7 << 19)), pool.stats().reserved]


def first_allocation():
    """The probe of a process, too, runs beside a capture."""
    with capturing(GLOBAL):
        kept = hiprt.empty(100)
    return [type(chunk.owner).__name__ for chunk in default_pool.chunks.values()] + [kept.size]


def memory_of_a_capturing_stream():
    """No event is put on somebody's stream while it captures; its memory goes to others afterwards."""
    raw, other, pool = new_stream(), hiprt.Stream(), Pool(device_memory)
    wrapper = hiprt.Stream.from_handle(int(raw))
    buffer = pool.allocate(1 << 20, wrapper)
    address = buffer.address
    del buffer
    begin(raw, RELAXED)
    early = [pool.allocate(1 << 20, other) for _ in range(2)]
    ended = end(raw)[0]
    pool.settle()
    late = pool.allocate(1 << 20, other)
    return [address in [buffer.address for buffer in early], ended, late.address == address]


@pytest.mark.every(2)
@pytest.mark.parametrize("quirk", QUIRKS)
@pytest.mark.parametrize("memory", ["0", "1"])
def test_captures_survive(quirk, memory):
    for mode in (GLOBAL, LOCAL, RELAXED):
        assert child(allocate_beside, mode, False, quirks=quirk, HIPRT_ALLOC_ASYNC=memory) == [True, 0]
    assert child(allocate_beside, GLOBAL, True, quirks=quirk, HIPRT_ALLOC_ASYNC=memory) == [True, 0]


def test_the_probe_leaves_captures_alone():
    assert child(first_allocation) == ["Memory", 100]


@pytest.mark.parametrize("quirk", QUIRKS)
def test_capturing_streams_are_left_alone(quirk):
    assert child(memory_of_a_capturing_stream, quirks=quirk) == [False, "hipSuccess", True]
