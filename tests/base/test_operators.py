"""Operators of arrays, against numpy: dtypes, shapes, views, in place, reflected, in recorded steps."""

import operator

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

import hiprt
from hiprt import graphs, kernels

BF16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(d) for d in ("float32", "float16", "int32", "int64", "uint8", "int8", "bool")] + [BF16]
SYMBOLS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
BITS = {"&": operator.and_, "|": operator.or_, "^": operator.xor}
IN_PLACE = {"+": operator.iadd, "-": operator.isub, "*": operator.imul}


def values_of(shape, dtype, seed):
    """Small numbers that every dtype has exactly, none of them 0."""
    random = np.random.default_rng(seed)
    return random.integers(1, 5, shape).astype(dtype)


def expected(function, a, b, dtype):
    """What numpy gives for the operands in the dtype that MLX's rules promote them to."""
    wide = [np.asarray(x).astype(np.float64 if dtype.kind in "fV" else dtype) for x in (a, b)]
    return function(*wide)


def check(got, exact):
    """Compare with room for a rounding to the result's dtype."""
    assert got.shape == exact.shape
    found = got.numpy()
    if found.dtype.kind in "biu":
        np.testing.assert_array_equal(found, exact.astype(found.dtype))
    else:
        digits = 2**-7 if found.dtype == BF16 else 2**-10 if found.dtype == np.float16 else 2e-6
        np.testing.assert_allclose(found.astype(np.float64), exact.astype(np.float64), rtol=digits, atol=1e-6)


@pytest.mark.singles
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("symbol", SYMBOLS)
def test_an_operator_is_numpy_s(stream, symbol, dtype):
    """Of two arrays that broadcast, of an array and a number, of a number and an array."""
    function = SYMBOLS[symbol]
    if dtype == np.bool_ and symbol == "-":
        pytest.skip("numpy has no difference of bools")
    a, b = values_of((3, 1, 4), dtype, 1), values_of((2, 4), dtype, 2)
    x, y = hiprt.array(a), hiprt.array(b)
    check(function(x, y), expected(function, a, b, np.dtype(np.int64) if dtype.kind in "biu" else dtype))
    if dtype != np.bool_:
        check(function(x, 3), expected(function, a, 3, dtype))
        check(function(3, x), expected(function, 3, a, dtype))


@pytest.mark.parametrize("symbol", BITS)
def test_bits(stream, symbol):
    a, b = values_of((7,), np.int32, 1), values_of((7,), np.int32, 2)
    check(BITS[symbol](hiprt.array(a), hiprt.array(b)), BITS[symbol](a, b))
    check(BITS[symbol](hiprt.array(a), 5), BITS[symbol](a, 5))
    check(hiprt.array(a) << 2, a << 2)
    check(hiprt.array(a) >> 1, a >> 1)
    check(~hiprt.array(a), ~a)


def test_unary_operators_and_methods(stream):
    a = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)
    x = hiprt.array(a)
    check(-x, -a)
    check(+x, a)
    check(abs(x), abs(a))
    for name in ("sum", "mean", "max", "min"):
        check(getattr(x, name)(), np.asarray(getattr(a, name)()))
        check(getattr(x, name)(1, keepdims=True), getattr(a, name)(1, keepdims=True))
    check(x.prod(0), a.prod(0))
    assert (x.argmax().item(), x.argmin().item()) == (11, 0)
    assert x.argmax(1).tolist() == [3, 3, 3]
    assert ((x > 4).any().item(), (x > 4).all().item()) == (True, False)
    assert float(x.sum()) == -6.0
    check(x @ x.T, a @ a.T)
    check(np.eye(3, dtype=np.float32) @ x, a)


@pytest.mark.parametrize(
    "number", [np.float32(2.5), np.float16(2.5), np.float64(2.5), np.int64(3), np.bool_(True)], ids=str
)
def test_numbers_of_numpy_adapt_to_the_array_s_dtype(stream, number):
    """As Python's do: a bfloat16 array scaled by a float32 stays bfloat16."""
    x = hiprt.full((2, 3), 2.0, "bfloat16")
    for got in (x * number, number * x):
        assert isinstance(got, hiprt.Array)
        assert got.dtype == BF16
        assert got.tolist() == [[2.0 * float(number)] * 3] * 2


