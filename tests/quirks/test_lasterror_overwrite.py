"""lasterror_overwrite: before HIP 7.0 every call overwrites what hipGetLastError returns.

Ours: looks at the status of each call.
"""

from helpers.child import child
from helpers.hip_calls import error
from quirks.workloads import ours
from rocm.bindings import hip


def raw():
    assert error(hip.hipSetDevice(99)) != hip.hipError_t.hipSuccess
    hip.hipSetDevice(0)
    return int(error(hip.hipGetLastError()))


def test_failure_is_forgotten():
    assert child(raw) == 101
    assert child(raw, quirks="lasterror_overwrite") == 0


def test_ours_never_asks(root):
    assert "LastError" not in (root / "hiprt" / "native" / "hip_functions.h").read_text()
    ours("kept", "issued", quirks="lasterror_overwrite")
