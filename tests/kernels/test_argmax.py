"""argmax: ties, NaN, zeros of both signs, infinities, mistakes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import hiprt
from hiprt import kernels
from hiprt.kernels.ops.reduction.argmax import plan_of
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.tuning.table import DEFAULT
from hiprt.kernels.tuning.target import force_generic, target_of


@pytest.mark.parametrize("shape", [(1,), (7,), (8,), (3, 33), (2, 3, 1000), (1, 4099), (2, 31)])
def test_matches_numpy(branch, dtype, shape, normal):
    for seed in range(3):
        x = normal(shape, dtype, seed)
        got = kernels.argmax(hiprt.array(x))
        assert got.dtype == np.int32
        np.testing.assert_array_equal(got.numpy(), reference.argmax(x))


@pytest.mark.parametrize("width", [5, 40, 3000])
def test_lowest_index_wins_ties(branch, dtype, width):
    # Few distinct values: nearly every row has many largest ones.
    x = np.random.default_rng(width).integers(-2, 2, (6, width)).astype(dtype)
    np.testing.assert_array_equal(kernels.argmax(hiprt.array(x)).numpy(), reference.argmax(x))
    np.testing.assert_array_equal(kernels.argmax(hiprt.array(np.zeros_like(x))).numpy(), np.zeros(6, np.int32))


@pytest.mark.parametrize("width", [4096, 4100, 5121, 151936])
def test_rows_that_threadgroups_share(branch, dtype, width):
    x = np.random.default_rng(width).integers(-9, 9, (2, width)).astype(dtype)
    x[1, [width - 1, width // 2, width // 2 - 1]] = 20
    got = kernels.argmax(hiprt.array(x))
    np.testing.assert_array_equal(got.numpy(), [reference.argmax(x)[0], width // 2 - 1])
    x[0, [1024, 4000]] = np.nan
    out = hiprt.empty(2, np.int32)
    assert kernels.argmax(hiprt.array(x), out=out) is out
    assert out.numpy()[0] == 1024
    target = hiprt.zeros((1, width), np.float32)
    with pytest.raises(ValueError, match="out overlaps"):
        kernels.argmax(target, out=target.view(np.int32)[0, :1])


@pytest.mark.parametrize("features", [{"arrivals"}, set()])
def test_the_last_threadgroup_finishes_where_it_can(features, normal):
    """On Metal before 3.2 a threadgroup may not read what others wrote, so that another launch finishes."""
    x = normal((2, 5121), np.dtype(np.float32), 3)
    with force_generic():
        here = hiprt.current_stream()
        target = replace(target_of(here), compute_units=64, features=frozenset(features), table=DEFAULT)
        plan = plan_of("argmax", hiprt.array(x), (2,), 5121, target)
        got = [plan.run(here, None, x=hiprt.array(x)).numpy() for _ in range(2)]
    assert plan.parts == (12, 2)
    assert (plan.choose is None) == bool(features)
    np.testing.assert_array_equal(got, [reference.argmax(x)] * 2)


def test_specials(branch, dtype):
    x = np.full((8, 50), -3.0, dtype)
    x[0, [30, 41]] = np.nan
    x[1, [9, 44]] = [np.inf, np.nan]
    x[2] = -np.inf
    x[3, 3:] = [-0.0, *[0.0] * 46]
    x[4, 20] = np.inf
    x[5, [25, 26]] = [-1.0, -1.0]
    x[6, 49] = -np.nan
    x[7, 48] = 2.0
    got = kernels.argmax(hiprt.array(x)).numpy()
    assert got.tolist() == [30, 44, 0, 3, 20, 25, 49, 48]
    np.testing.assert_array_equal(got, reference.argmax(x))


KINDS = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
KINDS += ["float16", "bfloat16", "float32"]


@pytest.mark.every(3)
@pytest.mark.parametrize("kind", KINDS)
def test_every_dtype(branch, kind):
    dtype = hiprt.bfloat16 if kind == "bfloat16" else np.dtype(kind)
    random = np.random.default_rng(5)
    x = random.integers(-3 if dtype.kind in "if" else 0, 4, (5, 90)).astype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        x[0, 33], x[1, 44], x[2, [50, 60]], x[3] = limits.max, limits.min, limits.max - 1, limits.max
    for op, exact in ((kernels.argmax, np.argmax), (kernels.argmin, np.argmin)):
        np.testing.assert_array_equal(
            op(hiprt.array(x)).numpy(), exact(x if dtype.kind in "biu" else x.astype(float), -1)
        )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_axis_and_strides(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    x = np.random.default_rng(len(shape)).integers(-9, 9, shape).astype(np.float32)
    order = data.draw(st.permutations(range(len(shape))))
    view, host = hiprt.array(x).transpose(*order), x.transpose(order)
    axis = data.draw(st.none() | st.integers(-len(shape), len(shape) - 1))
    keepdims = data.draw(st.booleans())
    for op, exact in ((kernels.argmax, np.argmax), (kernels.argmin, np.argmin)):
        expected = np.asarray(exact(host, axis, keepdims=keepdims))
        got = op(view, axis, keepdims)
        assert got.shape == expected.shape
        np.testing.assert_array_equal(got.numpy(), expected)


def test_specials_of_the_smallest(branch, dtype):
    inf, nan = np.inf, np.nan
    rows = [[1, nan, -inf, nan], [inf, 3, -inf, -inf], [0.0, -0.0, 1, 0], [inf, inf, inf, inf], [5, 4, -nan, 1]]
    got = kernels.argmin(hiprt.array(np.array(rows, dtype)))
    assert got.numpy().tolist() == [1, 2, 0, 0, 2]


def test_more_rows_than_65535():
    x = np.random.default_rng(1).integers(0, 9, (65600, 3)).astype(np.uint8)
    np.testing.assert_array_equal(kernels.argmin(hiprt.array(x)).numpy(), np.argmin(x, -1))


def test_mistakes_are_named(dtype):
    for error, message, wrong in [
        (ValueError, "must not be empty", lambda: kernels.argmax(hiprt.empty((3, 0), dtype))),
        (ValueError, "Invalid axis -1", lambda: kernels.argmax(hiprt.array(np.zeros((), dtype)))),
        (ValueError, "Invalid axis 2", lambda: kernels.argmin(hiprt.zeros((3, 4), dtype), 2)),
        (TypeError, "x is float64", lambda: kernels.argmax(hiprt.zeros(4, np.float64))),
        (TypeError, "out is", lambda: kernels.argmax(hiprt.zeros(4, dtype), out=hiprt.zeros((), np.int64))),
    ]:
        with pytest.raises(error, match=message):
            wrong()
    assert kernels.argmax(hiprt.empty((0, 4), dtype)).shape == (0,)
