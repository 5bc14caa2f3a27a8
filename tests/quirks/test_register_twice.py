"""CLR takes host memory that is registered already; the later registration counts."""

import numpy as np
from helpers.child import child
from quirks.decode import decode_on_driver, expected
from rocm.bindings import hip

QUIRK = "register_twice"


def register_twice():
    """Register memory twice, then take it back twice."""
    address = np.zeros(64, np.uint8).ctypes.data
    calls = [hip.hipHostRegister(address, size, 0) for size in (8, 16)]
    calls += [hip.hipHostUnregister(address) for _ in range(2)]
    return [status.name for (status,) in calls]


def test_the_later_one_counts():
    known, gone = "hipErrorHostMemoryAlreadyRegistered", "hipErrorHostMemoryNotRegistered"
    assert child(register_twice, quirks=QUIRK) == ["hipSuccess", "hipSuccess", "hipSuccess", gone]
    assert child(register_twice) == ["hipSuccess", known, "hipSuccess", gone]


def test_steps():
    assert child(decode_on_driver, quirks=QUIRK) == expected()
