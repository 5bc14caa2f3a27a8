"""Threads and streams: work on one array is ordered on whatever stream, and a step serves any thread (G12, G13)."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from helpers import fuzz, threads as programs
from helpers.gate import Gate

import hiprt
from hiprt import graphs, kernels
from hiprt.check import check
from hiprt.errors import HipError
from hiprt.graphs.record.session import Session

N = 1000


def in_threads(count, work):
    """Run work(0), work(1), … on a thread each, and wait for them; an error of any is raised here."""
    errors = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    started = [threading.Thread(target=guarded, args=(number,), daemon=True) for number in range(count)]
    for each in started:
        each.start()
    for each in started:
        each.join(60)
        assert not each.is_alive(), "threads wait for each other"
    if errors:
        raise errors[0]


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_programs_over_threads_and_streams(first):
    """Four threads, four streams and the default one: graphs, eager launches, copies and memory in numpy's order."""
    failure = programs.check_range(first, 50)
    assert failure is None, failure


@pytest.mark.wide
@pytest.mark.only("cpu", reason="profiles are the CPU device's")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("profile", ["", *fuzz.PROFILES])
def test_many_random_programs_under_every_profile(profile, root, part):
    """20,000 programs are a command, `helpers.threads --profiles`, whose counts are in bench/results."""
    environment = {**os.environ, "HIPRT_CPU_PROFILE": profile}
    seeds = part(range(1000, 1300))
    command = [sys.executable, "-m", "helpers.threads", "--seed", str(seeds[0] * 300), "--count", str(len(seeds))]
    done = subprocess.run(command, cwd=root / "tests", env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]


@pytest.mark.only("cpu", reason="a run without the order shows wrong results on the CPU device")
def test_programs_notice_streams_that_do_not_wait(root):
    """Without the waits, most of the same programs go wrong."""
    command = [sys.executable, "-m", "helpers.threads", "--count", "30", "--loose"]
    done = subprocess.run(command, cwd=root / "tests", capture_output=True, text=True, check=False)
    assert done.returncode == 1, (done.stdout + done.stderr)[-2000:]


def test_threads_share_the_default_stream():
    """A thread that never chose a stream works on the one of its device; `use_stream` is each thread's own."""
    default, seen = hiprt.current_stream(), []
    with hiprt.Stream() as own, hiprt.use_stream(own):
        in_threads(2, lambda _: seen.append(hiprt.current_stream()))
        assert hiprt.current_stream() is own
    assert seen == [default, default]
    assert hiprt.current_stream() is default


def test_an_array_of_another_thread_is_read_behind_its_writer():
    """No thread waits on the host for the other's stream."""
    for _ in range(10):
        x = hiprt.zeros(1 << 16)
        for _ in range(8):
            kernels.add(x, 1.0, out=x)

        def use(_, x=x):
            with hiprt.Stream() as own, hiprt.use_stream(own):
                assert (kernels.add(x, 1.0).numpy() == 9).all()

        in_threads(1, use)


FIRST = """
import hiprt
from hiprt.kernels import hip_kernel
copy = hip_kernel(
    'extern "C" __global__ void copy(const float *x, float *y) { y[threadIdx.x] = x[threadIdx.x]; }',
    "copy",
    {"x": "read float32", "y": "write float32"},
)
x, stream = hiprt.zeros(64), hiprt.Stream()
with hiprt.use_stream(stream):
    copy(x, hiprt.empty(64), grid=1, block=64)
stream.synchronize()
"""


@pytest.mark.only("cpu", reason="the checks are the CPU device's")
def test_the_first_array_of_a_process_is_read_behind_its_writer(tmp_path):
    """It is made before any stream is known to be the only one."""
    (tmp_path / "first.py").write_text(FIRST)
    assert check([sys.executable, str(tmp_path / "first.py")], kinds="race") == (0, [])


def test_streams_that_share_nothing_do_not_wait():
    """Work held back on one stream holds back no other that uses other arrays."""
    with hiprt.Stream() as one, hiprt.Stream() as two:
        x, y = hiprt.zeros(N, stream=one), hiprt.zeros(N, stream=two)
        with hiprt.use_stream(two):
            kernels.add(y, 1.0, out=y)
        gate = Gate(one)
        gate.shut()
        with hiprt.use_stream(one):
            kernels.add(x, 1.0, out=x)
        with hiprt.use_stream(two):
            kernels.add(y, 1.0, out=y)
        two.synchronize()
        assert gate.is_closed
        gate.open()
        assert (x.numpy(one) == 1).all()
        assert (y.numpy(two) == 2).all()