def test_arrays_of_numpy_are_operands_on_either_side(stream):
    x, host = hiprt.array([[1.0, 2.0], [3.0, 4.0]]), np.array([10.0, 20.0])
    for got in (host - x, x - host):
        assert isinstance(got, hiprt.Array)
        assert got.dtype == np.float32
    assert (host - x).tolist() == [[9.0, 18.0], [7.0, 16.0]]
    assert (host > x).tolist() == [[True, True], [True, True]]
    host += x[0]  # numpy's own array stays numpy's
    assert host.tolist() == [11.0, 22.0]
    assert np.sin(x).dtype == np.float32


def test_other_operands_are_python_s_error(stream):
    x = hiprt.array([1.0, 2.0])
    for other in ("text", None, object(), [1, 2], np.array(["a"])):
        with pytest.raises(TypeError):
            x + other
    assert (x == "text") is False
    assert (x != None) is True  # noqa: E711
    with pytest.raises(ValueError, match="cannot be broadcast"):
        operator.eq(x, hiprt.zeros(3))
    with pytest.raises(TypeError, match="float64"):
        hiprt.array(np.zeros(2)) + 1


def test_arrays_are_hashed_by_identity(stream):
    """Comparison by element does not reach sets, keys, or lists that are searched for the array itself."""
    x, y = hiprt.zeros(3), hiprt.zeros(3)
    assert {x: 1, y: 2}[y] == 2
    assert len({x, y, x}) == 2
    assert x in [x, y]
    with pytest.raises(ValueError, match="no single number"):
        bool(x == y)
    assert bool((x == y).all())
    assert 0.0 in x
    assert 1.0 not in x


@pytest.mark.parametrize("symbol", IN_PLACE)
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), BF16, np.dtype(np.int32)], ids=str)
def test_operators_in_place_write_into_the_memory(stream, symbol, dtype):
    a = values_of((4, 6), dtype, 3)
    x = hiprt.array(a)
    view, address = x[::-1, 1::2], x.address
    for other in (2, values_of((6,), dtype, 4)):
        given = hiprt.array(other) if isinstance(other, np.ndarray) else other
        a = expected(SYMBOLS[symbol], a, other, dtype).astype(dtype)
        x = IN_PLACE[symbol](x, given)
        assert x.address == address
        check(x, a)
    a[::-1, 1::2] = expected(SYMBOLS[symbol], a[::-1, 1::2], 2, dtype).astype(dtype)
    view = IN_PLACE[symbol](view, 2)
    check(x, a)
    check(view, a[::-1, 1::2])


def test_operators_in_place_refuse_what_does_not_fit(stream):
    x = hiprt.zeros(3, np.int32)
    with pytest.raises(TypeError, match="does not go into an array of int32"):
        x += 1.5
    with pytest.raises(ValueError, match="does not go into an array of shape"):
        x += hiprt.zeros((2, 3), np.int32)
    y = hiprt.full(3, 1.0, "bfloat16")
    before = y
    y += hiprt.full(3, 0.5)  # a float32 result, in bfloat16
    assert y is before
    assert (y.dtype, y.tolist()) == (BF16, [1.5] * 3)


def test_operators_in_place_of_overlapping_views(stream):
    """As numpy: what is read is what was there before."""
    a = np.arange(12, dtype=np.float32)
    x = hiprt.array(a)
    x[1:] += x[:-1]
    a[1:] += a[:-1]
    check(x, a)
    x *= x
    check(x, a * a)


@pytest.mark.parametrize("dtype", [*DTYPES, np.dtype(np.float64), np.dtype(np.uint64), np.dtype(np.complex64)], ids=str)
def test_assignment(stream, dtype):
    """Numbers, arrays of ours with other dtypes, of numpy's, lists; into views with gaps and reversed."""
    a = np.zeros((4, 6), dtype)
    x = hiprt.array(a)
    own = values_of((6,), dtype, 5)
    for index, value in [
        (np.s_[...], 3),
        (np.s_[1], own),
        (np.s_[::-2], 1),
        (np.s_[:, ::-3], [[1, 0]] * 4),
        (np.s_[2:, 1:3], np.ones((2, 2), np.float64)),
        (np.s_[0, 0], True),
    ]:
        if dtype.kind in "fc" and dtype.itemsize == 8 and not x[index].is_contiguous and not isinstance(value, int):
            continue  # float64 and complex64 have no kernel
        a[index] = value
        try:
            x[index] = value
        except TypeError:
            assert dtype not in kernels.ops.promotion.WORDS
            a[index] = x.numpy()[index]
        np.testing.assert_array_equal(x.numpy(), a)
    x[1] = hiprt.array(own)
    a[1] = own
    x[:, 1] = hiprt.array(own[:4])
    a[:, 1] = own[:4]
    np.testing.assert_array_equal(x.numpy(), a)


