"""Streams: order, the null stream, waiting for values and events, callbacks, destruction, and the seeded order."""

import ctypes
import threading

import pytest
from helpers.hip_calls import KIND, E, Gate, Ints, error, ok, raw
from rocm.bindings import hip

HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


class Log:
    """Host functions that note the order in which they run."""

    def __init__(self):
        self.seen = []
        self.function = HOST_FUNCTION(lambda number: self.seen.append(number or 0))

    def note(self, stream, number):
        ok(hip.hipLaunchHostFunc(stream, ctypes.cast(self.function, ctypes.c_void_p).value, number))


@pytest.fixture
def streams():
    """A function that makes streams with the given flags."""
    made = []

    def make(flags=hip.hipStreamDefault):
        made.append(ok(hip.hipStreamCreateWithFlags(flags)))
        return made[-1]

    yield make
    for stream in made:
        hip.hipStreamDestroy(stream)


def test_work_of_a_stream_runs_in_order(streams):
    log, stream = Log(), streams()
    for number in range(50):
        log.note(stream, number)
    ok(hip.hipStreamSynchronize(stream))
    assert log.seen == list(range(50))


def test_query(streams):
    gate, stream = Gate(), streams()
    assert error(hip.hipStreamQuery(stream)) == E.hipSuccess
    gate.hold(stream)
    assert error(hip.hipStreamQuery(stream)) == E.hipErrorNotReady
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    assert error(hip.hipStreamQuery(stream)) == E.hipSuccess


def test_the_null_stream_waits_for_blocking_streams_only(streams):
    gate, blocking, other = Gate(), streams(), streams(hip.hipStreamNonBlocking)
    log = Log()
    gate.hold(blocking)
    log.note(None, 1)
    log.note(other, 2)
    ok(hip.hipStreamSynchronize(other))
    assert log.seen == [2]
    assert error(hip.hipStreamQuery(None)) == E.hipErrorNotReady
    gate.open()
    ok(hip.hipStreamSynchronize(None))
    assert log.seen == [2, 1]


def test_the_null_stream_holds_back_blocking_streams_only(streams):
    gate, blocking, other = Gate(), streams(), streams(hip.hipStreamNonBlocking)
    log = Log()
    gate.hold(None)
    log.note(blocking, 1)
    log.note(other, 2)
    ok(hip.hipStreamSynchronize(other))
    assert log.seen == [2]
    gate.open()
    ok(hip.hipStreamSynchronize(blocking))
    assert log.seen == [2, 1]


def test_synchronising_the_null_stream_covers_blocking_streams(streams):
    log, stream = Log(), streams()
    for number in range(20):
        log.note(stream, number)
    ok(hip.hipStreamSynchronize(None))
    assert log.seen == list(range(20))


def test_device_synchronisation_covers_all_streams(streams):
    logs = [Log() for _ in range(4)]
    for log, flags in zip(logs, [0, 1, 0, 1], strict=True):
        stream = streams(flags)
        for number in range(20):
            log.note(stream, number)
    ok(hip.hipDeviceSynchronize())
    assert [log.seen for log in logs] == [list(range(20))] * 4


def test_the_streams_of_threads_are_their_own():
    per_thread = 2  # hipStreamPerThread
    ids = []

    def look():
        out = ctypes.c_ulonglong()
        assert raw("hipStreamGetId", per_thread, ctypes.byref(out)) == E.hipSuccess
        ids.append(out.value)
        log = Log()
        log.note(per_thread, 3)
        ok(hip.hipStreamSynchronize(per_thread))
        ids.append(log.seen)

    look()
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert ids[0] != ids[2]
    assert ids[1] == ids[3] == [3]


def test_what_a_stream_says_of_itself():
    least, greatest = ok(hip.hipDeviceGetStreamPriorityRange())
    assert greatest < 0 < least
    stream = ok(hip.hipStreamCreateWithPriority(hip.hipStreamNonBlocking, greatest - 5))
    assert ok(hip.hipStreamGetPriority(stream)) == greatest
    assert ok(hip.hipStreamGetFlags(stream)) == hip.hipStreamNonBlocking
    assert ok(hip.hipStreamGetDevice(stream)) == 0
    ok(hip.hipStreamDestroy(stream))
    assert error(hip.hipStreamGetFlags(stream)) == E.hipErrorInvalidHandle
    assert ok(hip.hipStreamGetFlags(None)) == hip.hipStreamDefault


def test_a_destroyed_stream_is_refused_but_finishes(streams):
    gate, stream, log = Gate(), ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking)), Log()
    gate.hold(stream)
    log.note(stream, 7)
    ok(hip.hipStreamDestroy(stream))
    for result in (hip.hipStreamDestroy(stream), hip.hipStreamSynchronize(stream), hip.hipStreamQuery(stream)):
        assert error(result) == E.hipErrorInvalidHandle
    memory = Ints(4)
    assert error(hip.hipMemsetAsync(int(memory), 1, 16, stream)) == E.hipErrorInvalidHandle
    assert log.seen == []
    gate.open()
    ok(hip.hipDeviceSynchronize())
    assert log.seen == [7]