@pytest.mark.parametrize("is_argument", [True, False])
def test_a_kept_step_waits_for_each_of_its_buffers_after_arguments_moved(is_argument):
    """It was recorded with two views of one buffer, both of them arguments or only one (G13)."""
    with hiprt.Stream() as one, hiprt.Stream() as two:
        gate = Gate(two)
        with hiprt.use_stream(one):
            whole, x, y = hiprt.zeros(2 * N), hiprt.zeros(N), hiprt.zeros(N)
        left, right = whole[:N], whole[N:]
        step = graphs.Step((lambda a, b: a + b) if is_argument else lambda a: a + right, stream=one, moves=True)
        before, after, late = ((left, right), (x, y), y) if is_argument else ((left,), (x,), right)
        for arguments in (before, before, after):
            step(*arguments)
        assert step.rungs["patch"] == 1
        kernels.add(hiprt.zeros(N), 1.0)  # loads the kernel: a driver may wait for the device, and so for the gate
        for value in (1.0, 2.0):
            gate.shut()
            with hiprt.use_stream(two):
                kernels.add(late, 1.0, out=late)
            result = step(*after)
            gate.release()
            assert (result.numpy(one) == value).all()
        two.synchronize()
        gate.close()


def test_memory_that_another_stream_still_reads_is_not_reused():
    """G1, G13: the stream that the memory goes back to waits for the other."""
    with hiprt.Stream() as home, hiprt.Stream() as reader:
        gate = Gate(reader)
        x = hiprt.full(N, 1.0, stream=home)
        gate.shut()
        with hiprt.use_stream(reader):
            y = kernels.add(x, 1.0)
        address = x.address
        del x
        again = hiprt.full(N, 5.0, stream=home)
        assert again.address == address
        gate.open()
        assert (y.numpy(reader) == 2).all()
        assert (again.numpy(home) == 5).all()


@pytest.mark.parametrize("keep", [True, False])
def test_threads_that_call_a_step_take_turns(keep):
    """No call is lost, none is recorded into another's, and each gets its own results."""
    x, results = hiprt.zeros(N), [[], [], [], []]
    step = graphs.Step(lambda: kernels.add(kernels.add(x, 1.0, out=x), 0.0), keep=keep)

    def work(number):
        for _ in range(30):
            results[number].append(float(step().numpy()[7]))

    in_threads(4, work)
    assert sorted(value for each in results for value in each) == list(range(1, 121))
    assert (x.numpy() == 120).all()


def test_a_step_that_raises_does_not_fail_one_of_another_thread(stream, monkeypatch):
    """The stream is free for the next recording once the turn is: another step that waits for it records then."""
    x, got = hiprt.array(np.ones(N, np.float32)), []

    def other():
        try:
            with hiprt.use_stream(stream):
                got.append(graphs.Step(lambda: kernels.add(x, 1.0))().numpy()[0])
        except HipError as error:
            got.append(error)

    waiting, abandon = threading.Thread(target=other), Session.abandon

    def slowly(session):
        if session.thread == threading.main_thread().ident and not waiting.ident:
            waiting.start()
            waiting.join(0.2)  # which ends early only if it does not wait for its turn
        abandon(session)

    def fails():
        kernels.add(x, 1.0)
        raise KeyError("halfway")

    with monkeypatch.context() as patch, hiprt.use_stream(stream):
        patch.setattr(Session, "abandon", slowly)
        with pytest.raises(KeyError):
            graphs.Step(fails)()
    waiting.join(60)
    assert got == [2.0]


def test_what_other_threads_launch_does_not_become_nodes():
    """A recording belongs to its thread; the others go on, on the same stream, whose handle no other code has."""
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        x, y = hiprt.zeros(N), hiprt.zeros(N)

        def launch(number):
            with hiprt.use_stream(stream):
                kernels.add(y, 1.0, out=y)

        def function():
            kernels.add(x, 1.0, out=x)
            in_threads(2, launch)
            kernels.add(x, 1.0, out=x)

        step = graphs.Step(function)
        step()
        assert step.nodes == 2
        step()
        assert step.rungs["replay"] == 1
        assert (x.numpy() == 4).all()
        assert (y.numpy() == 2).all()


