"""CLR refuses fills in bounds: a pitch below one row, more rows than hipMallocPitch was asked for, new rows of nodes.

Ours: a node fills one row.
"""

import ctypes

import numpy as np
from helpers.child import child
from helpers.hip_calls import E, Ints, error, fill_params, instantiate, new_graph, ok, update
from helpers.kernels import scale
from rocm.bindings import hip

import hiprt
from hiprt import graphs

QUIRK = "fill_shape_reject"


def fills():
    """Return whether each fill is taken that the memory has room for."""
    memory = int(ok(hip.hipMalloc(4096)))
    pitched, pitch = ok(hip.hipMallocPitch(64, 4))
    deep = ok(hip.hipMalloc3D(hip.hipExtent(width=64, height=4, depth=2)))
    wide = hip.hipPitchedPtr(ptr=memory, pitch=64, xsize=80, ysize=4)
    tried = {
        "rows": hip.hipMemset2D(memory, 64, 1, 64, 4),
        "rows of pitched memory": hip.hipMemset2D(int(pitched), pitch, 1, 64, 4),
        "one row, pitch of 0": hip.hipMemset2D(memory, 0, 1, 64, 1),
        "one row, half a pitch": hip.hipMemset2DAsync(memory, 32, 1, 64, 1, None),
        "elements of one row": hip.hipMemset2D(memory, 64, 1, 64, 1),
        "rows of two planes": hip.hipMemset2D(int(deep.ptr), deep.pitch, 1, 64, 5),
        "a box": hip.hipMemset3D(deep, 1, hip.hipExtent(width=64, height=4, depth=2)),
        "a box in wider memory": hip.hipMemset3D(wide, 1, hip.hipExtent(width=48, height=1, depth=1)),
        "nothing": hip.hipMemset2D(memory, 0, 1, 64, 0),
    }
    return {name: error(result) == E.hipSuccess for name, result in tried.items()}


def captured():
    """Return whether fills are captured: rows a pitch apart, the last of which ends with the memory; one row."""
    memory = int(ok(hip.hipMalloc(256)))
    stream, out = ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking)), ctypes.c_void_p()
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeRelaxed))
    shapes = ((64, 8, 4), (80, 8, 4), (0, 64, 1))
    taken = [error(hip.hipMemset2DAsync(memory, pitch, 1, *size, stream)) == E.hipSuccess for pitch, *size in shapes]
    hip.hipStreamEndCapture(stream)
    return taken, out.value


def nodes():
    """Return whether a node, and an executable graph's by an update, take rows in memory of both kinds."""
    plain, (pitched, pitch) = Ints(64), ok(hip.hipMallocPitch(32, 4))
    taken = []
    for target, step in ((int(plain), 64), (int(pitched), pitch)):
        rows = fill_params(target, 1, n=8, height=4, pitch=step)
        graph, other = new_graph(), new_graph()
        node = ok(hip.hipGraphAddMemsetNode(graph, None, 0, rows))
        ok(hip.hipGraphAddMemsetNode(other, None, 0, rows))
        executable = instantiate(graph)
        taken.append(error(hip.hipGraphMemsetNodeSetParams(node, rows)) == E.hipSuccess)
        taken.append(error(hip.hipGraphExecMemsetNodeSetParams(executable, node, rows)) == E.hipSuccess)
        taken.append(update(executable, other)[0] == E.hipSuccess)
    return taken


def ours():
    x = hiprt.array(np.ones(8, np.float32))

    def function():
        return scale(hiprt.zeros(8), 2.0), scale(x, 2.0)

    step = graphs.Step(function)
    for _ in range(3):
        zeros, twos = step()
    return zeros.numpy().tolist(), twos.numpy().tolist(), step.rungs["eager"]


def test_fills():
    refused = {"one row, pitch of 0", "one row, half a pitch", "rows of two planes", "a box in wider memory"}
    assert [name for name, taken in child(fills).items() if not taken] == []
    assert {name for name, taken in child(fills, quirks=QUIRK).items() if not taken} == refused


def test_captured_fills():
    assert child(captured)[0] == [True, True, True]
    assert child(captured, quirks=QUIRK)[0] == [True, False, True]


def test_nodes():
    assert child(nodes) == [True] * 6
    assert child(nodes, quirks=QUIRK + ",update_bfs_count_only") == [False, True, False, True, True, True]


def test_ours():
    assert child(ours, quirks=QUIRK) == [[0.0] * 8, [2.0] * 8, 0]
