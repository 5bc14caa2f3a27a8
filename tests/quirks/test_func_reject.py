"""func_reject: a hipFunction_t is no function of a kernel node (HIP up to 5.4, ROCm/hip#2450).

Ours: the probe "kernel nodes" finds it, and no graph is used.
"""

from helpers.child import child
from helpers.hip_calls import Ints, KernelCall, error, new_graph
from quirks.workloads import ours
from rocm.bindings import hip


def raw():
    call = KernelCall("scale_add", Ints(8), Ints(8), 3, 1, 8)
    return int(error(hip.hipGraphAddKernelNode(new_graph(), None, 0, call.params)))


def test_function_is_refused():
    assert child(raw, quirks="func_reject") == 98


def test_ours_uses_no_graph():
    result = ours(quirks="func_reject")
    assert "hipErrorInvalidDeviceFunction" in result["probes"]["kernel nodes"]
    assert result["rungs"]["instantiate"] == 0
    assert result["rungs"]["eager"] > 0
