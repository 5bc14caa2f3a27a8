"""disabled_drops_edges: a disabled kernel or copy orders nothing on other streams, where its successors overtake its
predecessors (rocm-systems#11359; CLR 7, ROCm/rocm-systems @004f1770e0b4, hip_graph_internal.hpp: CreateCommand makes no
command of it). Fills keep their order. CLR 6.4 (ROCm/clr @f9f995c6d) makes the command, and who waits for it has a
marker queued behind what it waits for (rocclr/platform/command.cpp:265).

Ours: never disables nodes.
"""

from helpers.child import child
from helpers.hip_calls import Ints, add_copy, add_fill, instantiate, new_graph, ok, run
from quirks.workloads import ours
from rocm.bindings import hip

LAUNCHES = 60


def raw(kind):
    """What two successors of a disabled node read: CLR puts the second on the next stream."""
    x, near, far, graph = Ints(1), Ints(1), Ints(1), new_graph()
    first = add_fill(graph, [], x, 1)
    middle = add_copy(graph, [first], x, Ints(1)) if kind == "copy" else add_fill(graph, [first], x, 2)
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
    assert child(raw, "copy") == child(raw, "fill") == [[1], [1]]
    assert child(raw, "copy", quirks="disabled_drops_edges") == [[1], [0, 1]]


def test_order_is_kept_where_clr_has_a_command():
    assert child(raw, "fill", quirks="disabled_drops_edges") == [[1], [1]]
    assert child(raw, "copy", profile="clr-6.4") == [[1], [1]]


def test_ours_never_disables_nodes(root):
    assert "SetEnabled" not in (root / "hiprt" / "native" / "hip_functions.h").read_text()
    ours("kept", "fan", quirks="disabled_drops_edges")