def test_assignment_refuses_what_does_not_fit(stream):
    x = hiprt.zeros((2, 3), np.uint8)
    with pytest.raises(ValueError, match="broadcast"):
        x[...] = hiprt.zeros(4, np.uint8)
    with pytest.raises(ValueError, match="broadcast"):
        x[...] = [1, 2]
    with pytest.raises(OverflowError):
        x[...] = 256
    with pytest.raises(OverflowError):
        x[0] = 2**40
    with pytest.raises(TypeError):
        x[0] = object()
    y = hiprt.zeros(2, np.int64)
    y[0] = 2**40
    assert y.tolist() == [2**40, 0]


def test_assignment_of_overlapping_views(stream):
    a = np.arange(10, dtype=np.int32)
    x = hiprt.array(a)
    x[1:] = x[:-1]
    a[1:] = a[:-1].copy()
    x[...] = x[::-1]
    np.testing.assert_array_equal(x.numpy(), a[::-1])


def test_operators_and_assignments_are_recorded(stream):
    """A step of operators is nodes only: nothing is read by the host, nothing splits it."""
    x, y = hiprt.array(np.arange(6, dtype=np.float32)), hiprt.zeros(6)

    def token():
        nonlocal x
        x += 1
        y[...] = (x * 2 - 3) / (x + 1)
        y[::2] = 0.5
        y[1::2] = x[:3]
        return (y > 0.4).sum()

    step = graphs.Step(token, name="operators")
    a = np.arange(6, dtype=np.float32)
    for _ in range(5):
        found = step()
        a += 1
        exact = (a * 2 - 3) / (a + 1)
        exact[::2] = 0.5
        exact[1::2] = a[:3]
        np.testing.assert_allclose(y.numpy(), exact, rtol=1e-6)
        assert found.item() == (exact > 0.4).sum()
    assert step.rungs["eager"] == 0
    assert step.rungs["replay"] >= 3


def test_operators_and_assignments_are_traced(stream):
    """What compile runs is what the function does."""
    x, state = hiprt.array(np.arange(4, dtype=np.float32)), hiprt.zeros(4)

    def function(x):
        y = (x * 2 - 1) / (x + 3)
        y += x
        y[1:3] = 5
        y *= np.float32(2)
        state[...] = state + y
        return y, y > 0.1, -y, y.sum(), x.copy(), y.astype("float16")

    exact = [each.numpy() for each in function(x)]
    total = state.numpy()
    state.fill_bytes(0)
    compiled = hiprt.compile(function)
    for i in range(1, 4):
        for got, wanted in zip(compiled(x), exact, strict=True):
            np.testing.assert_array_equal(got.numpy(), wanted)
        np.testing.assert_allclose(state.numpy(), total * i, rtol=1e-6)


def test_host_reads_within_a_step_split_it_and_are_right(stream):
    """`float()`, `tolist()` and `np.asarray` wait for what was launched before them."""
    x, seen = hiprt.zeros(3), []

    def token():
        y = x + 1
        seen.append((float(y.sum()), y.tolist(), np.asarray(y).sum()))
        x[...] = y

    step = graphs.Step(token, name="reads")
    for i in range(1, 4):
        step()
        assert seen[-1] == (3.0 * i, [float(i)] * 3, 3.0 * i)


def test_numbers_and_lists(stream):
    x = hiprt.array([[1, 2], [3, 4]])
    assert x.tolist() == [[1, 2], [3, 4]]
    assert (int(x[0, 1]), float(x[1, 1]), bool(x[0, 0] - 1), complex(x[1, 0])) == (2, 4.0, False, 3 + 0j)
    assert type(hiprt.full((), 1.5, "bfloat16").item()) is float
    for convert in (int, float, bool):
        with pytest.raises(ValueError, match="no single number"):
            convert(x)
    with pytest.raises(ValueError, match="no single number"):
        hiprt.zeros((0,)).item()
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    with pytest.raises(TypeError, match="0-d"):
        iter(x[0, 0])
    with pytest.raises(TypeError):
        x[x[0, 0] : 1]
    assert x[hiprt.array([1, 0, 1])].tolist() == [[3, 4], [1, 2], [3, 4]]
    with pytest.raises(TypeError, match="not integers"):
        x[x > 2]


