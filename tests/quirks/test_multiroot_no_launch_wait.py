"""multiroot_no_launch_wait: roots after the first start before earlier work of the launch stream (rocm-systems#3131).

Ours: one root, an empty node where there would be several (G6).
"""

import numpy as np
from helpers.child import child
from helpers.hip_calls import KIND, Gate, Ints, add_copy, instantiate, new_graph, ok
from quirks.workloads import ours
from rocm.bindings import hip


def raw():
    gate, stream, x = Gate(), ok(hip.hipStreamCreateWithFlags(1)), Ints(1)
    copies, graph = [Ints(1, -1), Ints(1, -1)], new_graph()
    for target in copies:
        add_copy(graph, [], target, x)
    executable, value = instantiate(graph), np.full(1, -1, np.int32)
    gate.hold(stream)
    ok(hip.hipMemsetD32Async(x.memory, 1, 1, stream))
    ok(hip.hipGraphLaunch(executable, stream))
    while value[0] == -1:
        ok(hip.hipMemcpy(value, copies[1].memory, 4, KIND.hipMemcpyDeviceToHost))
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    return [int(target.read()[0]) for target in copies]


def test_second_root_overtakes():
    assert child(raw, quirks="multiroot_no_launch_wait") == [1, 0]


def test_ours_has_one_root():
    result = ours(quirks="multiroot_no_launch_wait")
    assert result["probes"]["roots ordered"] != "ok"
    assert result["rungs"]["eager"] == 0
