"""child_update_selfcopy: an update of a child graph copies its own parameters onto itself (7.2 to 7.13).

Ours: no child graphs; a step within a step becomes nodes of the outer one (G5).
"""

from helpers.child import child
from helpers.hip_calls import Ints, add_fill, instantiate, new_graph, ok, run, update
from quirks.workloads import ours
from rocm.bindings import hip


def nested(value, target, count=1):
    inner, graph = new_graph(), new_graph()
    for _ in range(count):
        add_fill(inner, [], target, value)
    ok(hip.hipGraphAddChildGraphNode(graph, None, 0, inner))
    return graph


def raw():
    target = Ints(1)
    executable, seen = instantiate(nested(1, target)), []
    for count in (1, 2):
        seen.append(int(update(executable, nested(5, target, count))[0]))
        run(executable)
    return seen, int(target.read()[0])


def test_update_does_nothing_and_succeeds():
    assert child(raw) == [[0, 910], 5]
    assert child(raw, quirks="child_update_selfcopy") == [[0, 0], 1]


def test_ours_has_no_child_graphs(root):
    assert "AddChildGraph" not in (root / "hiprt" / "native" / "hip_functions.h").read_text()
    result = ours("nested", quirks="child_update_selfcopy", HIPRT_GRAPH_RUNGS="update,instantiate")
    assert result["rungs"]["update"] > 0
