"""update_no_dep_check: hipGraphExecUpdate of 5.6 and 5.7 compares the number of nodes and their types, no more.

Ours: edges are part of the key and compared by content (G3).
"""

from helpers.child import child
from helpers.hip_calls import Ints, add_copy, add_fill, instantiate, new_graph, run, update
from quirks.workloads import ours

LAUNCHES = 60


def raw():
    x, y = Ints(1), Ints(1)

    def build(waits):
        graph = new_graph()
        fill = add_fill(graph, [], x, 1)
        add_copy(graph, [fill] if waits else [], y, x)
        return graph

    executable = instantiate(build(False))
    status = update(executable, build(True))[0]
    seen = set()
    for _ in range(LAUNCHES):
        x.write([0])
        run(executable)
        seen.add(int(y.read()[0]))
    return int(status), sorted(seen)


def test_missing_dependency_is_accepted():
    assert child(raw, quirks="update_bfs_count_only") == [910, [0, 1]]
    assert child(raw, quirks="update_no_dep_check") == [0, [0, 1]]


def test_ours_compares_edges():
    result = ours("rewired", quirks="update_no_dep_check", HIPRT_GRAPH_RUNGS="update,instantiate")
    assert result["rungs"]["instantiate"] == 2
