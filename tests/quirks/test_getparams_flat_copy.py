"""getparams_flat_copy: hipGraphMemcpyNodeGetParams gives junk for copies of one row, which say elsewhere what they copy
(GraphMemcpyNode1D, hip_graph_internal.hpp).

Ours: asks about a copy of its own first; copies of other code are refused then, with what to do instead (G14).
"""

import ctypes

import numpy as np
from helpers.child import child
from helpers.foreign import copy
from helpers.hip_calls import Ints, add_copy, new_graph, raw

import hiprt
from hiprt import graphs, kernels as k
from hiprt.errors import HipError


def parameters():
    """Return the width that a captured copy of 32 bytes is said to have."""
    graph, x, y = new_graph(), Ints(8), Ints(8)
    node = add_copy(graph, [], y, x)
    params = ctypes.create_string_buffer(160)
    assert raw("hipGraphMemcpyNodeGetParams", node, params) == 0
    return ctypes.c_size_t.from_buffer(params, 128).value


def refused():
    """Capture a copy in a step, and then run a step on the same stream."""
    stream, x, y = hiprt.Stream(), hiprt.array(np.arange(8, dtype=np.uint32)), hiprt.zeros(8, np.uint32)
    step = graphs.Step(lambda: copy(stream.handle, y, x), stream=stream)
    try:
        step()
        said = ""
    except HipError as error:
        said = str(error)
    return [said, graphs.Step(lambda: k.add(x, x), stream=stream)().numpy(stream).tolist()]


def test_junk():
    assert child(parameters) == 32
    assert child(parameters, quirks="getparams_flat_copy") == 0xFBFBFBFBFBFBFBFB


def test_ours_refuses_what_it_cannot_know():
    doubled = [2 * i for i in range(8)]
    assert child(refused) == ["", doubled]
    said, after = child(refused, quirks="getparams_flat_copy")
    assert "does not tell what a captured copy copies" in said
    assert "Array.copy_from" in said
    assert "outside" in said
    assert after == doubled
