"""nodetype_54: HIP 5.3 and 5.4 have no allocation nodes; their numbers mean copies of symbols there.

Ours: never asks for a node's type, and has no allocation nodes.
"""

import ctypes

from helpers.child import child
from helpers.hip_calls import new_graph, raw
from quirks.workloads import ours
from rocm.bindings import hip


def allocation():
    params, node = hip.hipMemAllocNodeParams(), ctypes.c_void_p()
    params.poolProps.allocType = hip.hipMemAllocationType.hipMemAllocationTypePinned
    params.poolProps.location.type = hip.hipMemLocationType.hipMemLocationTypeDevice
    params.bytesize = 64
    return int(raw("hipGraphAddMemAllocNode", ctypes.byref(node), new_graph(), None, 0, int(params)))


def test_allocation_nodes_are_not_supported():
    assert child(allocation) == 0
    assert child(allocation, quirks="nodetype_54") == 801
    assert child(allocation, quirks="nodetype_base1") == 801


def test_ours_has_none(root):
    assert "MemAllocNode" not in (root / "hiprt" / "native" / "hip_functions.h").read_text()
    ours("kept", "issued", quirks="nodetype_54")
