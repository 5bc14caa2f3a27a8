"""Stream capture by direct HIP calls."""

import ctypes
import threading
from contextlib import contextmanager

from helpers.hip_calls import MODE, STATUS, E, Ints, ok, raw
from rocm.bindings import hip

GLOBAL = int(MODE.hipStreamCaptureModeGlobal)
LOCAL = int(MODE.hipStreamCaptureModeThreadLocal)
RELAXED = int(MODE.hipStreamCaptureModeRelaxed)


def new_stream():
    """A stream that does not synchronise with the null stream."""
    return ok(hip.hipStreamCreateWithFlags(1))


def begin(stream, mode=GLOBAL):
    """Status of hipStreamBeginCapture, by name."""
    return raw("hipStreamBeginCapture", stream, ctypes.c_int(mode)).name


def end(stream):
    """Status of hipStreamEndCapture, by name, and the graph it wrote (0 for none)."""
    out = ctypes.c_void_p(12345)
    return raw("hipStreamEndCapture", stream, ctypes.byref(out)).name, out.value or 0


def status(stream):
    """None, Active or Invalidated."""
    return STATUS(ok(hip.hipStreamIsCapturing(stream))).name.removeprefix("hipStreamCaptureStatus")


def fill(stream, target, value):
    """Status of an asynchronous fill, by name."""
    return hip.hipMemsetD32Async(target.memory, value, target.n, stream)[0].name


def fork(stream, other):
    """Make other wait for what stream has so far."""
    event = ok(hip.hipEventCreate())
    ok(hip.hipEventRecord(event, stream))
    ok(hip.hipStreamWaitEvent(other, event, 0))


def unjoined():
    """A capture on one stream with work on a second one that is not joined: both streams, and the second's array."""
    stream, other, x, y = new_stream(), new_stream(), Ints(1), Ints(1)
    begin(stream)
    fill(stream, x, 1)
    fork(stream, other)
    fill(other, y, 2)
    return stream, other, y


def on_thread(call):
    """The result of a call on another thread."""
    out = []
    thread = threading.Thread(target=lambda: out.append(call()))
    thread.start()
    thread.join()
    return out[0]


@contextmanager
def capturing(mode):
    """Somebody else's capture is open within the block and must come to a good end."""
    stream, x = new_stream(), Ints(1)
    assert begin(stream, mode) == E.hipSuccess.name
    yield
    assert fill(stream, x, 1) == E.hipSuccess.name
    assert end(stream)[0] == E.hipSuccess.name
