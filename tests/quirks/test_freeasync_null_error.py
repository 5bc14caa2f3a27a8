"""hipFreeAsync of null is an error before HIP 7.0."""

from helpers.child import child
from quirks.decode import decode_on_driver, expected
from rocm.bindings import hip

import hiprt

QUIRK = "freeasync_null_error"


def free_null():
    return hip.hipFreeAsync(None, None)[0].name


def empty_arrays():
    """Arrays without elements come and go; a free that fails is a warning."""
    for _ in range(3):
        hiprt.empty(0)
        hiprt.array([])
    return hiprt.empty((3, 0)).numpy().shape


def test_freeing_null_fails():
    assert child(free_null, quirks=QUIRK) == "hipErrorInvalidValue"
    assert child(free_null) == "hipSuccess"


def test_empty_arrays():
    assert child(empty_arrays, quirks=QUIRK, PYTHONWARNINGS="error") == [3, 0]


def test_steps():
    assert child(decode_on_driver, quirks=QUIRK) == expected()
