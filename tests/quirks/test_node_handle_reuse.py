"""node_handle_reuse: handles are addresses; that of a new node may name a node of an exec whose graph is gone.

Ours: an exec keeps the graph it was instantiated from, and names its nodes only (G4).
"""

from helpers.child import child
from helpers.hip_calls import E, Ints, add_fill, error, fill_params, instantiate, new_graph, ok, run
from quirks.workloads import ours
from rocm.bindings import hip


def raw():
    targets, graph = [Ints(1) for _ in range(3)], new_graph()
    for target in targets[:2]:
        add_fill(graph, [], target, 1)
    executable = instantiate(graph)
    ok(hip.hipGraphDestroy(graph))
    foreign = add_fill(new_graph(), [], targets[2], 1)
    status = error(hip.hipGraphExecMemsetNodeSetParams(executable, foreign, fill_params(targets[2], 5)))
    run(executable)
    return status == E.hipSuccess, [int(target.read()[0]) for target in targets]


def test_foreign_node_is_taken_for_another():
    assert child(raw) == [False, [1, 1, 0]]
    # The second node was set: nothing fills its target any more.
    assert child(raw, quirks="node_handle_reuse") == [True, [1, 0, 5]]


def test_ours_keeps_the_instantiated_graph():
    for rung in ("patch", "update"):
        result = ours(quirks="node_handle_reuse", HIPRT_GRAPH_RUNGS=f"replay,{rung},instantiate,eager")
        assert result["rungs"][rung] > 0
        assert result["rungs"]["eager"] == 0
