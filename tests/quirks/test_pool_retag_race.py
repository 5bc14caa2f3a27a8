"""A block freed on one stream is given to another at once, and overwritten late (MLX allocator.cpp:99-105)."""

from helpers.child import child
from helpers.hip_calls import Gate, ok
from helpers.kernels import scale
from quirks.decode import decode_on_driver, driver_memory, expected
from quirks.pool_calls import MB, allocate, free, new_pool, new_stream, words
from rocm.bindings import hip

import hiprt
from hiprt.allocator import default_pool

QUIRK = "pool_retag_race"


def hand_over():
    """Whether the second stream got the first one's block, and its data before and after the first one went on."""
    pool, stream, other, gate = new_pool(), new_stream(), new_stream(), Gate()
    first = allocate(pool, stream)
    gate.hold(stream)
    free(first, stream)
    second = allocate(pool, other)
    ok(hip.hipMemsetD32Async(second, 2, MB // 4, other))
    ok(hip.hipStreamSynchronize(other))
    before = words(second)
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    return [int(first) == int(second), before, words(second)]


def given_back_early():
    """A block whose first user is held back goes from hand to hand, and is given back only after that one."""
    pool, stream, other, gate = new_pool(), new_stream(), new_stream(), Gate()
    first = allocate(pool, stream)
    gate.hold(stream)
    ok(hip.hipMemsetD32Async(first, 1, MB // 4, stream))
    free(first, stream)
    free(allocate(pool, other), other)
    ok(hip.hipStreamSynchronize(other))
    ok(hip.hipMemPoolTrimTo(pool, 0))
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    return True


def arrays_of_two_streams():
    """An array dropped while its stream is held back, and one of another stream made meanwhile: is that one right?"""
    default_pool.source = driver_memory
    with hiprt.Stream() as one, hiprt.Stream() as two:
        gate, source = Gate(), hiprt.full(1000, 3.0, stream=one)
        gate.hold(one.hip_stream)
        with hiprt.use_stream(one):
            scale(scale(source, 2.0), 2.0)
        mine = hiprt.full(1000, 7.0, stream=two)
        before = mine.numpy(two)
        gate.open()
        one.synchronize()
        return [bool((values == 7.0).all()) for values in (before, mine.numpy(two))]


def test_data_of_the_second_stream_is_lost():
    assert child(hand_over, quirks=QUIRK) == [True, ["0x2"] * 4, ["0xfbfbfbfb"] * 4]
    assert child(hand_over) == [False, ["0x2"] * 4, ["0x2"] * 4]


def test_memory_stays_until_the_first_user_is_done():
    assert child(given_back_early, quirks=QUIRK)


def test_arrays_do_not_change_streams():
    # Straight from the driver's pool the second stream would wait for the first one, which is held back (G13).
    assert child(arrays_of_two_streams, quirks=QUIRK) == [True, True]


def test_steps():
    assert child(decode_on_driver, quirks=QUIRK) == expected()
