"""disabled_drops_edges: a disabled node orders nothing, so its successors overtake its predecessors
(rocm-systems#11359).

Ours: never disables nodes.
"""

from helpers.child import child
from helpers.hip_calls import Ints, add_copy, add_fill, instantiate, new_graph, ok, run
from quirks.workloads import ours
from rocm.bindings import hip

LAUNCHES = 60


def raw():
    x, y, graph = Ints(1), Ints(1), new_graph()
    middle = add_fill(graph, [add_fill(graph, [], x, 1)], x, 2)
    add_copy(graph, [middle], y, x)
    executable, seen = instantiate(graph), set()
    ok(hip.hipGraphNodeSetEnabled(executable, middle, 0))
    for _ in range(LAUNCHES):
        x.write([0])
        run(executable)
        seen.add(int(y.read()[0]))
    return sorted(seen)


def test_order_is_lost():
    assert child(raw) == [1]
    assert child(raw, quirks="disabled_drops_edges") == [0, 1]


def test_ours_never_disables_nodes(root):
    assert "SetEnabled" not in (root / "hiprt" / "native" / "hip_functions.h").read_text()
    ours("kept", "fan", quirks="disabled_drops_edges")
