"""update_inflight_visible: changes reach launches that are queued already (stricter than CLR).

Ours: only drained execs are changed; meanwhile others of the topology serve (G2).
"""

from helpers.child import child
from helpers.hip_calls import Gate, Ints, add_fill, fill_params, instantiate, new_graph, ok
from quirks.workloads import ours
from rocm.bindings import hip


def raw():
    gate, target, graph = Gate(), Ints(1), new_graph()
    node = add_fill(graph, [], target, 1)
    executable, stream = instantiate(graph), ok(hip.hipStreamCreateWithFlags(1))
    gate.hold(stream)
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipGraphExecMemsetNodeSetParams(executable, node, fill_params(target, 2)))
    gate.open()
    return int(target.read()[0])


def test_queued_launch_sees_the_change():
    assert child(raw) == 1
    assert child(raw, quirks="update_inflight_visible") == 2


def test_ours_changes_drained_execs_only():
    result = ours(quirks="update_inflight_visible")
    assert result["rungs"]["patch"] > 0
    assert any(reason.endswith("all in flight") for reason in result["reasons"])