def test_work_can_be_waited_for_while_another_thread_captures():
    """A stream whose handle other code has is captured while a step records; its work so far can be waited for."""
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        gate, x = Gate(stream), hiprt.zeros(N)
        found = []

        def wait(number):
            if number:
                gate.release()
            else:
                stream.synchronize()
                found.append(gate.is_closed)

        def function():
            kernels.add(x, 1.0, out=x)
            in_threads(2, wait)

        for _ in range(3):
            kernels.add(x, 1.0, out=x)
            gate.shut()
            graphs.Step(function)()
        assert found == [False, False, False]
        assert (x.numpy() == 6).all()
        gate.close()


def test_steps_that_call_each_other_do_not_wait_for_each_other():
    """Two threads, each in one of two steps that call the other, on streams of their own (G5)."""
    with hiprt.Stream() as one, hiprt.Stream() as two:
        x, both = hiprt.zeros(N), threading.Barrier(2)

        def add():
            kernels.add(x, 1.0, out=x)

        def first(depth):
            if depth:
                both.wait(30)
                second_step(0)
            add()

        def second(depth):
            if depth:
                both.wait(30)
                first_step(0)
            add()

        first_step = graphs.Step(first, stream=one)
        second_step = graphs.Step(second, stream=two)
        in_threads(2, lambda number: (first_step, second_step)[number](1))
        assert (x.numpy() == 4).all()


def test_a_step_may_call_itself():
    """The inner calls' launches become nodes of the outer call."""
    x = hiprt.zeros(N)

    def function(depth):
        kernels.add(x, 1.0, out=x)
        if depth:
            step(depth - 1)

    step = graphs.Step(function)
    step(3)
    assert step.nodes == 4
    assert (x.numpy() == 4).all()


def test_an_interrupted_recording_leaves_the_step_to_others():
    """Ctrl-C within the function: nothing of the call is launched, and no lock stays taken."""
    x, interrupts = hiprt.zeros(N), [True]

    def function():
        kernels.add(x, 1.0, out=x)
        if interrupts.pop() if interrupts else False:
            raise KeyboardInterrupt

    step = graphs.Step(function)
    with pytest.raises(KeyboardInterrupt):
        step()
    in_threads(2, lambda _: step())
    assert not hiprt.current_stream().recording
    assert (x.numpy() == 2).all()


def test_a_step_runs_on_its_callers_stream(stream):
    """Without a stream of its own; calls on different streams are ordered, since they share the step's memory."""
    x, default = hiprt.zeros(N), hiprt.current_stream()
    step = graphs.Step(lambda: kernels.add(kernels.add(x, 1.0, out=x), 1.0))
    with hiprt.Stream() as other:
        for number in range(1, 9):
            with hiprt.use_stream(other if number % 2 else default):
                result = step()
                assert step.stream is (other if number % 2 else default)
            assert (result.numpy() == number + 1).all()
    assert step.rungs["instantiate"] == 1


def test_work_on_another_stream_within_a_step(stream):
    """It comes behind what was recorded so far, and the function is called each time."""
    x = hiprt.zeros(N)
    with hiprt.Stream() as other:

        def function():
            y = kernels.add(x, 1.0)
            with hiprt.use_stream(other):
                z = kernels.add(y, 1.0)
            kernels.add(z, 1.0, out=x)

        step = graphs.Step(function, stream=stream)
        for _ in range(3):
            step()
        assert (x.numpy() == 9).all()
    assert step.reasons["split: work on another stream"] == 3


def test_reading_behind_an_event_waits_for_nothing_later(stream):
    """`numpy(after=…)`: an engine reads one token while the next is made."""
    x = hiprt.full(N, 1.0, stream=stream)
    written, gate = hiprt.Event(timing=False), Gate(stream)
    written.record(stream)
    gate.shut()
    with hiprt.Stream() as reader:
        with hiprt.use_stream(stream):
            kernels.add(x, 1.0, out=x)
        np.testing.assert_array_equal(x.numpy(reader, after=written), np.ones(N, np.float32))
        assert gate.is_closed
        gate.open()
        assert (x.numpy(reader) == 2).all()
