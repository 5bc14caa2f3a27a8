"""Events: recording, queries, times, and what they refuse."""

import threading

import pytest
from helpers.hip_calls import E, Gate, Ints, error, ok
from rocm.bindings import hip


@pytest.fixture
def event():
    """An event that can be timed."""
    made = ok(hip.hipEventCreate())
    yield made
    hip.hipEventDestroy(made)


@pytest.fixture
def stream():
    """A stream beside the null stream."""
    made = ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
    yield made
    ok(hip.hipStreamSynchronize(made))
    ok(hip.hipStreamDestroy(made))


def test_an_event_is_reached_after_the_work_before_it(event, stream):
    gate, memory = Gate(), Ints(4)
    gate.hold(stream)
    ok(hip.hipMemsetD32Async(int(memory), 5, 4, stream))
    ok(hip.hipEventRecord(event, stream))
    assert error(hip.hipEventQuery(event)) == E.hipErrorNotReady
    gate.open()
    ok(hip.hipEventSynchronize(event))
    assert error(hip.hipEventQuery(event)) == E.hipSuccess
    assert memory.read().tolist() == [5] * 4


def test_an_event_that_was_never_recorded_is_reached(event):
    assert error(hip.hipEventQuery(event)) == E.hipSuccess
    ok(hip.hipEventSynchronize(event))


def test_recording_again_replaces_the_point(event, stream):
    gate = Gate()
    ok(hip.hipEventRecord(event, stream))
    ok(hip.hipEventSynchronize(event))
    gate.hold(stream)
    ok(hip.hipEventRecord(event, stream))
    assert error(hip.hipEventQuery(event)) == E.hipErrorNotReady
    gate.open()
    ok(hip.hipEventSynchronize(event))


def test_threads_that_wait_are_woken(event, stream):
    gate, woken = Gate(), []
    gate.hold(stream)
    ok(hip.hipEventRecord(event, stream))
    threads = [threading.Thread(target=lambda: woken.append(error(hip.hipEventSynchronize(event)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert woken == []
    gate.open()
    for thread in threads:
        thread.join()
    assert woken == [E.hipSuccess] * 4


def test_elapsed_time_follows_the_order_of_recording(stream):
    first, second, third = (ok(hip.hipEventCreate()) for _ in range(3))
    memory = Ints(1 << 16)
    for event in (first, second, third):
        ok(hip.hipEventRecord(event, stream))
        ok(hip.hipMemsetD32Async(int(memory), 1, 1 << 16, stream))
    ok(hip.hipStreamSynchronize(stream))
    whole, part = ok(hip.hipEventElapsedTime(first, third)), ok(hip.hipEventElapsedTime(first, second))
    assert 0 < part < whole
    assert ok(hip.hipEventElapsedTime(third, first)) == -whole
    assert ok(hip.hipEventElapsedTime(first, first)) == 0


def test_what_has_no_elapsed_time(event, stream):
    gate, reached = Gate(), ok(hip.hipEventCreate())
    untimed = ok(hip.hipEventCreateWithFlags(hip.hipEventDisableTiming))
    ok(hip.hipEventRecord(reached, stream))
    ok(hip.hipEventRecord(untimed, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert error(hip.hipEventElapsedTime(reached, event)) == E.hipErrorInvalidHandle
    assert error(hip.hipEventElapsedTime(reached, untimed)) == E.hipErrorInvalidHandle
    assert error(hip.hipEventElapsedTime(None, reached)) == E.hipErrorInvalidHandle
    gate.hold(stream)
    ok(hip.hipEventRecord(event, stream))
    assert error(hip.hipEventElapsedTime(reached, event)) == E.hipErrorNotReady
    gate.open()


def test_a_destroyed_event_is_refused(stream):
    event = ok(hip.hipEventCreate())
    gate = Gate()
    gate.hold(stream)
    ok(hip.hipEventRecord(event, stream))
    ok(hip.hipEventDestroy(event))
    for result in (
        hip.hipEventDestroy(event),
        hip.hipEventRecord(event, stream),
        hip.hipEventQuery(event),
        hip.hipEventSynchronize(event),
        hip.hipStreamWaitEvent(stream, event, 0),
    ):
        assert error(result) == E.hipErrorInvalidHandle
    gate.open()


def test_flags_are_checked(event):
    assert error(hip.hipEventCreateWithFlags(0x100)) == E.hipErrorInvalidValue
    assert error(hip.hipEventCreateWithFlags(hip.hipEventInterprocess)) == E.hipErrorInvalidValue
    every = (
        hip.hipEventInterprocess | hip.hipEventDisableTiming | hip.hipEventReleaseToDevice | hip.hipEventReleaseToSystem
    )
    assert error(hip.hipEventCreateWithFlags(every & 0xFFFFFFFF)) == E.hipErrorInvalidValue
    both = hip.hipEventReleaseToDevice | (hip.hipEventReleaseToSystem & 0xFFFFFFFF)
    assert error(hip.hipEventCreateWithFlags(both)) == E.hipErrorInvalidValue
    no_fence = 0x20000000  # hipEventDisableSystemFence: one of the three
    ok(hip.hipEventDestroy(ok(hip.hipEventCreateWithFlags(no_fence))))
    assert error(hip.hipEventCreateWithFlags(no_fence | hip.hipEventReleaseToDevice)) == E.hipErrorInvalidValue
    assert error(hip.hipEventRecordWithFlags(event, None, 9)) == E.hipErrorInvalidValue
    assert error(hip.hipEventRecord(event, 0x123450)) == E.hipErrorInvalidHandle
