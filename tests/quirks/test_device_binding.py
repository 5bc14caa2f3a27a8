"""device_binding: the thread's current device decides which functions there are.

Ours: sets the device before every graph call, on every thread (G11).
"""

import threading

import numpy as np
from helpers.child import child
from helpers.hip_calls import Ints, KernelCall, error, new_graph, ok
from helpers.kernels import scale
from rocm.bindings import hip

import hiprt
from hiprt import graphs


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


def test_function_of_another_device_is_invalid():
    assert child(raw, HIPRT_CPU_DEVICES="2") == 0
    assert child(raw, quirks="device_binding", HIPRT_CPU_DEVICES="2") == 98


def test_ours_sets_the_device():
    assert child(worker, quirks="device_binding", HIPRT_CPU_DEVICES="2") == [[2.0, 3.0, 4.0], 0]
