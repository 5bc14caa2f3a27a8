"""destroyed_handle_709: before HIP 7.0 a stream that is not there, or an event that is destroyed twice, is
hipErrorContextIsDestroyed, to launches hipErrorInvalidValue; later runtimes follow the handle and crash.

Ours: keeps its streams and events for as long as anything may use them.
"""

import ctypes

from helpers.child import child
from helpers.hip_calls import Ints, error, functions, ok, raw as called
from quirks.workloads import ours
from rocm.bindings import hip

QUIRK = "destroyed_handle_709"


def raw():
    memory, stream, event = Ints(4), ok(hip.hipStreamCreate()), ok(hip.hipEventCreate())
    ok(hip.hipStreamDestroy(stream))
    ok(hip.hipEventDestroy(event))
    calls = [
        hip.hipStreamSynchronize(stream),
        hip.hipStreamDestroy(stream),
        hip.hipStreamQuery(stream),
        hip.hipMemsetAsync(int(memory), 1, 16, stream),
        hip.hipEventRecord(ok(hip.hipEventCreate()), stream),
        hip.hipEventDestroy(event),
    ]
    others = [
        hip.hipStreamWaitEvent(stream, ok(hip.hipEventCreate()), 0),
        hip.hipEventDestroy(None),
        hip.hipMallocAsync(64, stream),
        hip.hipFreeAsync(int(memory), stream),
    ]
    kernel, size = functions()["small_block"], (1, 1, 1)
    cell = ctypes.c_void_p(int(memory))
    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(cell))
    no_bytes = ctypes.c_size_t(0)
    config = hip.HIP_LAUNCH_CONFIG()
    config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1
    config.hStream = stream
    launches = [
        hip.hipModuleLaunchKernel(kernel, *size, *size, 0, stream, pointers, None),
        hip.hipModuleLaunchCooperativeKernel(kernel, *size, *size, 0, stream, pointers),
        (called("hipExtModuleLaunchKernel", kernel, *size, *size, no_bytes, stream, pointers, None, None, None, 0),),
        hip.hipDrvLaunchKernelEx(config, kernel, pointers, None),
    ]
    return [sorted({error(call).name for call in group}) for group in (calls, others, launches)]


def test_the_status_is_that_of_the_imitated_version():
    invalid = ["hipErrorInvalidHandle"]
    assert child(raw) == [invalid, invalid, invalid]
    assert child(raw, quirks=QUIRK) == [["hipErrorContextIsDestroyed"], invalid, ["hipErrorInvalidValue"]]


def test_ours_uses_no_dead_handles():
    ours("kept", "fan", quirks=QUIRK)
