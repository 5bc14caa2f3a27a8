"""param_info_missing: hipKernelGetParamInfo is in no ROCm before 7.2.

Ours: gives a captured kernel of other code to nodes by the parameters of the captured node, and patches it whenever it
was captured anew (G14).
"""

import ctypes

from helpers.child import child
from helpers.foreign import functions
from helpers.hip_calls import raw
from quirks.workloads import ours


def ask():
    """Status of the question after the first argument of a kernel."""
    offset, size = ctypes.c_size_t(), ctypes.c_size_t()
    return raw("hipKernelGetParamInfo", functions()["affine"], 0, ctypes.byref(offset), ctypes.byref(size)).name


def test_nobody_tells():
    assert child(ask) == "hipSuccess"
    assert child(ask, quirks="param_info_missing") == "hipErrorNotSupported"


def test_ours_needs_no_sizes():
    result = ours("foreign", quirks="param_info_missing")
    assert result["rungs"]["eager"] == 0
    assert result["rungs"]["patch"] > ours("foreign")["rungs"]["patch"]
