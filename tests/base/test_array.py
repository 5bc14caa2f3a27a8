"""Arrays: numpy in and out, views, extents."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import hiprt
from hiprt.array import bfloat16

DTYPES = [np.float32, np.float16, bfloat16, np.int32, np.uint8, np.int64, np.float64, np.bool_]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 0, 3), (2, 3, 4)])
def test_numpy_round_trip(stream, dtype, shape):
    """What goes in comes out."""
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    again = hiprt.array(values).numpy()
    assert again.dtype == values.dtype
    np.testing.assert_array_equal(again, values)


INDICES = st.tuples(
    st.one_of(
        st.integers(-3, 2), st.builds(slice, st.integers(-4, 4), st.integers(-4, 4), st.sampled_from([1, 2, -1]))
    ),
    st.one_of(st.just(Ellipsis), st.just(None), st.builds(slice, st.integers(0, 4), st.integers(0, 5))),
)


@settings(max_examples=60, deadline=None)
@given(INDICES)
def test_views_match_numpy(index):
    """Slicing, None and ... give numpy's elements and shape, and the extent covers exactly what they touch."""
    values = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    array = hiprt.array(values)
    view, expected = array[index], values[index]
    assert view.shape == expected.shape
    np.testing.assert_array_equal(view.numpy(), expected)
    if expected.size:
        low, high = np.lib.array_utils.byte_bounds(expected)
        base = values.__array_interface__["data"][0]
        assert view.extent == (array.address + low - base, array.address + high - base)


def test_transpose_and_reshape(stream):
    """Views share memory; reshape refuses what would need a copy."""
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    array = hiprt.array(values)
    np.testing.assert_array_equal(array.T.numpy(), values.T)
    np.testing.assert_array_equal(array.reshape(3, -1).numpy(), values.reshape(3, 2))
    with pytest.raises(ValueError, match="contiguous"):
        array.T.reshape(6)
    with pytest.raises(ValueError, match="cannot reshape"):
        array.reshape(4, 2)


def test_set_and_copy_from(stream):
    """In-place writes reach every view."""
    array = hiprt.zeros((2, 3))
    array[1].set([1, 2, 3])
    np.testing.assert_array_equal(array.numpy(), [[0, 0, 0], [1, 2, 3]])
    other = hiprt.full((2, 3), 5.0)
    array.copy_from(other)
    np.testing.assert_array_equal(array.numpy(), np.full((2, 3), 5, np.float32))
    with pytest.raises(ValueError, match="set: values of shape"):
        array.set([1, 2])


def test_out_of_range_index_is_an_index_error(stream):
    """As numpy."""
    array = hiprt.zeros((2, 3))
    with pytest.raises(IndexError):
        array[2]
    with pytest.raises(IndexError):
        array[0, 0, 0]


@pytest.mark.parametrize("size", [np.int64(3), np.uint8(3)])
def test_sizes_may_be_scalars_of_numpys(stream, size):
    for made in (hiprt.zeros(size), hiprt.empty((size,)), hiprt.full(size, 1), hiprt.full(1, 2.0).broadcast_to(size)):
        assert made.shape == (3,)
        assert type(made.shape[0]) is int
    x = hiprt.zeros(3)
    assert hiprt.wrap(x.address, size, np.float32, owner=x).shape == (3,)


def test_negative_shape_is_refused(stream):
    """With the shape in the message."""
    with pytest.raises(ValueError, match=r"\(-1,\)"):
        hiprt.empty((-1,))
