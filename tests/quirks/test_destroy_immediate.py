"""destroy_immediate: destroying an exec frees the arguments of its launches in flight (up to 6.1).

Ours: an exec is destroyed when its last launch has finished.
"""

from helpers.child import child
from helpers.hip_calls import Gate, Ints, KernelCall, instantiate, new_graph, ok
from quirks.workloads import ours
from rocm.bindings import hip

POISON = -0x04040405


def raw():
    gate, x, y, graph = Gate(), Ints(8, 2), Ints(8), new_graph()
    KernelCall("scale_add", y, x, 3, 1, 8).add(graph)
    executable, stream = instantiate(graph), ok(hip.hipStreamCreateWithFlags(1))
    gate.hold(stream)
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipGraphExecDestroy(executable))
    gate.open()
    return sorted(set(y.read().tolist()))


def test_launch_in_flight_is_undefined():
    assert child(raw) == [7]
    assert child(raw, quirks="destroy_immediate") == [POISON]


def test_ours_waits():
    ours(quirks="destroy_immediate")
