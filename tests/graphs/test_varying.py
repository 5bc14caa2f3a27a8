"""Arguments that vary (`Step(varying=…)`): they lie in device memory, so that another value needs no other graph."""

import re
import threading

import numpy as np
import pytest
from helpers.interrupted import Interrupted
from helpers.kernels import scale

import hiprt
from hiprt import bfloat16, graphs, kernels

N = 64


@pytest.fixture
def x(stream):
    """Some input."""
    return hiprt.array(np.arange(N, dtype=np.float32))


def times(x, by):
    """Multiply an array by one number in device memory."""
    return kernels.multiply(x, by)


def host(by):
    """What `times` makes of the input."""
    return np.arange(N, dtype=np.float32) * np.float32(by)


def test_another_number_is_a_replay_without_python(stream, x, calls):
    """The C core writes the number and launches."""
    step = graphs.Step(times, stream=stream, varying={"by": np.float32})
    results = [step(x, i / 4) for i in range(200)]
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result.numpy(), host(i / 4))
    assert step.rungs == {"replay": 199, "patch": 0, "update": 0, "instantiate": 1, "eager": 0}
    assert len(calls) == 1
    assert len(step.kept) == 1


def test_another_number_by_name_is_a_replay_without_python(stream, x, calls):
    """Wherever the others stand."""
    step = graphs.Step(times, stream=stream, varying={"by": np.float32})
    for number in (2.0, 0.5, -3.0):
        np.testing.assert_array_equal(step(x, by=number).numpy(), host(number))
        np.testing.assert_array_equal(step(by=number, x=x).numpy(), host(number))
    assert step.rungs["instantiate"] == 2
    del calls[:]
    for number in (4.0, 5.0):
        np.testing.assert_array_equal(step(by=number, x=x).numpy(), host(number))
    assert not calls


