"""update_partial: a failing hipGraphExecUpdate leaves the nodes before the failure changed.

Ours: an exec whose change failed is discarded, and the step runs eagerly (G8).
"""

from helpers.child import child
from helpers.hip_calls import Ints, add_fill, instantiate, new_graph, run, update
from quirks.workloads import ours


def raw():
    targets = [Ints(4) for _ in range(3)]
    graphs = [new_graph(), new_graph()]
    for graph, values in zip(graphs, ((1, 2, 3), (4, 5, 6)), strict=True):
        for target, value in zip(targets[:2], values, strict=False):
            add_fill(graph, [], target, value)
    add_fill(graphs[0], [], targets[2], 3)
    add_fill(graphs[1], [], targets[2], 6, n=2, height=2, pitch=8)  # 1D to 2D is refused
    executable = instantiate(graphs[0])
    status = update(executable, graphs[1])[0]
    run(executable)
    return int(status), [int(target.read()[0]) for target in targets]


def test_failed_update_changes_some_nodes():
    assert child(raw) == [910, [1, 2, 3]]
    assert child(raw, quirks="update_partial") == [910, [4, 5, 3]]


def test_ours_discards_the_exec():
    quirks = "update_partial,kernarg_bump_leak,kernarg_limit=16384"
    for rung in ("patch", "update"):
        result = ours("wide", quirks=quirks, HIPRT_GRAPH_RUNGS=f"replay,{rung},instantiate,eager")
        assert result["rungs"]["eager"] > 0
        assert result["rungs"]["instantiate"] > 1
