"""Graphs that allocate memory, by direct HIP calls."""

import numpy as np
from helpers.hip_calls import add_fill, new_graph, ok
from rocm.bindings import hip

HIGH = hip.hipGraphMemAttributeType.hipGraphMemAttrUsedMemHigh


def allocation(graph, size=1 << 20):
    """Add an allocation; its node and address."""
    params = hip.hipMemAllocNodeParams()
    params.poolProps.allocType = hip.hipMemAllocationType.hipMemAllocationTypePinned
    params.poolProps.location.type = hip.hipMemLocationType.hipMemLocationTypeDevice
    params.poolProps.location.id = 0
    params.bytesize = size
    node = ok(hip.hipGraphAddMemAllocNode(graph, None, 0, params))
    return node, int(params.dptr)


def allocating_graph(value):
    """A graph that leaves memory filled with a value behind, and its address."""
    graph = new_graph()
    node, address = allocation(graph)
    add_fill(graph, [node], address, value, n=4)
    return graph, address


def used_high():
    """Most memory of graphs that was in use at a time."""
    out = np.zeros(1, np.uint64)
    ok(hip.hipDeviceGetGraphMemAttribute(0, HIGH, out))
    return int(out[0])
