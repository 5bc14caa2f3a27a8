"""host_params_live: a host node reads its parameters when it runs, so changes reach launches in flight
(hip_graph_internal.hpp:2267).

Ours: graphs have no host nodes; host work splits a step.
"""

import ctypes

from helpers.child import child
from helpers.hip_calls import Gate, instantiate, new_graph, ok
from quirks.workloads import ours
from rocm.bindings import hip


def raw():
    gate, calls, graph = Gate(), [], new_graph()
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(calls.append)
    params = hip.hipHostNodeParams()
    params.fn, params.userData = ctypes.cast(function, ctypes.c_void_p).value, 1
    node = ok(hip.hipGraphAddHostNode(graph, None, 0, params))
    executable, stream = instantiate(graph), ok(hip.hipStreamCreateWithFlags(1))
    gate.hold(stream)
    ok(hip.hipGraphLaunch(executable, stream))
    params.userData = 2
    ok(hip.hipGraphExecHostNodeSetParams(executable, node, params))
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    return calls


def test_change_reaches_the_queued_launch():
    assert child(raw) == [1]
    assert child(raw, quirks="host_params_live") == [2]


def test_ours_has_no_host_nodes(root):
    assert "HostNode" not in (root / "hiprt" / "native" / "hip_functions.h").read_text()
    assert ours("split", quirks="host_params_live")["reasons"]["split: host read of an array"] > 0
