"""nodetype_base1: the node types of HIP 5.2 start at one; there are no allocation nodes.

Ours: asks for the types of captured nodes only, of releases from HIP 6.0 on.
"""

import ctypes

from helpers.child import child
from helpers.hip_calls import Ints, KernelCall, add_copy, add_fill, new_graph, ok, raw
from quirks.workloads import ours
from rocm.bindings import hip


def types():
    x, y, graph = Ints(8), Ints(8), new_graph()
    made = [
        KernelCall("scale_add", y, x, 3, 1, 8).add(graph),
        add_copy(graph, [], y, x),
        add_fill(graph, [], x, 1),
        ok(hip.hipGraphAddEmptyNode(graph, None, 0)),
    ]
    numbers, number = [], ctypes.c_int()
    for node in made:
        assert raw("hipGraphNodeGetType", node, ctypes.byref(number)) == 0
        numbers.append(number.value)
    return numbers


def test_numbers_start_at_one():
    assert child(types) == [0, 1, 2, 5]
    assert child(types, quirks="nodetype_base1") == [1, 9, 3, 6]


def test_ours_asks_of_captured_work_only(root):
    asking = [path.name for path in root.glob("*/native/**/*.c") if "GetType" in path.read_text()]
    assert asking == ["captured_graph.c"]
    ours("kept", "issued", quirks="nodetype_base1")