@pytest.mark.parametrize("stream", [None, 1, 2])
def test_streams_nobody_created_cannot_be_destroyed(stream):
    assert error(hip.hipStreamDestroy(stream)) == E.hipErrorInvalidHandle


def test_bad_flags():
    assert error(hip.hipStreamCreateWithFlags(4)) == E.hipErrorInvalidValue
    assert raw("hipStreamCreate", None) == E.hipErrorInvalidValue
    assert raw("hipLaunchHostFunc", None, None, None) == E.hipErrorInvalidValue


def test_a_stream_waits_for_an_event_of_another(streams):
    gate, first, second, log = Gate(), streams(), streams(), Log()
    event = ok(hip.hipEventCreate())
    gate.hold(first)
    log.note(first, 1)
    ok(hip.hipEventRecord(event, first))
    ok(hip.hipStreamWaitEvent(second, event, 0))
    log.note(second, 2)
    assert error(hip.hipStreamQuery(second)) == E.hipErrorNotReady
    gate.open()
    ok(hip.hipStreamSynchronize(second))
    assert log.seen == [1, 2]


def test_waiting_for_an_event_that_was_never_recorded_waits_for_nothing(streams):
    stream, event = streams(), ok(hip.hipEventCreate())
    ok(hip.hipStreamWaitEvent(stream, event, 0))
    ok(hip.hipStreamSynchronize(stream))
    assert error(hip.hipStreamWaitEvent(stream, event, 8)) == E.hipErrorInvalidValue


def test_a_wait_means_the_recording_before_it(streams):
    gate, first, second, third = Gate(), streams(1), streams(1), streams(1)
    event = ok(hip.hipEventCreate())
    ok(hip.hipEventRecord(event, first))
    ok(hip.hipStreamWaitEvent(second, event, 0))
    gate.hold(first)
    ok(hip.hipEventRecord(event, first))
    ok(hip.hipStreamWaitEvent(third, event, 0))
    ok(hip.hipStreamSynchronize(second))
    assert error(hip.hipStreamQuery(third)) == E.hipErrorNotReady
    gate.open()
    ok(hip.hipStreamSynchronize(third))


def test_a_callback_is_told_its_stream_and_status(streams):
    stream, seen = streams(), []
    function = CALLBACK(lambda *args: seen.append(args))
    ok(hip.hipStreamAddCallback(stream, ctypes.cast(function, ctypes.c_void_p).value, 99, 0))
    ok(hip.hipStreamSynchronize(stream))
    assert seen == [(int(stream), 0, 99)]
    assert error(hip.hipStreamAddCallback(stream, 1, 0, 5)) == E.hipErrorInvalidValue


def test_waiting_inside_a_callback_fails_instead_of_hanging(streams):
    stream, seen = streams(), []

    def wait(_):
        seen.append(raw("hipStreamSynchronize", int(stream)))

    function = HOST_FUNCTION(wait)
    ok(hip.hipLaunchHostFunc(stream, ctypes.cast(function, ctypes.c_void_p).value, 0))
    ok(hip.hipStreamSynchronize(stream))
    assert seen == [E.hipErrorIllegalState]


WAITS = [  # flag, value waited for, mask, values that are not enough, value that is
    (hip.hipStreamWaitValueGte, 5, 0xFFFFFFFF, [4, 0xFFFFFFFF], 6),
    (hip.hipStreamWaitValueEq, 5, 0xF, [6], 0x15),
    (hip.hipStreamWaitValueAnd, 0b0110, 0xFFFFFFFF, [0b1001], 0b0010),
    (hip.hipStreamWaitValueNor, 0b0001, 0b0011, [0b0010, 0b0011], 0b0100),
]


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(("flag", "value", "mask", "low", "high"), WAITS)
def test_waiting_for_a_value(streams, bits, flag, value, mask, low, high):
    stream, writer = streams(1), streams(1)
    wait, write = getattr(hip, f"hipStreamWaitValue{bits}"), getattr(hip, f"hipStreamWriteValue{bits}")
    cell = int(ok(hip.hipMalloc(8)))
    for enough in [*[(number, False) for number in low], (high, True)]:
        start = enough[0] - (1 << 32) + (1 << 64) if bits == 64 and enough[0] == 0xFFFFFFFF else enough[0]
        ok(write(writer, cell, start, 0))
        ok(hip.hipStreamSynchronize(writer))
        ok(wait(stream, cell, value, flag, mask if bits == 32 or mask != 0xFFFFFFFF else (1 << 64) - 1))
        if not enough[1]:
            assert error(hip.hipStreamQuery(stream)) == E.hipErrorNotReady
            ok(write(writer, cell, high, 0))
        ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipFree(cell))


