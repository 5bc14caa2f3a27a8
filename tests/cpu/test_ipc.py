"""Memory and events that one process makes and another one uses."""

import ctypes
import threading

import numpy as np
from helpers.hip_calls import KIND, E, Gate, error, ok, raw
from rocm.bindings import hip

SIZE = ctypes.c_size_t
BYTES = 6000  # more than a page, and no whole number of them
OTHER = """
import ctypes
lib = ctypes.CDLL(sys.argv[1])
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]
handle = Handle.from_buffer_copy(bytes.fromhex("{}"))
p, size = ctypes.c_void_p(), ctypes.c_size_t
assert lib.hipIpcOpenMemHandle(ctypes.byref(p), handle, 0) == 1
assert lib.hipIpcOpenMemHandle(None, handle, 1) == 1
status = lib.hipIpcOpenMemHandle(ctypes.byref(p), handle, 1)
if status:
    print(status)
    raise SystemExit
count = {}
held = (ctypes.c_ubyte * count)()
assert lib.hipMemcpy(held, p, size(count), 2) == 0
assert lib.hipMemcpy(held, p, size(count + 1), 2) == 1
assert lib.hipFree(p) == 1
assert lib.hipMemset(p, 9, size(16)) == lib.hipDeviceSynchronize() == 0
assert lib.hipIpcCloseMemHandle(p) == 0
assert lib.hipIpcCloseMemHandle(p) == lib.hipIpcCloseMemHandle(None) == 1
print(sum(held))
"""


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


def handle_of(address):
    handle = Handle()
    assert raw("hipIpcGetMemHandle", ctypes.byref(handle), ctypes.c_void_p(address)) == 0
    return handle


def memory(content):
    p = ctypes.c_void_p()
    assert raw("hipMalloc", ctypes.byref(p), SIZE(content.nbytes)) == 0
    assert (
        raw("hipMemcpy", p, ctypes.c_void_p(content.ctypes.data), SIZE(content.nbytes), KIND.hipMemcpyHostToDevice) == 0
    )
    return p


def read(p, count):
    out = np.empty(count, np.uint8)
    assert raw("hipMemcpy", ctypes.c_void_p(out.ctypes.data), p, SIZE(count), KIND.hipMemcpyDeviceToHost) == 0
    return out


def test_another_process_reads_and_writes(python):
    """What was there before is seen, what the other process writes comes back, and what lies beside it stays."""
    content = (np.arange(BYTES) % 200).astype(np.uint8)
    before, p, after = memory(content), memory(content), memory(content)
    handle = handle_of(p.value)
    assert bytes(handle_of(p.value)) == bytes(handle)
    assert python(OTHER.format(bytes(handle).hex(), BYTES)) == f"{int(content.sum())}\n"
    assert (read(p, 16) == 9).all()
    assert (read(p, BYTES)[16:] == content[16:]).all()
    assert (read(before, BYTES) == content).all()
    assert (read(after, BYTES) == content).all()
    for each in (before, p, after):
        assert raw("hipFree", each) == 0


def test_a_place_within_memory(python):
    """A handle of a place within memory opens that place."""
    content = np.arange(64, dtype=np.uint8)
    p = memory(content)
    assert python(OTHER.format(bytes(handle_of(p.value + 32)).hex(), 32)) == f"{int(content[32:].sum())}\n"
    assert read(p, 64).tolist() == [*range(32), *[9] * 16, *range(48, 64)]
    assert raw("hipFree", p) == 0


def test_memory_that_is_gone(python):
    """Freed memory is the owner's again, and its handle opens nothing."""
    p = memory(np.ones(BYTES, np.uint8))
    handle = handle_of(p.value)
    assert raw("hipFree", p) == 0
    assert python(OTHER.format(bytes(handle).hex(), BYTES)) == f"{E.hipErrorInvalidDevicePointer}\n"
    again = memory(np.full(BYTES, 3, np.uint8))
    assert (read(again, BYTES) == 3).all()
    assert raw("hipFree", again) == 0


def test_writes_go_on_while_a_handle_is_made():
    """No write is lost that another thread queues while the memory gets pages that can be shared."""
    pieces, size = 512, 16384
    for value in range(1, 4):
        p = memory(np.zeros(pieces * size, np.uint8))
        begun = threading.Event()

        def write(p=p, value=value, begun=begun):
            for i in range(pieces):
                assert raw("hipMemsetAsync", ctypes.c_void_p(p.value + i * size), value, SIZE(size), None) == 0
                begun.set()

        thread = threading.Thread(target=write)
        thread.start()
        begun.wait()
        handle_of(p.value)
        thread.join()
        assert (read(p, pieces * size) == value).all()
        assert raw("hipFree", p) == 0


def test_refusals():
    p, host, out = memory(np.ones(64, np.uint8)), np.ones(64, np.uint8), ctypes.c_void_p()
    handle = handle_of(p.value)
    assert raw("hipIpcOpenMemHandle", ctypes.byref(out), handle, 1) == E.hipErrorInvalidContext  # its own process
    assert raw("hipIpcOpenMemHandle", ctypes.byref(out), Handle(), 1) == E.hipErrorInvalidValue
    assert raw("hipIpcGetMemHandle", None, p) == E.hipErrorInvalidValue
    assert raw("hipIpcGetMemHandle", ctypes.byref(handle), None) == E.hipErrorInvalidValue
    assert raw("hipIpcGetMemHandle", ctypes.byref(handle), ctypes.c_void_p(host.ctypes.data)) == E.hipErrorInvalidValue
    assert raw("hipFree", p) == 0


