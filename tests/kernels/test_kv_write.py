"""kv_write: one position of every head, nothing else; positions outside; mistakes."""

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.kernels.reference import ops as reference


@pytest.mark.parametrize(("heads", "capacity", "width"), [(1, 1, 1), (3, 5, 7), (8, 17, 128), (2, 4, 300)])
def test_writes_one_position(branch, dtype, heads, capacity, width, normal, int32):
    before, x = normal((heads, capacity, width), dtype, 1), normal((heads, width), dtype, 2)
    for position in {0, capacity // 2, capacity - 1}:
        cache = hiprt.array(before)
        assert kernels.kv_write(cache, hiprt.array(x), int32(position)) is cache
        np.testing.assert_array_equal(cache.numpy(), reference.kv_write(before, x, position))


@pytest.mark.parametrize("position", [-1, 5, 6, 2**31 - 1, -(2**31)])
def test_positions_outside_write_nothing(branch, dtype, position, normal, int32):
    before = normal((2, 5, 8), dtype)
    # A slice of a longer buffer: a write past either end would land in it.
    around = hiprt.array(np.concatenate([before, before, before]))
    kernels.kv_write(around[2:4], hiprt.array(normal((2, 8), dtype, 9)), int32(position))
    np.testing.assert_array_equal(around.numpy(), np.concatenate([before, before, before]))


@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 4, 300)])
def test_rows_of_one_cache(branch, dtype, shape, normal):
    heads, capacity, width = shape
    before, x = normal(shape, dtype, 1), normal((4, heads, width), dtype, 2)
    positions = np.array([capacity - 1, -1, 0, capacity], np.int32)
    cache = hiprt.array(before)
    assert kernels.kv_write(cache, hiprt.array(x), hiprt.array(positions)) is cache
    np.testing.assert_array_equal(cache.numpy(), reference.kv_write(before, x, positions))


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_cache_for_each_row(branch, dtype, rows, normal):
    before, x = normal((rows, 2, 5, 9), dtype, 1), normal((rows, 2, 9), dtype, 2)
    positions = np.array([4, 0, 5][:rows], np.int32)
    cache = hiprt.array(before)
    kernels.kv_write(cache, hiprt.array(x), hiprt.array(positions))
    np.testing.assert_array_equal(cache.numpy(), reference.kv_write(before, x, positions))


def test_mistakes_are_named(dtype, int32):
    cache, x = hiprt.array(np.zeros((2, 5, 8), dtype)), hiprt.array(np.zeros((2, 8), dtype))
    other = hiprt.array(np.zeros((2, 8), hiprt.bfloat16 if dtype == np.float32 else np.float32))
    for error, message, wrong in [
        (ValueError, "3 or 4 axes", lambda: kernels.kv_write(x, x, int32(0))),
        (ValueError, "x has shape", lambda: kernels.kv_write(cache.reshape(1, 2, 5, 8), x, int32(0))),
        (ValueError, "x has shape", lambda: kernels.kv_write(cache.reshape(2, 1, 5, 8), x.reshape(1, 2, 8), int32(0))),
        (ValueError, "x has shape", lambda: kernels.kv_write(cache, x.reshape(4, 4), int32(0))),
        (TypeError, "x is", lambda: kernels.kv_write(cache, other, int32(0))),
        (TypeError, "position is", lambda: kernels.kv_write(cache, x, hiprt.zeros(1, np.uint32))),
        (ValueError, "not contiguous", lambda: kernels.kv_write(cache[:, 1:], x, int32(0))),
    ]:
        with pytest.raises(error, match=message):
            wrong()
