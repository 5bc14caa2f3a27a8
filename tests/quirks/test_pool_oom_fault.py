"""hipMallocAsync without memory left ends in a fault, not in hipErrorOutOfMemory (MLX PR 2300, gfx1201)."""

from helpers.child import child, crash
from quirks.decode import decode_on_driver, expected
from rocm.bindings import hip

import hiprt

QUIRK = "pool_oom_fault"
MEMORY = {"HIPRT_CPU_MEMORY_MB": "64"}


def exhaust():
    return hip.hipMallocAsync(65 << 20, None)[0].name


def exhaust_arrays():
    """What an array that is too large raises, and whether others still work."""
    try:
        hiprt.zeros(65 << 18)
    except hiprt.OutOfMemoryError:
        return float(hiprt.zeros(1 << 18).numpy().sum())
    return None


def test_exhaustion_aborts():
    assert "pool_oom_fault: out of device memory" in crash(exhaust, quirks=QUIRK, **MEMORY)
    assert child(exhaust, **MEMORY) == "hipErrorOutOfMemory"


def test_arrays_raise():
    assert child(exhaust_arrays, quirks=QUIRK, **MEMORY) == 0.0


def test_steps():
    assert child(decode_on_driver, quirks=QUIRK, **MEMORY) == expected()
