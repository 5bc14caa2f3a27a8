"""Armed steps: what a call shares with the one before that the C core launches alone, and what still holds then."""

import gc
import threading

import numpy as np
import pytest
from helpers.gate import Gate
from helpers.hip_calls import raw
from helpers.interrupted import Interrupted
from helpers.kernels import accumulate, launch, scale
from quirks.capture_calls import LOCAL, begin, end
from quirks.test_guards import CoreExec

import hiprt
from hiprt import flags, graphs, kernels

N = 64


@pytest.fixture
def x(stream):
    """Some input."""
    return hiprt.array(np.arange(N, dtype=np.float32))


def in_place(x):
    """Change an array."""
    accumulate(x, x)


def values(count):
    """What `count` calls of `in_place` make of the input."""
    return np.arange(N, dtype=np.float32) * 2**count


def test_the_same_arguments_need_no_python(stream, x, calls):
    """The first call records; those that follow are replays, counted as such."""
    step = graphs.Step(in_place, stream=stream)
    for _ in range(5):
        step(x)
    assert len(calls) == 1
    assert step.rungs == {"replay": 4, "patch": 0, "update": 0, "instantiate": 1, "eager": 0}
    np.testing.assert_array_equal(x.numpy(), values(5))


def test_arrays_are_compared_by_what_they_show(stream, x, calls):
    """Another object for the same elements is the same argument; other elements, shapes or dtypes are not."""
    step = graphs.Step(lambda x: None if x.dtype != np.float32 else scale(x, 1.0), stream=stream)
    part = x[: N // 2]
    step(part)
    step(x[: N // 2])
    assert len(calls) == 1
    others = [x[1 : N // 2 + 1], x[: N // 2 - 1], x, x.reshape(8, 8), x.reshape(8, 8)[:, :4], x.view(np.int32)]
    for count, other in enumerate(others, 2):
        step(other)
        assert len(calls) == count


@pytest.mark.parametrize(("first", "second"), [(1, True), (1, 1.0), (0.0, -0.0), (2, 3), ("a", "b"), ((1,), (1.0,))])
def test_values_are_compared_by_type_and_value(stream, x, calls, first, second):
    """What Python calls equal is not always the same argument of a kernel."""
    step = graphs.Step(lambda x, value: launch("scale", x, x, 2.0, size=N), stream=stream)
    step(x, first)
    step(x, first)
    assert len(calls) == 1
    step(x, second)
    assert len(calls) == 2
    assert step.rungs["instantiate"] + step.rungs["replay"] == 3


def test_a_large_number_is_the_same_argument_by_value(stream, x, calls):
    """Numbers that are made anew for each call are no objects of their own to anybody."""
    step = graphs.Step(lambda x, value: in_place(x), stream=stream)
    for _ in range(3):
        step(x, int("123456789"))
    assert len(calls) == 1


def test_a_call_with_another_number_of_arguments_is_another_call(stream, x):
    """The arguments that are there may all be the same."""
    step = graphs.Step(lambda *arrays: in_place(arrays[0]), stream=stream)
    for arrays in ((x,), (x, x), (x,), (x, x)):
        step(*arrays)
    assert len(step.kept) == 2
    with pytest.raises(TypeError, match="unexpected keyword"):
        step(x, x, name=1)


def test_the_callers_key_needs_no_python(stream, x, calls):
    """It is checked against what is recorded."""
    step = graphs.Step(in_place, stream=stream)
    for _ in range(3):
        step(x, key="decode")
    assert len(calls) == 1
    assert step.rungs["replay"] == 2


def test_arguments_by_name_need_no_python(stream, x, calls):
    """In any order, and beside the caller's key; another name, value or number of them is another call."""

    def function(x, by, also=3):
        launch("scale", x, x, float(by), size=N)
        return also

    step = graphs.Step(function, stream=stream)
    step(x, by=2, also=4)
    for _ in range(3):
        assert step(x, also=4, by=2) == 4
        assert step(x, by=2, also=4, key="here") == 4
    assert len(calls) == 1
    others = [
        ((x,), {"by": 3, "also": 4}),
        ((x,), {"by": 2}),
        ((x,), {"by": 4, "also": 2}),
        ((x, 2), {"also": 4}),
        ((x, 2, 4), {}),
        ((), {"x": x, "by": 2, "also": 4}),
    ]
    for count, (args, keywords) in enumerate(others, 2):
        assert step(*args, **keywords) == keywords.get("also", 3 if len(args) < 3 else 4)
        assert len(calls) == count
    for args, keywords in [((x,), {"by": 2, "other": 4}), ((x, 2, 4), {"also": 4}), ((x,), {})]:
        with pytest.raises(TypeError, match="argument"):
            step(*args, **keywords)
    factor = 2 * 2 * 2 * 2 * 2 * 2 * 2 * 3 * 2 * 4 * 2 * 2 * 2
    np.testing.assert_array_equal(x.numpy(), np.arange(N, dtype=np.float32) * factor)


@pytest.mark.parametrize("moves", [False, True])
def test_keywords_in_another_order_are_the_same_call(stream, x, moves):
    """Also where the step is not armed, and for a function that sees their order."""
    y, seen = hiprt.full(N, 2.0, np.float32), []

    def function(**arrays):
        seen.append(list(arrays))
        return kernels.subtract(*arrays.values())

    step = graphs.Step(function, stream=stream, moves=moves)
    for i in range(6):
        result = step(b=y, a=x) if i % 2 else step(a=x, b=y)
        np.testing.assert_array_equal(result.numpy(), np.arange(N, dtype=np.float32) - 2)
        step.disarm()
    assert seen == [["a", "b"]]
    assert (step.rungs["instantiate"], step.rungs["replay"]) == (1, 5)
    with flags.override(graph=False):
        step(b=y, a=x)
    assert seen == [["a", "b"]] * 2


@pytest.mark.parametrize("name", ["x", "nothing"])
def test_structures_by_name_are_compared_in_python(stream, x, calls, name):
    """A list may have changed since the call before."""
    step = graphs.Step(lambda a, x=None, nothing=(): in_place(a), stream=stream)
    for _ in range(3):
        step(x, **{name: [1, 2]})
    assert len(calls) == 3


def test_results_are_what_they_always_are(stream, x, calls):
    """Each call returns memory of its own, unless the caller wants the step's."""
    step, same = (graphs.Step(lambda: scale(x, 2.0), stream=stream, overwrite=overwrite) for overwrite in (False, True))
    results = [step() for _ in range(3)]
    assert len({result.address for result in results}) == 3
    assert len({id(same()) for _ in range(3)}) == 1
    assert len(calls) == 2
    for result in results:
        np.testing.assert_array_equal(result.numpy(), np.arange(N) * 2.0)


def test_flags_are_obeyed_at_once(stream, x, calls, tmp_path):
    """Whatever a flag changes, the next call knows."""
    step = graphs.Step(in_place, stream=stream)
    step(x)
    with hiprt.flags.override(graph=False):
        step(x)
        assert step.rungs["eager"] == 1
    with hiprt.flags.override(graph_verify=True):
        step(x)
        step(x)
    with hiprt.flags.override(graph_rungs=("instantiate", "eager")):
        step(x)
        assert step.rungs["instantiate"] == 2
    assert len(calls) == 5
    hiprt.flags.reload()
    step(x)
    assert len(calls) == 6
    step(x)
    assert len(calls) == 6
    np.testing.assert_array_equal(x.numpy(), values(7))


def test_a_step_that_may_not_replay_is_not_armed(stream, x, calls):
    """It is recorded at each call, however often the same call comes."""
    step = graphs.Step(in_place, stream=stream)
    with hiprt.flags.override(graph_rungs=("patch", "instantiate", "eager")):
        for _ in range(4):
            step(x)
    assert len(calls) == 4
    assert step.rungs["replay"] == 0
    np.testing.assert_array_equal(x.numpy(), values(4))


def test_attributes_are_obeyed_at_once(stream, x):
    """A step that is not to be kept any more, or is to run elsewhere."""
    made = []

    def function():
        made.append(hiprt.current_stream())
        in_place(x)

    step = graphs.Step(function, stream=stream)
    step()
    step()
    step.keep = False
    step()
    assert made == [stream, stream]
    step.keep = True
    step()
    stream.synchronize()
    with hiprt.Stream() as other:
        step.stream = other
        before = other.launches
        step()
        assert other.launches == before + 1
        np.testing.assert_array_equal(x.numpy(other), values(5))


def test_a_moved_step_is_armed_for_what_it_carries(stream, calls):
    """Once it was patched; Python is asked for what has not moved so before."""
    one, sums = hiprt.array(np.ones(N, np.float32)), [hiprt.zeros(N) for _ in range(2)]
    step = graphs.Step(lambda a: launch("accumulate", one, a, size=N), stream=stream, moves=True)
    for which in (0, 0, 1, 0, 0, 1, 1):
        step(sums[which])
    assert [float(each.numpy()[0]) for each in sums] == [4, 3]
    assert len(calls) == 3
    assert (step.rungs["patch"], step.rungs["replay"]) == (3, 3)


def test_arrays_of_another_alignment_are_recorded_again(stream):
    """Ops choose their kernels by it: what loads 128 bits at once cannot be given an array that starts anywhere."""
    whole, sums = hiprt.array(np.ones(4 * N, np.float32)), hiprt.zeros(N)
    step = graphs.Step(lambda a: launch("accumulate", a, sums, size=N), stream=stream, moves=True)
    for start in (0, N, N + 1, 0, N + 1):
        step(whole[start : start + N])
    assert step.rungs == {"replay": 1, "patch": 2, "update": 0, "instantiate": 2, "eager": 0}
    np.testing.assert_array_equal(sums.numpy(), np.full(N, 5, np.float32))


def test_forgetting_disarms(stream, x, calls):
    """The next call records."""
    step = graphs.Step(in_place, stream=stream)
    for _ in range(2):
        step(x)
        step.forget()
    assert len(calls) == 2
    assert not step.kept


def test_the_least_recently_used_signature_goes_first(stream, x, calls):
    """An armed signature was used last, however often Python was not asked."""
    arrays = [x[: 8 * (i + 1)] for i in range(3)]
    step = graphs.Step(in_place, stream=stream)
    with hiprt.flags.override(graph_keys=2):
        for array in (arrays[0], arrays[1], arrays[0], arrays[0], arrays[2]):
            step(array)
        count = len(calls)
        assert len(step.kept) == 2
        step(arrays[2])
        assert len(calls) == count
        step(arrays[0])
    assert step.rungs["instantiate"] == 3


def test_an_armed_step_within_another_is_a_part_of_it(stream, x):
    """Nothing is launched while the stream records."""
    inner = graphs.Step(lambda: in_place(x), stream=stream)
    inner()
    inner()
    before = stream.launches
    outer = graphs.Step(lambda: (inner(), inner()), stream=stream)
    outer()
    assert outer.nodes == 2
    assert stream.launches == before + 1
    np.testing.assert_array_equal(x.numpy(), values(4))


@pytest.mark.only("cpu", reason="checks handles of executable graphs")
def test_a_failed_launch_runs_eagerly_and_says_why(stream, x):
    """G8: in the C core as in Python."""
    step = graphs.Step(in_place, stream=stream)
    step(x)
    step(x)
    (kept,) = step.kept.values()
    stream.synchronize()
    assert raw("hipGraphExecDestroy", CoreExec.of(kept.exec).handle) == 0
    step(x)
    assert step.rungs["eager"] == 1
    assert any(reason.startswith("eager: hipGraphLaunch: hipErrorInvalid") for reason in step.reasons)
    assert not step.kept
    step(x)
    step(x)
    assert step.rungs == {"replay": 2, "patch": 0, "update": 0, "instantiate": 2, "eager": 1}
    np.testing.assert_array_equal(x.numpy(), values(5))


def test_another_threads_arrays_are_not_those_of_a_launch_that_failed(stream, x):
    """G8, G12: they were patched into the exec, in part, before the nodes run eagerly."""
    y = hiprt.array(np.arange(N, dtype=np.float32) + 100)
    step = Interrupted(lambda a: kernels.negative(scale(a, 2.0)), stream=stream, moves=True)
    for _ in range(2):
        step(x)
    step.fail_next(y)
    np.testing.assert_array_equal(step(x).numpy(), x.numpy() * -2)
    np.testing.assert_array_equal(step.others[0].numpy(), y.numpy() * -2)
    np.testing.assert_array_equal(step(x).numpy(), x.numpy() * -2)


def test_an_exec_is_in_flight_until_its_stream_has_come_so_far(stream, x):
    """G2: without an event behind the launch, the answer comes later, and is right."""
    step, gate = graphs.Step(in_place, stream=stream), Gate(stream)
    step(x)
    stream.synchronize()
    (kept,) = step.kept.values()
    assert not kept.exec.busy
    gate.shut()
    step(x)
    assert kept.exec.busy
    assert kept.exec.launched > 0
    gate.release()
    kept.exec.wait()
    assert not kept.exec.busy
    gate.close()


def test_execs_outlive_the_stream_of_their_launch(x):
    """What was launched on a stream that is closed before it has run is known to be done when it is."""
    own = hiprt.Stream()
    gate = Gate(own)
    step = graphs.Step(in_place, stream=own)
    step(x)
    (kept,) = step.kept.values()
    gate.shut()
    step(x)
    closing = threading.Thread(target=own.close)
    closing.start()
    assert kept.exec.busy
    gate.release()
    closing.join()
    kept.exec.wait()
    assert not kept.exec.busy
    np.testing.assert_array_equal(x.numpy(), values(2))
    exec_ = kept.exec
    del step, kept
    gc.collect()
    assert not exec_.busy
    gate.close()


def test_streams_of_others_may_go_at_any_time(stream, x):
    """Their handles are not used behind a launch."""
    with hiprt.Stream() as theirs:
        wrapped = hiprt.Stream.from_handle(theirs.handle)
        step = graphs.Step(in_place, stream=wrapped)
        for _ in range(3):
            step(x)
    (kept,) = step.kept.values()
    kept.exec.wait()
    assert not kept.exec.busy
    assert step.rungs["replay"] == 2


def test_an_exec_dropped_while_its_stream_is_captured_leaves_the_capture_alone(stream, x):
    """G10: it cannot be asked there whether it is done, and is destroyed with a later one."""
    step, other = graphs.Step(in_place, stream=stream), graphs.Step(lambda: scale(x, 2.0), stream=stream)
    for _ in range(2):
        step(x)
        other()
    stream.synchronize()
    (kept,) = step.kept.values()
    exec_ = kept.exec
    assert begin(stream.hip_stream, LOCAL) == "hipSuccess"
    assert exec_.busy
    with pytest.raises(hiprt.HipError, match="the stream is being captured"):
        exec_.wait()
    del step, kept, exec_
    gc.collect()
    status, graph = end(stream.hip_stream)
    assert (status, graph != 0) == ("hipSuccess", True)
    assert raw("hipGraphDestroy", graph) == 0
    del other
    np.testing.assert_array_equal(x.numpy(), values(2))


def test_threads_may_launch_one_step(stream, x):
    """G12: every launch happens with its caller's array, whoever else launches the exec or moves arrays in it."""
    step = graphs.Step(lambda a: launch("accumulate", one, a, size=N), stream=stream, moves=True)
    one, sums = hiprt.array(np.ones(N, np.float32)), [hiprt.zeros(N) for _ in range(4)]
    # A stream is one thread's while it records.
    step(sums[0])

    def work(mine):
        for _ in range(200):
            # Some calls find the step armed for their array, others for another thread's.
            step(mine)
            step(mine)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in sums]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert step.rungs["instantiate"] == 1
    for mine, expected in zip(sums, (401, 400, 400, 400), strict=True):
        np.testing.assert_array_equal(mine.numpy(stream), np.full(N, expected, np.float32))


@pytest.mark.parametrize("is_armed", [True, False])
def test_a_finaliser_that_calls_while_results_are_copied_runs_eagerly(stream, is_armed):
    """Another launch of the graph would overwrite what is not copied yet."""
    count = 48

    def several(by):
        y = kernels.multiply(hiprt.array(np.ones(N, np.float32)), by)
        return [kernels.add(y, float(i)) for i in range(count)]

    step, found = graphs.Step(several, stream=stream, varying={"by": np.float32}), []
    expected = [[by + i for i in range(count)] for by in (2.0, 100.0)]

    class Late:
        def __del__(self):
            if not found:
                found.append([each.numpy()[0] for each in step(100.0)])

    for _ in range(3):
        step(1.0)
    before, calls = gc.get_threshold(), 0
    try:
        for after in range(4, 40, 3):  # objects, behind which the collector runs
            found.clear()
            gc.collect()
            gc.disable()
            late = Late()
            late.me = late
            del late
            if not is_armed:
                flags.version += 1
            gc.set_threshold(after, 1, 1)
            gc.enable()
            results = step(2.0)
            gc.set_threshold(*before)
            assert [each.numpy()[0] for each in results] == expected[0]
            assert found in ([], expected[1:])
            calls += len(found)
    finally:
        gc.set_threshold(*before)
        gc.enable()
    assert calls
    assert step.reasons["eager: called while its results are copied"]
