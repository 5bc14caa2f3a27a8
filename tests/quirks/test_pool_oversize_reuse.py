"""A small request takes a large block of its own stream (CLR hip_mempool_impl.cpp:45-78)."""

from helpers.child import child
from quirks.decode import decode_on_driver, expected, free_bytes
from quirks.pool_calls import MB, allocate, free, new_pool, new_stream, reserved

import hiprt

QUIRK = "pool_oversize_reuse"


def small_after_large():
    """Whether a small request got a freed large block, on its stream and on another one; and what it all takes."""
    pool, stream, other = new_pool(), new_stream(), new_stream()
    first = allocate(pool, stream, 8 * MB)
    free(first, stream)
    elsewhere = int(allocate(pool, other, 512)) == int(first)
    here = int(allocate(pool, stream, 512)) == int(first)
    allocate(pool, stream, 8 * MB)
    return [here, elsewhere, reserved(pool) >= 16 * MB]


def peak_of_mixed_sizes():
    """Memory that alternating large and small arrays take, in MiB."""
    before, kept = free_bytes(), []
    with hiprt.Stream() as stream:
        for _ in range(32):
            hiprt.zeros(2 * MB, stream=stream)
            kept.append(hiprt.zeros(8, stream=stream))
        return (before - free_bytes()) / MB


def test_small_requests_take_large_blocks():
    assert child(small_after_large, quirks=QUIRK) == [True, False, True]
    assert child(small_after_large) == [False, False, False]


def test_arrays_take_what_they_need():
    assert child(peak_of_mixed_sizes, quirks=QUIRK) < 20


def test_steps():
    assert child(decode_on_driver, quirks=QUIRK) == expected()
