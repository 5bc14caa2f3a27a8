"""lasterror_overwrite: before HIP 7.0 every call overwrites what hipGetLastError returns.

Ours: looks at the status of each call. Only where questions about captured work may fail is the last error put back to
none, for the code that asks for it.
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
    asking = [path.name for path in root.glob("*/native/**/*.c") if "LastError" in path.read_text()]
    assert asking == ["last_error.c"]
    ours("kept", "issued", quirks="lasterror_overwrite")
