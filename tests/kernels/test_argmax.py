"""argmax: ties, NaN, zeros of both signs, infinities, mistakes."""

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.kernels import reference


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


def test_mistakes_are_named(dtype):
    for error, message, wrong in [
        (ValueError, "must not be empty", lambda: kernels.argmax(hiprt.empty((3, 0), dtype))),
        (ValueError, "must not be empty", lambda: kernels.argmax(hiprt.array(np.zeros((), dtype)))),
        (TypeError, "x is int32", lambda: kernels.argmax(hiprt.zeros(4, np.int32))),
        (TypeError, "out is", lambda: kernels.argmax(hiprt.zeros(4, dtype), out=hiprt.zeros((), np.int64))),
    ]:
        with pytest.raises(error, match=message):
            wrong()
    assert kernels.argmax(hiprt.empty((0, 4), dtype)).shape == (0,)
