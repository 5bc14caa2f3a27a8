"""child_update_stale_packets: an update changes a child graph's parameters, not its packets (6.2 to 6.4, 10;
hip_graph.cpp:2519-2524). The setter of child graph nodes builds them again.

Ours: no child graphs; a step within a step becomes nodes of the outer one (G5).
"""

from helpers.child import child
from helpers.hip_calls import Ints, add_fill, instantiate, new_graph, ok, run, update
from quirks.workloads import ours
from rocm.bindings import hip


def raw():
    target, graph = Ints(1), new_graph()

    def inner(value):
        made = new_graph()
        add_fill(made, [], target, value)
        return made

    node = ok(hip.hipGraphAddChildGraphNode(graph, None, 0, inner(1)))
    executable, newer, seen = instantiate(graph), new_graph(), []
    ok(hip.hipGraphAddChildGraphNode(newer, None, 0, inner(2)))
    seen.append(int(update(executable, newer)[0]))
    run(executable)
    seen.append(int(target.read()[0]))
    ok(hip.hipGraphExecChildGraphNodeSetParams(executable, node, inner(3)))
    run(executable)
    return [*seen, int(target.read()[0])]


def test_update_leaves_what_is_launched():
    assert child(raw) == [0, 2, 3]
    assert child(raw, quirks="child_update_stale_packets") == [0, 1, 3]


def test_ours_has_no_child_graphs():
    result = ours("nested", quirks="child_update_stale_packets", HIPRT_GRAPH_RUNGS="update,instantiate")
    assert result["rungs"]["update"] > 0