def test_copies_have_memory_of_their_own(stream):
    for dtype in (*DTYPES, np.float64, np.complex128):
        a = values_of((3, 4), dtype, 6)
        x = hiprt.array(a)
        copies = [x.copy(), hiprt.array(x)]
        copies.append(x.T.copy().T)
        x.fill_bytes(0)
        for each in copies:
            np.testing.assert_array_equal(each.numpy(), a)
    assert hiprt.array(hiprt.array([1, 2]), "bfloat16").tolist() == [1.0, 2.0]
    same = hiprt.array([1.0])
    assert same.astype(np.float32, copy=False) is same
    assert same.astype(np.float32) is not same
    assert same.astype("float16").dtype == np.float16


def test_broadcast_to(stream):
    x = hiprt.array([1.0, 2.0])
    for view in (x.broadcast_to((3, 2)), kernels.broadcast_to(x, [3, 2])):
        assert (view.address, view.strides, view.tolist()) == (x.address, (0, 1), [[1.0, 2.0]] * 3)
    assert hiprt.array(5.0).broadcast_to(3).tolist() == [5.0] * 3
    with pytest.raises(ValueError, match="cannot be broadcast"):
        x.broadcast_to((3,))


def test_what_is_no_number_is_refused(stream):
    for values in ([object()], "text", ["a"], [None], np.array(["2020-01-01"], "M8[D]"), [b"x"]):
        with pytest.raises((TypeError, ValueError)):
            hiprt.array(values)
    for dtype in (object, "S4", "U2", "M8[s]"):
        with pytest.raises(TypeError, match="device memory holds numbers"):
            hiprt.empty(3, dtype)
    assert hiprt.array([1.5, 2]).dtype == np.float32
    assert hiprt.array([1, 2]).dtype == np.int64
    assert hiprt.array([1.5], np.float64).dtype == np.float64
    assert hiprt.array(np.array([1.5])).dtype == np.float64
    big = hiprt.array(np.arange(3, dtype=">i4"))
    assert (big.dtype.isnative, big.tolist()) == (True, [0, 1, 2])


