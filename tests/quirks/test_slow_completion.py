"""slow_completion: host functions come late, behind what was queued after them.

Ours: learns of completion by events, not by host functions.
"""

import ctypes

from helpers.child import child
from helpers.hip_calls import Gate, Ints, add_fill, instantiate, new_graph, ok
from quirks.workloads import ours
from rocm.bindings import hip


def raw():
    """What a host function between two launches sees."""
    gate, x, seen = Gate(), Ints(1), []
    look = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: seen.append(ctypes.c_int.from_address(int(x)).value))
    function, stream = ctypes.cast(look, ctypes.c_void_p).value, ok(hip.hipStreamCreateWithFlags(1))
    executables = []
    for value in (1, 2):
        graph = new_graph()
        add_fill(graph, [], x, value)
        executables.append(instantiate(graph))
    gate.hold(stream)
    ok(hip.hipGraphLaunch(executables[0], stream))
    ok(hip.hipLaunchHostFunc(stream, function, None))
    ok(hip.hipGraphLaunch(executables[1], stream))
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipLaunchHostFunc(stream, function, None))
    ok(hip.hipStreamSynchronize(stream))
    return seen


def test_host_function_comes_late():
    assert child(raw) == [1, 2]
    assert child(raw, quirks="slow_completion") == [2, 2]


def test_ours_relies_on_events(root):
    text = (root / "hiprt" / "native" / "hip_functions.h").read_text()
    assert "hipEventQuery" in text
    assert "HostFunc" not in text
    assert "Callback" not in text
    ours(quirks="slow_completion")
