"""device_binding: the thread's current device decides which functions there are.

Ours: sets the device before every graph call, on every thread (G11).
"""

import threading

import numpy as np
from helpers import foreign
from helpers.child import child
from helpers.hip_calls import Ints, KernelCall, error, new_graph, ok
from helpers.kernels import scale
from rocm.bindings import hip

import hiprt
from hiprt import core, graphs
from hiprt.hip import call, lib


def raw():
    call = KernelCall("scale_add", Ints(8), Ints(8), 3, 1, 8)
    ok(hip.hipSetDevice(1))
    return int(error(hip.hipGraphAddKernelNode(new_graph(), None, 0, call.params)))


def worker():
    """A step of device 1 called by a thread that never chose a device; its value and rungs."""
    hiprt.set_device(1)
    out, factor = [], 1.0
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        x = hiprt.array(np.ones(4, np.float32))
        step = graphs.Step(lambda: scale(x, factor), stream=stream, keep=False)
        for value in (2.0, 3.0, 4.0):
            factor = value
            thread = threading.Thread(target=lambda: out.append(float(step().numpy(stream)[0])))
            thread.start()
            thread.join()
    return out, step.rungs["eager"]


def adopted(device):
    """Captures of device 1, adopted on a stream of `device` while device 0 is current: values, rungs, why eagerly."""
    hiprt.set_device(1)
    values = []
    with hiprt.Stream() as captured, hiprt.use_stream(captured):
        x, y = (hiprt.array(np.arange(4, dtype=np.uint32)) for _ in range(2))
        captured.synchronize()
        hiprt.set_device(device)
        work = graphs.Adopted("other device", stream=captured if device else hiprt.Stream())
        for factor in (2, 3):
            call(lib.hipSetDevice(1))
            call(lib.hipStreamBeginCapture(captured.handle, lib.hipStreamCaptureModeRelaxed))
            foreign.affine(captured.handle, y, x, factor)
            graph = core.ffi.new("uint64_t *")
            call(lib.hipStreamEndCapture(captured.handle, graph))
            hiprt.set_device(0)
            work.launch(graph[0], is_given=True)
            work.given.synchronize()
            values.append(int(y.numpy(captured)[1]))
    return values, dict(work.stats.rungs), [reason for reason in work.stats.reasons if reason.startswith("eager")]


def test_function_of_another_device_is_invalid():
    assert child(raw, HIPRT_CPU_DEVICES="2") == 0
    assert child(raw, quirks="device_binding", HIPRT_CPU_DEVICES="2") == 98


def test_ours_sets_the_device():
    assert child(worker, quirks="device_binding", HIPRT_CPU_DEVICES="2") == [[2.0, 3.0, 4.0], 0]


def test_graphs_of_another_device():
    """They run on a stream of theirs, whichever device is current; what HIP refuses else is told with the device."""
    values, rungs, _ = child(adopted, 1, quirks="device_binding", HIPRT_CPU_DEVICES="2")
    assert (values, rungs["instantiate"], rungs["patch"]) == ([3, 4], 1, 1)
    values, rungs, (reason,) = child(adopted, 0, quirks="device_binding", HIPRT_CPU_DEVICES="2")
    assert rungs["eager"] == 2
    assert reason == (
        "eager: hipGraphAddKernelNode: hipErrorInvalidDeviceFunction (98): "
        "affine, for a stream of device 0: is it work of another device?"
    )
