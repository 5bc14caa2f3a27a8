"""Arrays in the hands of other libraries: the buffer protocol, numpy, DLPack with strides."""

import gc
import weakref
import zlib

import numpy as np
import pytest

from hiprt.metal_compat import mlx as mx

DTYPES = {"bool_": "?", "uint8": "B", "int16": "h", "int64": "q", "uint64": "Q", "float16": "e", "float32": "f",
          "complex64": "Zf"}  # fmt: skip


@pytest.mark.parametrize("name", DTYPES)
def test_memoryview(name):
    host = np.arange(12).reshape(3, 4).astype(getattr(mx, name).numpy)
    a = mx.array(host)
    for given, expected in ((a, host), (a.T, host.T), (a[::-1, ::2], host[::-1, ::2]), (a[0, 0], host[0, 0])):
        view = memoryview(given)
        assert (view.shape, view.format, view.readonly) == (expected.shape, DTYPES[name], False)
        np.testing.assert_array_equal(np.array(view, copy=False), expected)
        assert view.tobytes() == expected.tobytes()
    assert bytes(a.T) == host.T.tobytes()


def test_strides_are_those_on_the_device():
    a = mx.zeros((3, 4))
    assert memoryview(a.T).strides == (4, 16)
    assert memoryview(mx.broadcast_to(a, (2, 3, 4))).strides == (0, 16, 4)
    assert not memoryview(a.T).c_contiguous
    assert memoryview(mx.zeros((0, 3))).shape == (0, 3)
    assert zlib.crc32(a) == zlib.crc32(bytes(48))
    with pytest.raises(BufferError, match="order"):
        zlib.crc32(a.T)


def test_a_view_keeps_the_array():
    for view_of in (memoryview, lambda a: np.array(a, copy=False)):
        a = mx.arange(3)
        alive = weakref.ref(a)
        view = view_of(a)
        del a
        gc.collect()
        assert alive() is not None
        assert list(view) == [0, 1, 2]
        del view
        gc.collect()
        assert alive() is None


def test_numpy_copies_unless_told_otherwise():
    a = mx.ones((2, 2))
    copy, view = np.array(a), np.array(a, copy=False)
    assert copy.flags.owndata
    assert copy.flags.writeable
    assert not view.flags.owndata
    assert view.flags.writeable
    view[:] = 5
    assert a.tolist() == [[1, 1], [1, 1]]


def test_what_is_refused():
    b = mx.array([1, 2], mx.bfloat16)
    assert memoryview(b).format == "bfloat16"
    with pytest.raises(ValueError, match="bfloat16"):
        np.array(b)
    assert b.numpy().tolist() == [1, 2]


@pytest.mark.parametrize("cut", [np.s_[:], np.s_[:, ::2], np.s_[1:3, 1]])
@pytest.mark.parametrize("is_turned", [False, True])
def test_from_dlpack_keeps_strides(cut, is_turned):
    host = np.arange(20, dtype=np.int32).reshape(4, 5)
    part = (host.T if is_turned else host)[cut]
    made = mx.from_dlpack(part)
    assert memoryview(made).strides == part.strides
    assert made.tolist() == part.tolist()
    assert (made + 1).tolist() == (part + 1).tolist()
    assert mx.from_dlpack(np.broadcast_to(np.float32(7), (3,))).tolist() == [7, 7, 7]
