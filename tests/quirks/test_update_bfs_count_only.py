"""update_bfs_count_only: hipGraphExecUpdate matches nodes by position and number of dependencies, and the exec keeps
its old edges (hip_graph.cpp:2451-2534).

Ours: edges are part of the key and compared by content (G3); other wiring is never given to an update.
"""

from helpers.child import child
from helpers.hip_calls import Ints, add_copy, add_fill, instantiate, new_graph, run, update
from quirks.workloads import ours

LAUNCHES = 60


def raw():
    """The fourth node reads x first, then y: where it waits for x only, it comes before y is there now and then."""
    x, y, u, v = (Ints(1) for _ in range(4))

    def build(source, at):
        graph = new_graph()
        fills = add_fill(graph, [], x, 1), add_fill(graph, [], y, 2)
        add_copy(graph, [fills[0]], u, x)
        add_copy(graph, [fills[at]], v, source)
        return graph

    executable = instantiate(build(x, 0))
    status, result, _ = update(executable, build(y, 1))
    seen = set()
    for _ in range(LAUNCHES):
        y.write([0])
        run(executable)
        seen.add(int(v.read()[0]))
    return int(status), int(result), sorted(seen)


def test_other_wiring_is_accepted_and_not_taken_over():
    assert child(raw) == [910, 2, [1]]
    assert child(raw, quirks="update_bfs_count_only") == [0, 0, [0, 2]]


def test_ours_compares_edges():
    result = ours("rewired", quirks="update_bfs_count_only", HIPRT_GRAPH_RUNGS="update,instantiate")
    assert result["probes"]["wiring compared"] == "other edges were accepted"
    assert result["rungs"]["instantiate"] == 2
    assert result["rungs"]["update"] > 0
