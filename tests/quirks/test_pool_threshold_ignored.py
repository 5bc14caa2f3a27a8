"""A pool gives back all its free memory when more is free than used
(CLR hip_mempool_impl.cpp:231, rocm-systems#11690)."""

from helpers.child import child
from helpers.hip_calls import ok
from quirks.decode import decode_on_driver, expected
from quirks.pool_calls import MB, allocate, free, new_pool, new_stream, reserved
from rocm.bindings import hip

QUIRK = "pool_threshold_ignored"


def reserved_after_each_free():
    pool, stream, held = new_pool(), new_stream(), []
    for memory in [allocate(pool, stream) for _ in range(4)]:
        free(memory, stream)
        held.append(reserved(pool) // MB)
        ok(hip.hipStreamSynchronize(stream))
    return held


def test_frees_give_memory_back():
    assert child(reserved_after_each_free, quirks=QUIRK) == [4, 4, 4, 1]
    assert child(reserved_after_each_free) == [4, 4, 4, 4]


def test_arrays_do_not_come_and_go_with_it():
    assert child(decode_on_driver, quirks=QUIRK) == expected()
