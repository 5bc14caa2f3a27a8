"""With less than an eighth of the device left, a free waits for earlier ones (CLR hip_mempool_impl.cpp:239-245)."""

import threading

from helpers.child import child
from helpers.hip_calls import Gate, ok, raw, settle
from helpers.kernels import scale
from quirks.decode import decode_on_driver, expected
from quirks.pool_calls import MB, allocate, free, new_pool, new_stream, reserved
from rocm.bindings import hip

import hiprt

QUIRK = "pool_low_mem_block"
MEMORY = {"HIPRT_CPU_MEMORY_MB": "64"}


def free_on_a_full_device():
    """Whether the second free returns while its stream is held back, and what the pool holds in the end."""
    pool, stream, gate = new_pool(), new_stream(), Gate()
    large, small = allocate(pool, stream, 40 * MB), allocate(pool, stream, 20 * MB)
    gate.hold(stream)
    free(large, stream)
    returned = threading.Event()
    # Not through hip-python, which would keep this thread waiting too.
    thread = threading.Thread(target=lambda: (raw("hipFreeAsync", small, stream), returned.set()))
    thread.start()
    settle()
    early = returned.is_set()
    gate.open()
    thread.join()
    ok(hip.hipStreamSynchronize(stream))
    return [early, reserved(pool) // MB]


def drop_on_a_full_device():
    """Arrays are dropped while their stream is held back, and their memory used again behind it."""
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        x, gate = hiprt.full(1 << 20, 2.0), Gate()
        filler = [hiprt.zeros(1 << 20) for _ in range(7)]
        gate.hold(stream.hip_stream)
        for _ in range(40):
            x = scale(x, 1.0)
        del filler
        gate.open()
        return float(x[77].item())


def test_the_free_waits():
    assert child(free_on_a_full_device, quirks=QUIRK, **MEMORY) == [False, 20]
    assert child(free_on_a_full_device, **MEMORY)[1] == 60


def test_dropping_arrays_never_waits():
    assert child(drop_on_a_full_device, quirks=QUIRK, **MEMORY) == 2.0


def test_steps():
    assert child(decode_on_driver, quirks=QUIRK, **MEMORY) == expected()
