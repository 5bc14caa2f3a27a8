"""CLR takes a graph as its own child: the node has a copy of the graph as it was before."""

from helpers.child import child
from helpers.hip_calls import Ints, KernelCall, handles, instantiate, new_graph, run
from rocm.bindings import hip

QUIRK = "child_of_itself"


def count_twice():
    """Return the status of adding a graph to itself, and what the graph does then."""
    x, graph = Ints(1), new_graph()
    node = KernelCall("scale_add", x, x, 1, 1, 1).add(graph)
    status = hip.hipGraphAddChildGraphNode(graph, *handles([node]), graph)[0]
    run(instantiate(graph))
    return [status.name, int(x.read()[0])]


def test_a_copy_is_the_child():
    assert child(count_twice, quirks=QUIRK) == ["hipSuccess", 2]
    assert child(count_twice) == ["hipErrorInvalidValue", 1]
