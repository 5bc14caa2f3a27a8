"""child_no_sync: what depends on a child graph but runs on another stream waits neither for it nor for what it waits
for (CLR 6.4, ROCm/clr @f9f995c6d, hip_graph_internal.cpp:702: the list of what to wait for leaves child graphs out;
rocm-systems#658, #5687).

Ours: no child graphs; a step within a step becomes nodes of the outer one (G5).
"""

from helpers.child import child
from helpers.hip_calls import Ints, add_copy, add_fill, handles, instantiate, new_graph, ok, run
from quirks.workloads import ours
from rocm.bindings import hip

LAUNCHES = 60


def raw():
    """What two dependents of a child graph read: CLR puts the second on the next stream."""
    x, near, far, inner, graph = Ints(1), Ints(1), Ints(1), new_graph(), new_graph()
    add_fill(inner, [], x, 1)
    node = ok(hip.hipGraphAddChildGraphNode(graph, None, 0, inner))
    add_copy(graph, [node], near, x)
    add_copy(graph, [node], far, x)
    executable, seen = instantiate(graph), (set(), set())
    for _ in range(LAUNCHES):
        x.write([0])
        run(executable)
        for values, copy in zip(seen, (near, far), strict=True):
            values.add(int(copy.read()[0]))
    return [sorted(values) for values in seen]


def test_dependents_on_other_streams_do_not_wait():
    assert child(raw) == [[1], [1]]
    assert child(raw, quirks="child_no_sync") == [[1], [0, 1]]


def before_the_child():
    """What the far dependent reads of what the child graph waits for."""
    x, y, near, far, inner, graph = Ints(1), Ints(1), Ints(1), Ints(1), new_graph(), new_graph()
    add_fill(inner, [], y, 1)
    node = ok(hip.hipGraphAddChildGraphNode(graph, *handles([add_fill(graph, [], x, 1)]), inner))
    add_copy(graph, [node], near, x)
    add_copy(graph, [node], far, x)
    executable, seen = instantiate(graph), set()
    for _ in range(LAUNCHES):
        x.write([0])
        run(executable)
        seen.add(int(far.read()[0]))
    return sorted(seen)


def test_what_the_child_waits_for_is_not_waited_for_either():
    assert child(before_the_child) == [1]
    assert child(before_the_child, quirks="child_no_sync") == [0, 1]


def test_ours_has_no_child_graphs():
    ours("nested", quirks="child_no_sync")
