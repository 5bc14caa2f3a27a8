"""matmul: vectors, matrices, stacks that broadcast, transposed and other views, mistakes."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import hiprt
from hiprt import kernels
from hiprt.kernels.ops.matmul.matmul import tiles_of
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.tuning.target import make_target
from hiprt.provider import CPU, NVIDIA, ROCM


def check(close, got, a, b):
    size = reference.matmul(np.abs(reference.double(a)), np.abs(reference.double(b)))
    close(got, reference.matmul(a, b), magnitude=size, steps=8 + a.shape[-1] / 8)


SHAPES = [((7,), (7,)), ((1, 300), (300, 65)), ((5, 1), (1, 3)), ((3, 17), (17,)), ((9,), (9, 70)), ((2, 0), (0, 3))]
STACKS = [((2, 3, 8), (2, 8, 5)), ((4, 1, 3, 8), (6, 8, 5)), ((3, 8), (2, 8, 5)), ((2, 1, 2, 1, 4), (1, 3, 1, 4, 2))]
STACKS += [((0, 3, 4), (4, 5)), ((2, 2, 3, 4), (2, 1, 4, 5)), ((2, 1, 2, 3, 4), (2, 3, 1, 4, 5))]


@pytest.mark.parametrize(("left", "right"), SHAPES + STACKS)
@pytest.mark.parametrize("turned", [0, 1, 2, 3])
def test_matches_the_reference(branch, dtype, left, right, turned, normal, close):
    a, b = normal(left, dtype, 1), normal(right, dtype, 2)
    x, y = hiprt.array(a), hiprt.array(b)
    if turned & 1 and a.ndim > 1:
        x = hiprt.array(np.swapaxes(a, -1, -2)).transpose(*range(a.ndim - 2), a.ndim - 1, a.ndim - 2)
    if turned & 2 and b.ndim > 1:
        y = hiprt.array(np.swapaxes(b, -1, -2)).transpose(*range(b.ndim - 2), b.ndim - 1, b.ndim - 2)
    check(close, kernels.matmul(x, y), a, b)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(m=st.integers(1, 5), k=st.integers(1, 90), n=st.integers(1, 90), step=st.sampled_from([1, 2, -1]))
def test_any_strides(branch, normal, close, m, k, n, step):
    a, b = normal((m, k), np.float32, 1)[:, ::step], normal((k, n), np.float32, 2)[::step, ::-1]
    x, y = hiprt.array(normal((m, k), np.float32, 1)), hiprt.array(normal((k, n), np.float32, 2))
    check(close, kernels.matmul(x[:, ::step], y[::step, ::-1]), a, b)


TILED = [((9, 64), (64, 72)), ((259, 96), (96, 64)), ((3, 33, 32), (2, 3, 32, 8)), ((2, 17, 160), (160, 136))]


@pytest.mark.parametrize(("left", "right"), TILED)
@pytest.mark.parametrize("turned", [False, True])
def test_tiles_of_many_rows(branch, dtype, left, right, turned, normal, close):
    """Rows and columns that fill no tile, stacks, one step and several; b by rows and by columns."""
    a, b = normal(left, dtype, 1), normal(right, dtype, 2)
    y = hiprt.array(np.swapaxes(b, -1, -2) if turned else b)
    if turned:
        y = y.transpose(*range(b.ndim - 2), b.ndim - 1, b.ndim - 2)
    check(close, kernels.matmul(hiprt.array(a), y), a, b)


def test_which_products_go_by_tiles():
    """Many rows of 16-bit numbers, whole runs and steps, where the table says so."""
    half, one = np.dtype(np.float16), (1, 1)
    on = {name: make_target(name, 20, 32, provider) for name, provider in (("gfx1201", ROCM), ("sm_90", NVIDIA))}
    loops = make_target("hiprt-cpu", 1, 1, CPU)

    def rows(dtype=half, is_dots=False, columns=8, depth=32, lines=9, target=on["gfx1201"]):
        launches = tiles_of(dtype, is_dots, columns, depth, lines, lines, one, one, target)
        return launches and launches[0].template[-1]

    assert [rows(lines=lines) for lines in (0, 8, 9, 255, 256)] == [None, None, 32, 32, 64]
    assert [rows(depth=depth) for depth in (0, 31, 64)] == [None, None, 32]
    assert [rows(columns=9), rows(columns=9, is_dots=True), rows(columns=0)] == [None, 32, None]
    assert [rows(np.dtype(np.float32)), rows(target=on["sm_90"]), rows(target=loops)] == [None] * 3


def test_dtypes_are_promoted(normal, close):
    a, b = normal((2, 8), np.float16, 1), normal((8, 3), np.float32, 2)
    got = kernels.matmul(hiprt.array(a), hiprt.array(b))
    assert got.dtype == np.float32
    check(close, got, a, b)
    assert kernels.matmul(hiprt.array(a), hiprt.zeros((8, 3), np.int32)).dtype == np.float16


def test_more_rows_than_a_grid_has(normal):
    a, b = normal((65600, 2), np.float32, 1), normal((2, 3), np.float32, 2)
    got = kernels.matmul(hiprt.array(a), hiprt.array(b)).numpy()
    np.testing.assert_allclose(got, a @ b, rtol=1e-5, atol=1e-6)


def test_mistakes_are_named():
    x = hiprt.zeros((3, 4))
    for message, wrong in [
        ("Last dimension of first input", lambda: kernels.matmul(x, x)),
        ("Only real floating", lambda: kernels.matmul(hiprt.zeros((2, 2), np.int32), hiprt.zeros((2, 2), np.int32))),
        ("0 dimension", lambda: kernels.matmul(x, x[0, 0])),
        ("cannot be broadcast", lambda: kernels.matmul(hiprt.zeros((2, 3, 4)), hiprt.zeros((3, 4, 3)))),
        ("out overlaps", lambda: kernels.matmul(x, x.T, out=x.reshape(12)[:9].reshape(3, 3))),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()
