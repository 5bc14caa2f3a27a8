"""The C core's Python types: arrays, plans and launches say what is wrong with what they are given."""

import gc
import weakref

import numpy as np
import pytest

import hiprt
from hiprt.array import Array, Form
from hiprt.buffer import Buffer
from hiprt.compiler import compile_source
from hiprt.errors import HipError
from hiprt.graphs import Recording
from hiprt.module import READ, SCALAR, WRITE, Argument, Function, Module
from hiprt.objects import Planned

SOURCE = """
extern "C" __global__ void put(const int* x, int* y, int a, unsigned b, float c, long long d) {
  y[0] = x[0] + a; y[1] = (int)b; y[2] = (int)c; y[3] = (int)d;
}
"""
ONE = (1, 1, 1)


@pytest.fixture
def put(stream):
    """A kernel with a value of each common kind."""
    code, _ = compile_source(SOURCE, "test_objects.hip")
    values = [Argument(name, SCALAR, kind) for name, kind in zip("abcd", ("int32", "uint32", "float32", "int64"))]
    return Function(Module(code), "put", [Argument("x", READ), Argument("y", WRITE), *values])


def pair():
    """What `put` reads, and what it writes."""
    return hiprt.array(np.array([5], np.int32)), hiprt.zeros(4, np.int32)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((-1, 0, 2.5, -7), [4, 0, 2, -7]),
        ((2**31 - 6, 7, 3, 2**31 - 1), [2**31 - 1, 7, 3, 2**31 - 1]),
        ((np.int64(3), np.uint8(4), np.float64(5), True), [8, 4, 5, 1]),
    ],
)
def test_values(stream, put, values, expected):
    """Values reach the kernel, of whatever type Python has them in."""
    x, y = pair()
    put.launch(stream, ONE, ONE, x, y, *values)
    assert y.numpy().tolist() == expected


def test_sizes_of_numpy(stream, put):
    """The sizes of a launch may be any integers that Python takes as an index."""
    x, y = pair()
    put.launch(stream, (np.int64(1), np.uint8(1), True), (np.int32(1), 1, 1), x, y, 1, 2, 3.0, 4)
    assert y.numpy().tolist() == [6, 2, 3, 4]


def test_sizes_are_read_again_where_they_may_have_changed(stream, put):
    """A tuple that comes again is read once, but for numbers that are none yet, and other tuples in its place."""

    class Growing:
        size = 0

        def __index__(self):
            self.size += 1
            return self.size

    x, y, growing = hiprt.zeros(4, "int32"), hiprt.zeros(4, "int32"), (Growing(), 1, 1)
    recording = Recording()
    with recording.record(stream):
        for grid, block in [(growing, ONE), (growing, ONE), ((5, 2, 3), (4, 2, 1)), ((6, 1, 1), (4, 2, 1)), (ONE, ONE)]:
            put(stream, grid, block, x, y, 1, 2, 3.0, 4)
        for length in range(2, 5):
            put(stream, (length, 1, 1), (length, 1, 1), x, y, 1, 2, 3.0, 4)  # which may lie where the one before did
    grids = [node.grid for node in recording.nodes()]
    assert grids == [ONE, (2, 1, 1), (5, 2, 3), (6, 1, 1), ONE, (2, 1, 1), (3, 1, 1), (4, 1, 1)]
    assert [node.block for node in recording.nodes()][1:5] == [ONE, (4, 2, 1), (4, 2, 1), ONE]
    with pytest.raises(ValueError, match="three sizes"):
        put(stream, ONE, growing[:2], x, y, 1, 2, 3.0, 4)


@pytest.mark.parametrize(
    ("at", "value", "error", "message"),
    [
        (0, 2**31, ValueError, "put: a=2147483648 does not fit int32"),
        (0, -(2**31) - 1, ValueError, "put: a=-2147483649 does not fit int32"),
        (0, np.int64(2**31), ValueError, "put: a=.*2147483648.* does not fit int32"),
        (0, 1.5, TypeError, r"put: a is 1.5 \(float\); a int32 is passed by value"),
        (1, -1, ValueError, "put: b=-1 does not fit uint32"),
        (1, 2**32, ValueError, "put: b=4294967296 does not fit uint32"),
        (2, 1e39, ValueError, r"put: c=1e\+39 does not fit float32"),
        (2, "1", TypeError, r"put: c is '1' \(str\); a float32 is passed by value"),
        (2, np.ones(2), TypeError, "put: c is a numpy array of float64; a float32 is passed by value"),
        (3, 2**63, ValueError, "put: d=9223372036854775808 does not fit int64"),
    ],
)
def test_values_that_do_not_fit(stream, put, at, value, error, message):
    """A value that the argument cannot hold is refused by the argument's name, and nothing runs."""
    x, y = pair()
    values = [1, 1, 1.0, 1]
    values[at] = value
    with pytest.raises(error, match=message):
        put.launch(stream, ONE, ONE, x, y, *values)
    assert not y.numpy().any()


