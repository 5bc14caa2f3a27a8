"""add_fail_keeps_node: a node whose dependencies are refused is in the graph all the same (hip_graph.cpp:53-70).

Ours: a graph of which any node failed is destroyed, and the step runs eagerly (G8).
"""

import ctypes

from helpers.child import child
from helpers.hip_calls import Ints, add_fill, edges, fill_params, handles, new_graph, nodes, raw
from quirks.workloads import ours


def repeated_dependency():
    target, graph = Ints(1), new_graph()
    first = add_fill(graph, [], target, 1)
    array, count = handles([first, first])
    out = ctypes.c_void_p()
    status = raw("hipGraphAddMemsetNode", ctypes.byref(out), graph, array.ctypes.data, count, fill_params(target, 2))
    return int(status), len(nodes(graph)), len(edges(graph))


def test_refused_node_stays():
    assert child(repeated_dependency) == [1, 1, 0]
    assert child(repeated_dependency, quirks="add_fail_keeps_node") == [1, 2, 1]


def test_ours_discards_the_graph():
    # The layout makes every fill node fail, in the middle of a graph.
    result = ours("issued", "kept", quirks="add_fail_keeps_node,memset_layout")
    assert result["rungs"]["eager"] > 0