def test_numpy_takes_arrays_by_the_array_protocol(stream):
    x = hiprt.array(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert np.asarray(x).dtype == np.float32
    assert np.asarray(x.T).tolist() == x.T.tolist()
    assert np.array(x, dtype=np.int64).dtype == np.int64
    assert np.stack([x, x]).shape == (2, 2, 3)
    assert x.__array__(np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="copied to the host"):
        x.__array__(copy=False)


def test_an_array_is_no_number_of_a_launch(stream):
    """It would be read by the host within the launch."""
    kernel = kernels.hip_kernel(
        "__global__ void put(float* out, float v) { out[0] = v; }", "put", {"out": "write float32", "v": "float32"}
    )
    x = hiprt.zeros(1)
    with pytest.raises(TypeError):
        kernel(x, hiprt.array(1.0), grid=1, block=1)
    with pytest.raises(TypeError, match="a number is needed"):
        kernel.bind().launch(stream, (1, 1, 1), (1, 1, 1), x, hiprt.array(1.0))


FEW = [np.dtype(np.float32), BF16, np.dtype(np.int32), np.dtype(np.bool_)]
SHAPES = st.sampled_from([(), (1,), (5,), (3, 5), (1, 5), (3, 1), (2, 3, 5), (0, 5), (2, 1, 1), (2, 0, 5)])
VIEWS = st.sampled_from(["whole", "reversed", "every second", "transposed back", "new axis"])


@st.composite
def programs(draw):
    """A few arrays, and statements on them."""
    arrays = [(draw(SHAPES), draw(st.sampled_from(FEW)), draw(VIEWS)) for _ in range(draw(st.integers(1, 3)))]
    kinds = st.sampled_from([*"+-*><", "==", "+=", "*=", "set", "sum", "-x", "astype"])
    number = st.integers(0, 20)
    steps = draw(st.lists(st.tuples(kinds, number, number, number), min_size=1, max_size=8))
    return arrays, steps


MOST = 2**20  # sums of numbers up to here are exact in float32, in any order


def viewed(x, how):
    """The same view of an array of numpy's and of one of ours."""
    if how == "reversed" and x.ndim:
        return x[::-1]
    if how == "every second" and x.ndim:
        return x[..., ::2]
    if how == "transposed back" and x.ndim > 1:
        return x.T
    return x[None] if how == "new axis" else x


def run(program, device):
    """Run a program on the device, or in numpy, and return all of its arrays, with errors by their type."""
    arrays, steps = program
    found = []
    for i, (shape, dtype, view) in enumerate(arrays):
        values = values_of(shape, dtype, i)
        found.append(viewed(hiprt.array(values) if device else values.copy(), view))
    for kind, i, j, k in steps:
        a, b = found[i % len(found)], found[j % len(found)]
        other = k % 4 if k % 3 == 0 else b
        try:
            if kind in SYMBOLS:
                made = SYMBOLS[kind](a, other)
            elif kind in ("+=", "*="):
                made = IN_PLACE[kind[0]](a, other)
            elif kind == "set":
                a[...] = other
                continue
            elif kind == "sum":
                made = a.sum(k % a.ndim if a.ndim else None)
            elif kind == "-x":
                made = -a
            else:
                made = a.astype(np.float32)
            found.append(made if device else np.asarray(made))
        except (TypeError, ValueError, OverflowError) as error:
            found.append(type(error))
            return found
    return found


def exact_part(program):
    """The program up to the statement that makes a number above MOST, which float32 might round."""
    arrays, steps = program
    for n in range(1, len(steps) + 1):
        found = run((arrays, steps[:n]), False)
        if any(x.size and abs(x.astype(np.float64)).max() > MOST for x in found if isinstance(x, np.ndarray)):
            return arrays, steps[: n - 1]
    return program


@pytest.mark.parametrize(("shape", "given_shape"), [((), (1,)), ((), (1, 1)), ((5,), (1, 5)), ((3, 1), (1, 1, 3, 1))])
def test_axes_of_one_element_in_front_are_left_out(shape, given_shape):
    """In assignments alone, as numpy and MLX do; sums have all axes."""
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(given_shape) + 1
    for given_values in (values, hiprt.array(values)):
        x = hiprt.zeros(shape)
        x[...] = given_values
        assert x.numpy().tolist() == values.reshape(shape).tolist()
    with pytest.raises(ValueError, match="broadcast"):
        hiprt.zeros(shape)[...] = hiprt.zeros((2, *given_shape))


@settings(max_examples=100, deadline=None)
@given(programs())
@example(
    (
        [((), np.dtype(np.float32), "whole")],
        [("+=", 0, 0, 1), ("*=", 0, 0, 1), ("*=", 0, 0, 1), ("*", 0, 0, 1), ("+=", 0, 0, 1)],
    )
)
def test_random_programs_give_numpy_s_numbers(program):
    """Of one dtype for all arrays, so that MLX's promotion and numpy's agree; numbers are small enough to be exact."""
    arrays, steps = program
    dtype = np.dtype(np.float32)
    same = [(shape, dtype, view) for shape, _, view in arrays], [s for s in steps if s[0] not in "><" and s[0] != "=="]
    same = exact_part(same)
    for got, exact in zip(run(same, True), run(same, False), strict=True):
        if isinstance(exact, type):
            assert isinstance(got, type)
        else:
            assert got.dtype == dtype
            np.testing.assert_array_equal(np.asarray(got), exact)


@settings(max_examples=100, deadline=None)
@given(programs())
def test_random_programs_are_the_same_recorded(program):
    """Of all dtypes and with comparisons: what a step computes is what the same statements compute without one."""
    eager = run(program, True)
    step = graphs.Step(lambda: run(program, True), name="program", keep=False)
    recorded = step()
    for got, exact in zip(recorded, eager, strict=True):
        if isinstance(exact, type):
            assert got is exact
        else:
            assert (got.shape, got.dtype) == (exact.shape, exact.dtype)
            np.testing.assert_array_equal(got.numpy(), exact.numpy())
