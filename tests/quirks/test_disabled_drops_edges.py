"""disabled_drops_edges: a disabled node orders nothing on other streams, where its successors overtake its predecessors
(rocm-systems#11359).

Ours: never disables nodes.
"""

from helpers.child import child
from helpers.hip_calls import Ints, add_copy, add_fill, instantiate, new_graph, ok, run
from quirks.workloads import ours
from rocm.bindings import hip

LAUNCHES = 60


def raw():
    """What two successors of a disabled node read: CLR puts the second on the next stream."""
    x, near, far, graph = Ints(1), Ints(1), Ints(1), new_graph()
    middle = add_fill(graph, [add_fill(graph, [], x, 1)], x, 2)
    add_copy(graph, [middle], near, x)
    add_copy(graph, [middle], far, x)
    executable, seen = instantiate(graph), (set(), set())
    ok(hip.hipGraphNodeSetEnabled(executable, middle, 0))
    for _ in range(LAUNCHES):
        x.write([0])
        run(executable)
        for values, copy in zip(seen, (near, far), strict=True):
            values.add(int(copy.read()[0]))
    return [sorted(values) for values in seen]


def test_order_is_lost_on_other_streams():
    assert child(raw) == [[1], [1]]
    assert child(raw, quirks="disabled_drops_edges") == [[1], [0, 1]]


def test_ours_never_disables_nodes(root):
    assert "SetEnabled" not in (root / "hiprt" / "native" / "hip_functions.h").read_text()
    ours("kept", "fan", quirks="disabled_drops_edges")
