"""Calls of ops that a program issues again by itself: what they launch, and when the op is called all the same."""

import numpy as np
import pytest
from helpers import foreign

import hiprt
from hiprt import graphs, kernels
from hiprt.graphs.trace.issue import noting, recording_on
from hiprt.graphs.trace.program import Program
from hiprt.op import op

LAYERS = 12


class Counted:
    """An op that counts its calls, which rehearsals make as well."""

    def __init__(self, function):
        self.calls = 0

        def counted(x, y, *, stream=None):
            stream = stream or hiprt.current_stream()
            self.calls += stream.written is None
            return function(x, y)

        self.op = op(counted)


def layers(each):
    """Return a function of twelve equal calls, each of the one before and of what it is given."""

    def function(x, y):
        for _ in range(LAYERS):
            x = each(x, y)
        return x

    return function


def arrays(*shape, count=2):
    random = np.random.default_rng(3)
    return [hiprt.array(random.normal(size=shape).astype(np.float32)) for _ in range(count)]


def same(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and a.numpy().tobytes() == b.numpy().tobytes()


def compiled_and_eager(counted, given):
    """Return whether layers of an op give the same bits compiled and eagerly, and the calls of the recording."""
    function = layers(counted.op)
    exact = function(*given)
    counted.calls = 0
    compiled = hiprt.compile(function)
    made = compiled(*given)
    return same(made, exact), counted.calls, compiled


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: kernels.add(x, y),
        lambda x, y: kernels.matmul(kernels.softmax(x), y),
        lambda x, y: kernels.matmul(x.T, y[:, ::-1]),
        lambda x, y: kernels.add(x[::-1], y[0]),
        lambda x, y: kernels.contiguous(kernels.rms_norm(x, None, 1e-5)).reshape(8, 8),
    ],
)
def test_calls_of_one_form_call_the_op_once(function):
    counted = Counted(function)
    is_same, calls, compiled = compiled_and_eager(counted, arrays(8, 8))
    assert is_same
    assert calls < LAYERS / 2
    assert compiled.steps[0].nodes >= LAYERS


def test_one_array_given_twice_is_another_call():
    def function(x, y):
        return kernels.subtract(
            kernels.subtract(x, x), kernels.subtract(kernels.subtract(x, y), kernels.subtract(y, x))
        )

    given = arrays(3, 5)
    assert same(hiprt.compile(function)(*given), function(*given))


def test_operands_that_are_views_of_one_buffer():
    whole = arrays(4, 6, count=1)[0]
    counted = Counted(lambda x, y: kernels.subtract(kernels.multiply(y[::-1], 0.5), x.reshape(2, 3)))

    def function(x):
        a, b = x[:2, :3], x[2:, 3:]
        first, second = counted.op(kernels.contiguous(a), b), counted.op(kernels.contiguous(b), a)
        return counted.op(first, a), counted.op(second, b), counted.op(kernels.contiguous(a), b)

    for made, exact in zip(hiprt.compile(function)(whole), function(whole)):
        assert same(made, exact)


def test_an_op_that_writes_an_operand_is_called_each_time():
    def function(x, y):
        made = kernels.add(x, y)
        for _ in range(4):
            kernels.add(made, y, out=made)
        return made

    given = arrays(4, 4)
    assert same(hiprt.compile(function)(*given), function(*given))
    overlapping = hiprt.compile(lambda x, y: kernels.add(x, 1.0, out=y))
    base = hiprt.array(np.arange(12, dtype=np.float32))
    overlapping(base[:4], base[8:])
    with pytest.raises(ValueError, match="overlap"):
        overlapping(base[0:4], base[2:6])


def test_an_op_that_does_more_than_launch_is_called_each_time():
    counted = Counted(lambda x, y: kernels.add(kernels.add(hiprt.zeros(x.shape), x), y))
    is_same, calls, _ = compiled_and_eager(counted, arrays(4, 4))
    assert is_same
    assert calls == LAYERS


