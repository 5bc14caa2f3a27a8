"""getparams_alias: SetParams with the array that GetParams gave out takes its pointers over and frees them later
(hip_graph_internal.hpp:1294-1299, ROCm/clr#138).

Ours: asks only what captured nodes of other code carry, and gives that to other nodes; each set is a fresh array (G4).
"""

import ctypes

from helpers.child import child, crash
from helpers.hip_calls import Ints, KernelCall, new_graph, raw
from quirks.workloads import ours

KERNEL_PARAMS = 48  # offset in hipKernelNodeParams


def alias(changes):
    y, x, graph = Ints(8), Ints(8, 2), new_graph()
    node = KernelCall("scale_add", y, x, 3, 1, 8).add(graph)
    params, cell = ctypes.create_string_buffer(64), ctypes.c_int(5)
    assert raw("hipGraphKernelNodeGetParams", node, params) == 0
    array = (ctypes.c_void_p * 5).from_address(ctypes.c_void_p.from_buffer(params, KERNEL_PARAMS).value)
    if changes:
        array[2] = ctypes.addressof(cell)
    return int(raw("hipGraphKernelNodeSetParams", node, params))


def test_a_changed_array_is_freed():
    assert child(alias, True) == 0
    assert child(alias, False, quirks="getparams_alias") == 0
    assert "getparams_alias: SetParams took a changed array" in crash(alias, True, quirks="getparams_alias")


def test_ours_gives_no_array_back():
    assert ours("kernels", "issued", "foreign", quirks="getparams_alias,param_info_missing")["rungs"]["patch"] > 0
