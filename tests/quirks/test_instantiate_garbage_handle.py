"""instantiate_garbage_handle: a failing instantiation writes junk to the handle (hip_graph.cpp:1363-1380).

Ours: takes a handle over only when the call succeeded, and runs the step eagerly (G8).
"""

import ctypes

from helpers.child import child, crash
from helpers.hip_calls import new_graph, raw
from quirks.workloads import ours


def failing(destroys):
    handle = ctypes.c_void_p()
    status = raw("hipGraphInstantiateWithFlags", ctypes.byref(handle), new_graph(), ctypes.c_ulonglong(1 << 20))
    if destroys:
        raw("hipGraphExecDestroy", handle)
    return int(status), handle.value is None


def test_handle_is_junk():
    assert child(failing, False) == [1, True]
    assert child(failing, False, quirks="instantiate_garbage_handle") == [1, False]
    assert "failed hipGraphInstantiate" in crash(failing, True, quirks="instantiate_garbage_handle")


def test_ours_never_touches_it():
    # Graphs of more than one node do not fit.
    quirks = "instantiate_garbage_handle,kernarg_bump_leak,kernarg_limit=64"
    result = ours("kernels", "kept", quirks=quirks)
    assert result["rungs"]["eager"] > 0
