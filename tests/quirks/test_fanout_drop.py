"""fanout_drop: out-edge i >= Q with i mod Q != 0, to a node with no other dependency, is not waited for
(rocm-systems#11499).

Ours: at most four edges leave a node; more go through join nodes (G6).
"""

from helpers.child import child
from helpers.hip_calls import Ints, add_copy, add_fill, instantiate, new_graph, run
from quirks.workloads import ours

LAUNCHES = 60


def raw(width):
    """The copies that were seen to run before the fill they depend on."""
    x, copies, graph = Ints(1), [Ints(1) for _ in range(width)], new_graph()
    fill = add_fill(graph, [], x, 1)
    for target in copies:
        add_copy(graph, [fill], target, x)
    executable, early = instantiate(graph), set()
    for _ in range(LAUNCHES):
        x.write([0])
        run(executable)
        early |= {i for i, target in enumerate(copies) if target.read()[0] == 0}
    return sorted(early)


def test_some_edges_are_dropped():
    assert child(raw, 10) == []
    assert child(raw, 10, quirks="fanout_drop") == [5, 6, 7, 9]
    assert child(raw, 5, quirks="fanout_drop,Q=2") == [3]


def test_ours_spreads_wide_fan_outs():
    result = ours(quirks="fanout_drop")
    assert result["rungs"]["eager"] == 0