def test_values_are_checked(streams):
    cell, stream = Ints(4), streams()
    assert error(hip.hipStreamWaitValue32(stream, int(cell), 1, 9, 1)) == E.hipErrorInvalidValue
    assert error(hip.hipStreamWriteValue32(stream, int(cell) + 1, 1, 0)) == E.hipErrorInvalidValue
    assert error(hip.hipStreamWriteValue64(stream, None, 1, 0)) == E.hipErrorInvalidValue
    ok(hip.hipStreamWriteValue64(stream, int(cell), (3 << 32) | 2, 0))
    ok(hip.hipStreamSynchronize(stream))
    assert cell.read().tolist() == [2, 3, 0, 0]


def test_a_batch_of_values(streams):
    stream, cell = streams(), Ints(2)
    batch = (ctypes.c_uint64 * 12)()
    write, wait = 2, 1  # hipStreamMemOpWriteValue32, hipStreamMemOpWaitValue32
    batch[0:3] = [write, int(cell), 41]
    batch[6:9] = [wait, int(cell), 41]
    assert raw("hipStreamBatchMemOp", stream, 2, batch, 0) == E.hipSuccess
    ok(hip.hipStreamSynchronize(stream))
    assert cell.read().tolist() == [41, 0]
    assert raw("hipStreamBatchMemOp", stream, 0, batch, 0) == E.hipErrorInvalidValue


ORDER = """
seen, function_type = [], ctypes.CFUNCTYPE(None, ctypes.c_void_p)
function = function_type(lambda number: seen.append(number or 0))
gate, event = Gate(), ok(hip.hipEventCreate())
held = ok(hip.hipStreamCreateWithFlags(1))
gate.hold(held)
ok(hip.hipEventRecord(event, held))
for number in range(8):
    stream = ok(hip.hipStreamCreateWithFlags(1))
    ok(hip.hipStreamWaitEvent(stream, event, 0))
    ok(hip.hipLaunchHostFunc(stream, ctypes.cast(function, ctypes.c_void_p).value, number))
gate.open()
ok(hip.hipDeviceSynchronize())
print(seen)
"""


def test_independent_work_runs_in_an_order_the_seed_chooses(python):
    orders = [python(ORDER, HIPRT_CPU_SEED=str(seed)) for seed in (1, 2, 3)]
    assert len(set(orders)) > 1
    assert python(ORDER, HIPRT_CPU_SEED="1") == orders[0]
    assert sorted(map(int, orders[0].strip("[]\n").split(","))) == list(range(8))


def test_a_process_ends_with_work_queued(python):
    """A process exits with work behind a wait that never ends, and with work that nobody waited for."""
    printed = python(
        """
stream, cell = ok(hip.hipStreamCreate()), Ints(4)
ok(hip.hipStreamWaitValue32(stream, int(cell), 1, 1, 0xFFFFFFFF))
ok(hip.hipMemsetAsync(int(cell), 0, 16, stream))
for _ in range(100):
    ok(hip.hipMemsetAsync(int(cell), 0, 16, ok(hip.hipStreamCreateWithFlags(1))))
print("end")
"""
    )
    assert printed == "end\n"


def test_threads_with_streams_of_their_own(streams):
    failures = []

    def work(seed):
        try:
            stream, memory = ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking)), Ints(256)
            event = ok(hip.hipEventCreate())
            for step in range(60):
                ok(hip.hipMemsetD32Async(int(memory), seed * 1000 + step, 256, stream))
                ok(hip.hipEventRecord(event, stream))
            ok(hip.hipEventSynchronize(event))
            out = (ctypes.c_int * 256)()
            ok(hip.hipMemcpyWithStream(out, int(memory), 1024, KIND.hipMemcpyDeviceToHost, stream))
            assert set(out) == {seed * 1000 + 59}
            ok(hip.hipStreamDestroy(stream))
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_compute_units_of_a_stream():
    """A mask of compute units is kept and told back, without units that do not exist; an empty one means all."""
    stream, words = ctypes.c_void_p(), (ctypes.c_uint32 * 64)()
    ask = lambda s, size=64: raw("hipExtStreamGetCUMask", s, ctypes.c_uint32(size), words)  # noqa: E731
    assert ask(None) == E.hipSuccess
    units = list(words)
    assert units[0] & 1
    for given, told in ((1, 1), (0, units[0])):
        mask = (ctypes.c_uint32 * 1)(given)
        assert raw("hipExtStreamCreateWithCUMask", ctypes.byref(stream), ctypes.c_uint32(1), mask) == E.hipSuccess
        assert ask(stream) == E.hipSuccess
        assert (words[0], raw("hipStreamSynchronize", stream)) == (told, E.hipSuccess)
        assert raw("hipStreamDestroy", stream) == E.hipSuccess
    assert ask(None, 0) == E.hipErrorInvalidValue
    assert raw("hipExtStreamGetCUMask", None, ctypes.c_uint32(64), None) == E.hipErrorInvalidValue
    assert raw("hipExtStreamCreateWithCUMask", None, ctypes.c_uint32(1), words) == E.hipErrorInvalidHandle
    assert raw("hipExtStreamCreateWithCUMask", ctypes.byref(stream), 0, words) == E.hipErrorInvalidValue
    assert raw("hipExtStreamCreateWithCUMask", ctypes.byref(stream), ctypes.c_uint32(1), None) == E.hipErrorInvalidValue
