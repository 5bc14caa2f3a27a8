"""disabled_list_stale: packet lists without the disabled nodes are cached by their size alone (7.2 to 7.13).

Ours: never disables nodes.
"""

from helpers.child import child
from helpers.hip_calls import Ints, add_fill, fill_params, instantiate, new_graph, ok, run
from quirks.workloads import ours
from rocm.bindings import hip


def raw():
    targets, graph = [Ints(1) for _ in range(3)], new_graph()
    nodes = [add_fill(graph, [], target, 1) for target in targets]
    executable, seen = instantiate(graph), []

    def launch():
        for target in targets:
            target.write([0])
        run(executable)
        seen.append([int(target.read()[0]) for target in targets])

    ok(hip.hipGraphNodeSetEnabled(executable, nodes[2], 0))
    launch()
    ok(hip.hipGraphExecMemsetNodeSetParams(executable, nodes[0], fill_params(targets[0], 5)))
    launch()
    ok(hip.hipGraphNodeSetEnabled(executable, nodes[1], 0))
    launch()
    return seen


def test_list_of_the_same_size_is_stale():
    assert child(raw) == [[1, 1, 0], [5, 1, 0], [5, 0, 0]]
    assert child(raw, quirks="disabled_list_stale") == [[1, 1, 0], [1, 1, 0], [5, 0, 0]]


def test_ours_never_disables_nodes(root):
    assert "SetEnabled" not in (root / "hiprt" / "native" / "hip_functions.h").read_text()
    ours("kernels", "issued", quirks="disabled_list_stale")