class EventHandle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


INTERPROCESS = 0x4 | 0x2  # and without timing, which HIP asks for
WAITS = """
import ctypes
lib = ctypes.CDLL(sys.argv[1])
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]
event, size = ctypes.c_void_p(), ctypes.c_size_t
status = lib.hipIpcOpenEventHandle(ctypes.byref(event), Handle.from_buffer_copy(bytes.fromhex("{}")))
if status:
    print(status)
    raise SystemExit
ms = ctypes.c_float()
assert lib.hipEventElapsedTime(ctypes.byref(ms), event, event) == 400
"""


def interprocess_event():
    event, handle = ctypes.c_void_p(), EventHandle()
    assert raw("hipEventCreateWithFlags", ctypes.byref(event), INTERPROCESS) == 0
    assert raw("hipIpcGetEventHandle", ctypes.byref(handle), event) == 0
    return event, bytes(handle).hex()


def test_another_process_waits_for_an_event(python):
    """Queries, waits of the host and of a stream mean what this process recorded before."""
    event, handle = interprocess_event()
    stream, gate = ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking)), Gate()
    ok(hip.hipEventRecord(event.value, stream))
    ok(hip.hipStreamSynchronize(stream))
    opens = bytes(handle_of(int(gate.value))).hex()
    gate.hold(stream)
    ok(hip.hipEventRecord(event.value, stream))
    code = WAITS.format(handle) + (
        "assert lib.hipEventQuery(event) == 600\n"
        "waiting, key, gate = (ctypes.c_void_p() for _ in range(3))\n"
        "assert lib.hipStreamCreateWithFlags(ctypes.byref(waiting), 1) == 0\n"
        "assert lib.hipStreamCreateWithFlags(ctypes.byref(key), 1) == 0\n"
        "assert lib.hipStreamWaitEvent(waiting, event, 0) == 0\n"
        "assert lib.hipStreamQuery(waiting) == 600\n"
        f"handle = Handle.from_buffer_copy(bytes.fromhex('{opens}'))\n"
        "assert lib.hipIpcOpenMemHandle(ctypes.byref(gate), handle, 1) == 0\n"
        "assert lib.hipStreamWriteValue32(key, gate, 1, 0) == 0\n"
        "assert lib.hipEventSynchronize(event) == lib.hipEventQuery(event) == 0\n"
        "assert lib.hipStreamSynchronize(waiting) == 0\n"
    )
    assert python(code) == ""
    ok(hip.hipStreamSynchronize(stream))


def test_an_event_that_another_process_records(python):
    """What another process records last is what waits here mean."""
    event, handle = interprocess_event()
    ok(hip.hipEventSynchronize(event.value))  # it was never recorded
    assert (
        python(WAITS.format(handle) + "print(lib.hipEventRecord(event, None), lib.hipDeviceSynchronize())\n") == "0 0\n"
    )
    assert error(hip.hipEventQuery(event.value)) == E.hipSuccess
    # The process ends before its device comes to the event, which is never reached then.
    code = WAITS.format(handle) + (
        "flag = (ctypes.c_uint32 * 1)()\n"
        "assert lib.hipHostRegister(flag, size(4), 0) == lib.hipStreamWaitValue32(None, flag, 1, 1, -1) == 0\n"
        "assert lib.hipEventRecord(event, None) == 0\n"
        "import os; print(1, flush=True); os._exit(0)\n"
    )
    assert python(code) == "1\n"
    assert error(hip.hipEventQuery(event.value)) == E.hipErrorNotReady
    ok(hip.hipEventRecord(event.value, None))
    ok(hip.hipEventSynchronize(event.value))


def test_refusals_of_events(python):
    event, handle = interprocess_event()
    own, out, ordinary = (
        EventHandle.from_buffer_copy(bytes.fromhex(handle)),
        ctypes.c_void_p(),
        ok(hip.hipEventCreate()),
    )
    assert raw("hipIpcOpenEventHandle", ctypes.byref(out), own) == E.hipErrorInvalidContext  # its own process
    assert raw("hipIpcOpenEventHandle", ctypes.byref(out), EventHandle()) == E.hipErrorInvalidValue
    assert raw("hipIpcOpenEventHandle", None, own) == E.hipErrorInvalidValue
    assert raw("hipIpcGetEventHandle", ctypes.byref(own), ordinary) == E.hipErrorInvalidConfiguration
    assert raw("hipIpcGetEventHandle", ctypes.byref(own), None) == E.hipErrorInvalidValue
    assert raw("hipIpcGetEventHandle", None, event) == E.hipErrorInvalidValue
    assert raw("hipEventDestroy", event) == E.hipSuccess
    assert python(WAITS.format(handle)) == f"{int(E.hipErrorInvalidValue)}\n"
