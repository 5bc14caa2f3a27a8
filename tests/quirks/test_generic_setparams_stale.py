"""generic_setparams_stale: hipGraphExecNodeSetParams and the driver's setters do not build the packet again
(hip_graph.cpp:3187-3323).

Ours: uses the typed setters only.
"""

from helpers.child import child
from helpers.hip_calls import Ints, add_fill, fill_params, generic, instantiate, new_graph, ok, raw, run
from quirks.workloads import ours
from rocm.bindings import hip

MEMSET = hip.hipGraphNodeType.hipGraphNodeTypeMemset


def setters():
    target, graph = Ints(1), new_graph()
    node = add_fill(graph, [], target, 1)
    executable, seen = instantiate(graph), []
    block, driver = generic(MEMSET, fill_params(target, 2)), fill_params(target, 3)
    for set_params in (
        lambda: raw("hipGraphExecNodeSetParams", executable, node, block),
        lambda: raw("hipDrvGraphExecMemsetNodeSetParams", executable, node, int(driver), None),
        lambda: ok(hip.hipGraphExecMemsetNodeSetParams(executable, node, fill_params(target, 4))) or 0,
    ):
        assert set_params() == 0
        run(executable)
        seen.append(int(target.read()[0]))
    return seen


def test_only_typed_setters_work():
    assert child(setters) == [2, 3, 4]
    assert child(setters, quirks="generic_setparams_stale") == [1, 1, 4]


def test_ours_uses_typed_setters(root):
    text = (root / "hiprt" / "native" / "hip_functions.h").read_text()
    assert "hipGraphExecKernelNodeSetParams" in text
    assert "hipGraphExecNodeSetParams" not in text
    assert "hipDrvGraph" not in text
    assert ours("kernels", "issued", quirks="generic_setparams_stale")["rungs"]["patch"] > 0