@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [
        (np.float32, [0.1, -0.0, float("inf"), -2.5]),
        (np.float64, [0.1, 1e300, -0.0, 3.0]),
        (np.int32, [1, -1, 2**31 - 1, -(2**31)]),
        (np.int64, [1, -1, 2**40, -(2**63)]),
        (np.float16, [0.1, 2.0, 65504.0, -1.0]),
        (bfloat16, [0.1, 2.0, 3.0, -1.0]),
        (np.uint8, [0, 255, 7, 1]),
        (np.bool_, [True, False, True, True]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_numbers_of_each_dtype_arrive(stream, dtype, numbers):
    """With the bits that numpy gives them."""

    def function(a):
        out = hiprt.empty((), dtype)
        out.copy_from(a)
        return out

    step = graphs.Step(function, stream=stream, varying={"a": dtype})
    for number in numbers * 2:
        assert step(number).numpy().tobytes() == np.asarray(number, dtype).tobytes()
    assert step.rungs["instantiate"] == 1


def test_by_name_by_default_and_by_position(stream, x):
    """However the number is passed, the function has it."""

    def function(x, by=2.0, *, plus=1.0):
        return kernels.add(kernels.multiply(x, by), plus)

    step = graphs.Step(function, stream=stream, varying={"by": np.float32, "plus": np.float32})
    for args, keywords, expected in [
        ((), {}, host(2) + 1),
        ((3.0,), {}, host(3) + 1),
        ((), {"by": 4.0}, host(4) + 1),
        ((5.0,), {"plus": 6.0}, host(5) + 6),
        ((), {}, host(2) + 1),
    ]:
        np.testing.assert_array_equal(step(x, *args, **keywords).numpy(), expected)
    assert step.rungs["instantiate"] <= 3


def test_an_array_of_one_element_is_copied(stream, x):
    """A number that the device has computed is passed as it is."""
    step = graphs.Step(times, stream=stream, varying={"by": np.float32})
    for value in (1.0, 2.0, 3.0):
        np.testing.assert_array_equal(step(x, hiprt.full((), value)).numpy(), host(value))
        np.testing.assert_array_equal(step(x, value + 0.5).numpy(), host(value + 0.5))
    assert step.rungs["instantiate"] == 1


def test_the_function_has_an_array_wherever_it_runs(stream, x):
    """Eagerly, without graphs, and within another step: the same bits."""
    seen = []

    def function(x, by):
        seen.append(type(by))
        return times(x, by)

    step = graphs.Step(function, stream=stream, varying={"by": np.float32})
    np.testing.assert_array_equal(step.eager(x, 3.0).numpy(), host(3))
    with hiprt.flags.override(graph=False):
        np.testing.assert_array_equal(step(x, 4.0).numpy(), host(4))
    outer = graphs.Step(lambda x, by: kernels.add(step(x, by), step(x, by * 2)), stream=stream)
    for by in (1.0, 2.0, 3.0, 3.0):
        np.testing.assert_array_equal(outer(x, by).numpy(), host(by) + host(by * 2))
    assert set(seen) == {hiprt.Array}


def test_a_plain_kernel_scalar_is_refused_in_the_users_words(stream, x):
    """What is in device memory cannot be passed to a kernel by value."""
    step = graphs.Step(scale, stream=stream, varying={"by": np.float32})
    with pytest.raises(TypeError, match=r"scale: by is Array\(.*a number is needed, or a kernel that reads it"):
        step(x, 2.0)
    np.testing.assert_array_equal(scale(x, 2.0).numpy(), host(2))


def test_what_is_no_number_is_refused_at_each_call(stream, x):
    """Also by a step that is armed; what it kept stays right."""
    step = graphs.Step(times, stream=stream, varying={"by": np.int32})
    assert step(x.view(np.int32), 3).numpy().tobytes() == (x.numpy().view(np.int32) * np.int32(3)).tobytes()
    for wrong in (1.5, "a", None, 2**31, [1]):
        with pytest.raises((TypeError, OverflowError), match=r"argument by is .* a int32 is needed"):
            step(x.view(np.int32), wrong)
    assert step(x.view(np.int32), 4).numpy().tobytes() == (x.numpy().view(np.int32) * np.int32(4)).tobytes()
    wide = graphs.Step(times, stream=stream, varying={"by": np.float32})
    with pytest.raises(TypeError, match="a number is needed"):
        wide(x, np.ones(3))
    for wrong in (None, "1.5", b"1", np.datetime64(1, "s")):
        with pytest.raises(TypeError, match=r"argument by is .*; a float32 is needed: it is no number"):
            wide(x, wrong)
    without = graphs.Step(lambda x, by=None: times(x, by), stream=stream, varying={"by": np.float32})
    with pytest.raises(TypeError, match="argument by is None"):
        without(x)


def test_what_cannot_vary_is_refused_at_once():
    """Names that the function has not, and types that are too wide."""
    with pytest.raises(TypeError, match=r"varying is \('scale',\); give the dtype of each argument by its name"):
        graphs.Step(lambda x, scale: x, varying=("scale",))
    with pytest.raises(TypeError, match="has no argument scale, only x, by"):
        graphs.Step(times, varying={"scale": np.float32})
    with pytest.raises(ValueError, match="16 bytes"):
        graphs.Step(times, varying={"by": np.complex128})


@pytest.mark.parametrize("graph", [True, False])
def test_threads_launch_with_their_own_number(stream, graph):
    """G12: between writing the number and the launch, a thread has the step for itself, or memory of its own."""
    total = hiprt.zeros(())
    step = graphs.Step(lambda by: kernels.add(total, by, out=total), stream=stream, varying={"by": np.float32})
    step(0.0)

    def work(by):
        for _ in range(100):
            step(by)

    threads = [threading.Thread(target=work, args=(float(by),)) for by in range(1, 5)]
    with hiprt.flags.override(graph=graph):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert float(total.numpy(stream)) == 1000


@pytest.mark.parametrize("seed", range(10))
def test_random_calls_have_the_bits_of_eager(stream, seed):
    """Numbers, positions and other arguments in any order."""
    rng = np.random.default_rng(seed)

    def function(x, by, plus=1.0, sign=1):
        y = kernels.add(kernels.multiply(x, by), plus)
        return kernels.negative(y) if sign < 0 else y

    step = graphs.Step(function, stream=stream, varying={"by": np.float32, "plus": np.float32}, moves=bool(seed % 2))
    values = [rng.standard_normal(N, dtype=np.float32) for _ in range(3)]
    arrays = [hiprt.array(each) for each in values]
    for _ in range(60):
        i, by, plus = int(rng.integers(3)), float(np.float32(rng.random())), float(np.float32(rng.random()))
        sign = int(rng.choice([1, -1]))
        expected = (values[i] * np.float32(by) + np.float32(plus)) * np.float32(sign)
        way = int(rng.integers(3))
        if way == 0:
            made = step(arrays[i], by, plus, sign)
        elif way == 1:
            made = step(arrays[i], by, sign=sign, plus=plus)
        else:
            made = step(x=arrays[i], by=by, plus=plus, sign=sign)
        np.testing.assert_array_equal(made.numpy(), expected)


@pytest.mark.parametrize("keep", [True, False])
def test_a_number_that_is_returned_is_its_calls_own(stream, x, keep):
    """The next call writes its number where the last one's was; that holds for views, and where nothing is launched."""
    varying = {"by": np.float32}

    def function(x, by):
        return times(x, by), by, by.reshape(1)

    step = graphs.Step(function, stream=stream, keep=keep, varying=varying)
    alone = graphs.Step(lambda by: {"by": by}, stream=stream, keep=keep, varying=varying)
    made = [(step(x, float(i)), alone(float(i))) for i in range(4)]
    for i, ((product, by, view), only) in enumerate(made):
        np.testing.assert_array_equal(product.numpy(), host(i))
        assert [by.numpy().item(), view.numpy().item(), only["by"].numpy().item()] == [i, i, i]
    overwritten = graphs.Step(lambda by: by, stream=stream, keep=keep, varying=varying, overwrite=True)
    first, _ = overwritten(1.0), overwritten(2.0)
    assert first.numpy().item() == 2


def test_another_thread_does_not_change_the_number_of_a_launch_that_failed(stream, x):
    """G8, G12: the nodes run eagerly with the number of the call that failed."""
    step = Interrupted(times, stream=stream, varying={"by": np.float32})
    for by in (1.0, 2.0):
        step(x, by)
    step.fail_next(x, 7.0)
    np.testing.assert_array_equal(step(x, 3.0).numpy(), host(3))
    np.testing.assert_array_equal(step.others[0].numpy(), host(7))
    np.testing.assert_array_equal(step(x, 4.0).numpy(), host(4))


@pytest.mark.parametrize("moves", [False, True])
def test_a_number_on_another_stream_is_named_as_what_varies(x, moves):
    """It has a place of its own there, which is no other argument."""
    step = graphs.Step(times, name="streams", varying={"by": np.float32}, moves=moves)
    for _ in range(2):
        with hiprt.Stream() as other, hiprt.use_stream(other):
            np.testing.assert_array_equal(step(x, 2.0).numpy(), host(2))
    event = next(event for event in reversed(graphs.explain()) if event.step == "streams")
    assert re.match(r"varying argument by: 0x\w+ -> 0x\w+", event.difference)
    if not moves:
        assert event.reason.startswith("another place of varying argument by: ")
        assert "on one stream" in event.remedy


def test_keywords_are_in_order_with_those_that_have_defaults(stream, x):
    """A call that leaves out what varies is the call that gives it."""

    def function(x, *, by=2.0, sign=1):
        return times(x, by)

    step = graphs.Step(function, stream=stream, varying={"by": np.float32})
    for keywords in ({"by": 3.0, "sign": 1}, {"sign": 1}, {"sign": 1, "by": 4.0}):
        np.testing.assert_array_equal(step(x, **keywords).numpy(), host(keywords.get("by", 2)))
    assert step.rungs["instantiate"] == len(step.kept) == 1
