"""add: rounding, views, aliasing, mistakes."""

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.kernels.reference import ops as reference


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (1, 257), (2, 3, 1024), (16385,), (40000,)])
def test_matches_the_reference(branch, dtype, shape, normal, close):
    a, b = normal(shape, dtype, 1), normal(shape, dtype, 2)
    close(kernels.add(hiprt.array(a), hiprt.array(b)), reference.add(a, b), steps=1)


def test_rounds_to_nearest_even(branch, dtype):
    # Halfway between neighbours: 1 + ulp/2 goes down to even, (1 + ulp) + ulp/2 up to even.
    ulp = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23}[dtype.name]
    a = np.array([1.0, 1.0 + ulp] * 8, dtype)
    b = np.full(16, ulp / 2, dtype)
    got = kernels.add(hiprt.array(a), hiprt.array(b)).numpy().astype(np.float64)
    assert got.tolist() == [1.0, 1.0 + 2 * ulp] * 8


def test_specials(branch, dtype):
    a = np.array([np.inf, -np.inf, np.nan, -0.0, 1.0] * 3, dtype)
    b = np.array([1.0, np.inf, 0.0, -0.0, np.nan] * 3, dtype)
    got = kernels.add(hiprt.array(a), hiprt.array(b)).numpy().astype(np.float32)
    np.testing.assert_array_equal(got, np.array([np.inf, np.nan, np.nan, -0.0, np.nan] * 3, np.float32))
    assert np.signbit(got[3])


def test_views_that_are_not_aligned(branch, dtype, normal, close):
    a, b = normal(1001, dtype, 3), normal(1001, dtype, 4)
    whole = hiprt.array(a)
    close(kernels.add(whole[1:], hiprt.array(b)[:-1]), reference.add(a[1:], b[:-1]), steps=1)


def test_in_place(branch, dtype, normal, close):
    a, b = normal(777, dtype, 5), normal(777, dtype, 6)
    x = hiprt.array(a)
    assert kernels.add(x, hiprt.array(b), out=x) is x
    close(x, reference.add(a, b), steps=1)


def test_nothing_to_add(branch, dtype):
    x = hiprt.empty((0, 4), dtype)
    assert kernels.add(x, x).shape == (0, 4)


def test_what_the_packed_kernel_does_not_take(dtype, normal, close):
    a, b = normal((4, 6), dtype, 7), normal(6, dtype, 8)
    close(kernels.add(hiprt.array(a), hiprt.array(b)), reference.add(a, b), steps=1)
    close(kernels.add(hiprt.array(a).T, hiprt.array(a).T), reference.add(a.T, a.T), steps=1)
    assert kernels.add(hiprt.array(a), hiprt.zeros(6, np.int32)).dtype == dtype


def test_mistakes_are_named(dtype):
    x = hiprt.array(np.zeros((4, 6), dtype))
    other = hiprt.array(np.zeros((4, 6), hiprt.bfloat16 if dtype == np.float32 else np.float32))
    line = hiprt.array(np.zeros(64, dtype))
    for error, message, wrong in [
        (TypeError, "not a hiprt.Array", lambda: kernels.add(x, np.zeros((4, 6), dtype))),
        (ValueError, "cannot be broadcast", lambda: kernels.add(x, x.reshape(6, 4))),
        (ValueError, "out has shape", lambda: kernels.add(x, x, out=x.reshape(24))),
        (TypeError, "out is", lambda: kernels.add(x, x, out=other)),
        (ValueError, "out overlaps", lambda: kernels.add(line[:32], line[:32], out=line[1:33])),
    ]:
        with pytest.raises(error, match=message):
            wrong()
