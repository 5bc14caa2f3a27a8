"""getparams_extra: hipGraphKernelNodeGetParams gives arguments back as they were given, in one block or one by one
(GraphKernelNode::copyParams, hip_graph_internal.hpp:1108-1176).

Ours: takes both from captured kernels of other code (G14).
"""

import ctypes

import numpy as np
from helpers.child import child
from helpers.foreign import affine, affine_packed
from helpers.hip_calls import raw
from quirks.capture_calls import RELAXED, begin, end
from quirks.workloads import ours

import hiprt


def packed(by_block):
    """Capture a launch whose arguments come in one block; whether GetParams gives the block."""
    stream, x, y = hiprt.Stream(), hiprt.array(np.arange(8, dtype=np.uint32)), hiprt.zeros(8, np.uint32)
    stream.synchronize()
    assert begin(stream.hip_stream, RELAXED) == "hipSuccess"
    (affine_packed if by_block else affine)(stream.handle, y, x)
    status, graph = end(stream.hip_stream)
    node, count = ctypes.c_void_p(), ctypes.c_size_t(1)
    assert raw("hipGraphGetNodes", graph, ctypes.byref(node), ctypes.byref(count)) == 0
    params = ctypes.create_string_buffer(64)
    assert raw("hipGraphKernelNodeGetParams", node.value, params) == 0
    extra, one_by_one = (ctypes.c_void_p.from_buffer(params, at).value for at in (16, 48))
    return [status, bool(extra), bool(one_by_one)]


def test_a_block_stays_a_block():
    assert child(packed, True) == ["hipSuccess", False, True]
    assert child(packed, True, quirks="getparams_extra") == ["hipSuccess", True, False]
    assert child(packed, False, quirks="getparams_extra") == ["hipSuccess", False, True]


def test_ours_takes_both():
    assert ours("foreign", quirks="getparams_extra")["rungs"]["patch"] > 0