@pytest.mark.parametrize(
    ("grid", "block", "shared", "error"),
    [
        ((1, 1), ONE, 0, ValueError),
        ((1, -1, 1), ONE, 0, ValueError),
        (ONE, (1, 0, 1), 0, ValueError),
        (ONE, ONE, -1, ValueError),
        ([1, 1, 1], ONE, 0, ValueError),
        ((2**32, 1, 1), ONE, 0, ValueError),
    ],
)
def test_sizes_that_are_none(stream, put, grid, block, shared, error):
    """Three sizes each, blocks of at least one thread."""
    with pytest.raises(error, match="three sizes each"):
        put.launch(stream, grid, block, *pair(), 1, 1, 1.0, 1, shared=shared)


def test_declarations_that_mean_nothing():
    """What nobody would look at later is refused at once."""
    with pytest.raises(ValueError, match="x: a buffer is declared without a dtype; hip_kernel checks those of arrays"):
        Argument("x", READ, "float32")
    with pytest.raises(ValueError, match=r"a: 'float' is no dtype of a value; it is one of bool, .*float32"):
        Argument("a", SCALAR, "float")
    with pytest.raises(ValueError, match="a: '' is no dtype of a value"):
        Argument("a", SCALAR)


def test_a_layout_that_c_does_not_have(put):
    """The argument is named."""
    wrong = [Argument("x", READ), Argument("y", SCALAR, "bytes", size=8, alignment=3)]
    with pytest.raises(HipError, match=r"put, argument 1: size 8, alignment 3, access 0; .* a power of two"):
        Function(put.module, "put", wrong)


def test_arguments_that_are_none(stream, put):
    """Too few arguments, numbers for arrays, and what is no stream."""
    x, y = pair()
    with pytest.raises(TypeError, match="6 arguments"):
        put.launch(stream, ONE, ONE, x, y, 1)
    with pytest.raises(TypeError, match=r"put: y is 0 \(int\); a hiprt.Array is needed"):
        put.launch(stream, ONE, ONE, x, 0, 1, 1, 1.0, 1)
    with pytest.raises(TypeError, match=r"put: x is a numpy array of float32; a hiprt.Array is needed"):
        put.launch(stream, ONE, ONE, np.zeros(4, np.float32), y, 1, 1, 1.0, 1)
    with pytest.raises(TypeError, match="not a stream"):
        put.launch(None, ONE, ONE, x, y, 1, 1, 1.0, 1)
    with pytest.raises(TypeError, match="shared"):
        put.launch(stream, ONE, ONE, x, y, 1, 1, 1.0, 1, grid=1)


def test_a_recording_keeps_each_buffer_once(stream, put):
    """Buffers live as long as what recorded them, in every recording that did."""
    x, y = pair()
    known = weakref.ref(x.buffer)
    recordings = [Recording(), Recording()]
    for recording in recordings:
        with recording.record(stream):
            for _ in range(3):
                put.launch(stream, ONE, ONE, x, y, 1, 1, 1.0, 1)
        assert recording.keep == [x.buffer, y.buffer]
    del x, recording
    recordings.pop(0)
    gc.collect()
    assert known() is not None
    recordings[0].run(stream)
    assert y.numpy().tolist() == [6, 1, 1, 1]


def test_forms(stream):
    """Equal arrays have one form; what a plan may depend on makes another."""
    a, b = hiprt.zeros((2, 8)), hiprt.zeros((2, 8))
    assert a.form is b.form
    others = [hiprt.zeros((8, 2)), hiprt.zeros((2, 8), np.int32), a[:, 1:], a.T, a.reshape(16)[1:9]]
    forms = {id(each.form) for each in [a, *others]}
    assert len(forms) == 6
    assert not others[4].form.is_aligned
    assert others[2].form.strides == (8, 1)


def test_plans(stream):
    """A plan is made once for each set of forms, and not remembered when it was refused."""
    made = []

    @Planned
    def plan(x, n):
        made.append((x, n))
        if not isinstance(x, Form):
            raise TypeError("no array")
        return x.size * n

    a = hiprt.zeros((3, 4))
    assert [plan(a, 2), plan(hiprt.zeros((3, 4)), 2), plan(a, 3)] == [24, 24, 36]
    assert made == [(a.form, 2), (a.form, 3)]
    for _ in range(2):
        with pytest.raises(TypeError, match="no array"):
            plan(np.zeros(3), 1)
    assert len(made) == 4
    with pytest.raises(TypeError, match="keyword"):
        plan(x=a)


def test_buffers_give_back_once(stream):
    """What was given for it is called when the last reference goes, and an error in it is a warning."""
    freed = []
    buffer = Buffer(4096, 16, 0, lambda: freed.append(1))
    view = Array(buffer, (4,), np.dtype(np.float32), 4096)
    del buffer
    assert not freed
    del view
    assert freed == [1]

    def fail():
        raise RuntimeError("gone")

    failing = Buffer(4096, 16, 0, fail)
    with pytest.warns(hiprt.errors.HipWarning, match="was not freed: gone"):
        del failing


def test_arrays_refuse_what_is_no_shape(stream):
    """Shapes and strides are tuples of one length, and sizes fit the machine."""
    buffer, kind = Buffer(4096, 16, 0), np.dtype(np.float32)
    with pytest.raises(ValueError, match="differ in length"):
        Array(buffer, (2, 2), kind, 4096, (1,))
    with pytest.raises(TypeError):
        Array(buffer, [2, 2], kind, 4096)
    with pytest.raises(OverflowError):
        Array(buffer, (2**40, 2**40), kind, 4096)
