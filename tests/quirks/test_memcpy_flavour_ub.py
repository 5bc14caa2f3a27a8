"""memcpy_flavour_ub: an update casts a copy node to the class of its partner, made by another call.

Ours: every copy node is made by hipGraphAddMemcpyNode1D.
"""

from helpers.child import child
from helpers.hip_calls import KIND, Ints, add_copy, instantiate, new_graph, ok, run, update
from quirks.workloads import ours
from rocm.bindings import hip

POISON = -0x04040405


def raw():
    x, y, graph, newer = Ints(4, 7), Ints(4), new_graph(), new_graph()
    add_copy(graph, [], y, x)
    params = hip.hipMemcpy3DParms()
    for pointer, target in ((params.srcPtr, x), (params.dstPtr, y)):
        pointer.ptr, pointer.pitch, pointer.xsize, pointer.ysize = int(target), 16, 16, 1
    params.extent.width, params.extent.height, params.extent.depth = 16, 1, 1
    params.kind = KIND.hipMemcpyDeviceToDevice
    ok(hip.hipGraphAddMemcpyNode(newer, None, 0, params))
    executable = instantiate(graph)
    status = update(executable, newer)[0]
    run(executable)
    return int(status), y.read().tolist()


def test_mixed_flavours_are_undefined():
    assert child(raw) == [0, [7] * 4]
    assert child(raw, quirks="memcpy_flavour_ub") == [0, [POISON] * 4]


def test_ours_has_one_flavour(root):
    text = (root / "hiprt" / "native" / "hip_functions.h").read_text()
    assert "hipGraphAddMemcpyNode1D" in text
    assert "X(hipGraphAddMemcpyNode," not in text
    result = ours("issued", quirks="memcpy_flavour_ub", HIPRT_GRAPH_RUNGS="update,instantiate")
    assert result["rungs"]["update"] > 0