def test_parts_of_a_recording_that_is_full():
    function = layers(lambda x, y: kernels.matmul(kernels.softmax(x), y))
    given = arrays(6, 6)
    exact = function(*given)
    with hiprt.flags.override(graph_max_nodes=5):
        for _ in range(3):
            assert same(hiprt.compile(function)(*given), exact)


def test_other_flags_call_the_op_again():
    counted = Counted(kernels.add)
    program = hiprt.compile(layers(counted.op)).record(tuple(arrays(4, 4)), {}, shapeless=False)[0]
    step = hiprt.graphs.Step(program.run, keep=False)
    step(*arrays(4, 4))
    first = counted.calls
    step(*arrays(4, 4))
    assert counted.calls == first
    with hiprt.flags.override(graph_slots=3):
        step(*arrays(4, 4))
    assert counted.calls > first


def test_memory_that_is_neither_an_operand_nor_new_is_not_remembered():
    stranger = hiprt.full((4,), 2.0)

    def check(x):
        recording = recording_on(hiprt.current_stream())
        program = hiprt.compile(lambda a: kernels.add(a, a)).record((x,), {}, shapeless=False)[0]
        with noting(recording) as notes:
            made = kernels.add(x, stranger)
        found.append(notes.issue(program.primitives[0], [x], [made]))
        with noting(recording) as notes:
            made = kernels.add(x, x)
        found.append(notes.issue(program.primitives[0], [x], [made]))
        return made

    found = []
    hiprt.graphs.Step(check, keep=False)(hiprt.full((4,), 1.0))
    assert found[0] is None
    assert found[1] is not None


def test_what_an_op_makes_once_and_keeps():
    """A table that the first call makes, as rope does for each base, is not memory of the call: later calls read it."""
    x = arrays(4, 8, count=1)[0]
    position = hiprt.full((1,), 3, np.int32)

    def function(x):
        for _ in range(LAYERS):
            x = kernels.rope(x, position, base=12345.5)
        return x

    compiled = hiprt.compile(function)
    made = compiled(x)
    assert same(made, function(x))


def test_a_run_outside_of_a_step_calls_every_op():
    counted = Counted(kernels.add)
    given = arrays(4, 4)
    program: Program = hiprt.compile(layers(counted.op)).record(tuple(given), {}, shapeless=False)[0]
    (made,) = program.run(*given)
    assert counted.calls == LAYERS
    assert same(made, layers(kernels.add)(*given))


def test_forms_without_running():
    compiled = hiprt.compile(lambda x: kernels.matmul(x, kernels.contiguous(x.T))[1:], shapeless=True)
    compiled(arrays(4, 5, count=1)[0])
    program = compiled.programs[0]
    assert [each.shape for each in program.forms(arrays(7, 5, count=1))] == [(6, 7)]
    with pytest.raises(ValueError, match=r"\[compile\] .* cannot take the shapes"):
        hiprt.compile(lambda x, y: kernels.add(x, y), shapeless=True).record(tuple(arrays(4, 5)), {}, shapeless=True)[
            0
        ].forms([*arrays(4, 5, count=1), *arrays(3, 5, count=1)])


def test_work_of_other_code_in_between():
    """It fixes addresses, so that what is issued behind it has memory from elsewhere than what was issued before."""

    def function(x, *, stream=None):
        stream, out = stream or hiprt.current_stream(), hiprt.empty(x.shape, x.dtype)
        if stream.written is not None:
            stream.written.append(out)
            return out
        with graphs.capture(reads=[x], writes=[out]):
            foreign.affine(stream.handle, out, x, 3)
        return out

    other, start = op(function), np.arange(300, dtype=np.uint32)

    def work(x, y):
        for _ in range(LAYERS):
            x = kernels.add(other(kernels.add(x, y)), y)
        return x

    compiled, wanted = hiprt.compile(work), start
    for _ in range(LAYERS):
        wanted = (wanted + 1) * np.uint32(3) + np.uint32(2)
    for _ in range(3):
        made = compiled(hiprt.array(start), hiprt.array(np.ones(300, np.uint32)))
        np.testing.assert_array_equal(made.numpy(), wanted)
