"""External memory: pointers and DLPack, alive until the last launch that used them is done."""

import gc
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest
from helpers.gate import Gate
from helpers.kernels import accumulate, mix, scale

import hiprt
from hiprt import dlpack, graphs
from hiprt.allocator import external
from hiprt.buffer import hip_malloc, set_adopter

DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "int64", "uint16", "bool", "complex64"]
host = pytest.mark.only("cpu", reason="numpy's memory is the device's only there")


class Owner:
    """Owns memory of the device."""

    def __init__(self, stream, nbytes=4000):
        self.buffer = hip_malloc(nbytes, stream)
        self.address = self.buffer.address


def wrapped(stream, size=1000):
    """An array of ones in memory of an owner of its own, and a weak reference to the owner."""
    owner = Owner(stream, 4 * size)
    x = hiprt.wrap(owner.address, size, owner=owner, stream=stream)
    x.set(np.ones(size, np.float32))
    return x, weakref.ref(owner)


def test_owner_goes_when_the_last_launch_is_done(stream):
    """Not when the array goes, while work that uses it is held back."""
    (x, owner), gate = wrapped(stream), Gate(stream)
    scale(x, 2.0)  # a driver that loads the kernel's code first may wait for the device to be idle
    gate.shut()
    y = scale(x, 3.0)
    del x
    gc.collect()
    assert owner() is not None
    assert external.stats().retiring == 4000
    gate.open()
    external.trim()
    assert owner() is None
    assert (y.numpy() == 3.0).all()
    assert external.stats().allocated == external.stats().reserved == 0
    gate.close()


def test_views_keep_the_owner(stream):
    """As they keep any buffer."""
    x, owner = wrapped(stream)
    view = x.reshape(10, 100).T[5:7]
    del x
    external.trim()
    assert owner() is not None
    assert (view.numpy() == 1.0).all()
    del view
    external.trim()
    assert owner() is None


def test_next_drop_looks_after_earlier_ones(stream):
    """Owners of idle memory do not wait for a trim."""
    x, owner = wrapped(stream)
    gate = Gate(stream)
    gate.shut()
    del x
    gate.open()
    x, other = wrapped(stream)
    assert owner() is not None
    del x
    assert owner() is None
    external.trim()
    assert other() is None
    gate.close()


@pytest.mark.parametrize("keep", [True, False])
def test_recorded_steps_keep_the_owner(stream, keep):
    """A step that uses it launches right long after the caller has dropped it; with the step the owner goes."""
    x, owner = wrapped(stream)
    total = hiprt.zeros(1000)
    arrays = [x]
    step = graphs.Step(lambda: accumulate(scale(arrays[0], 2.0), total), stream=stream, keep=keep)
    for _ in range(3):
        step()
    if keep:
        arrays.clear()
        del x
        external.trim()
        assert owner() is not None
        step()
    assert (total.numpy() == (8.0 if keep else 6.0)).all()
    arrays.clear()
    x = None
    del step
    gc.collect()
    external.trim()
    assert owner() is None


def test_closed_streams(stream):
    """What a closed stream used goes behind its work."""
    other = hiprt.Stream()
    x, owner = wrapped(other)
    with hiprt.use_stream(other):
        y = scale(x, 2.0)
    other.close()
    del x
    external.trim()
    assert owner() is None
    assert (y.numpy(stream) == 2.0).all()


def test_too_much_is_waited_for(stream):
    """HIPRT_ALLOC_DEFER_MAX_MB: a drop waits for the work when more than that retires (G9)."""
    gate, arrays = Gate(stream), []
    big, owner = wrapped(stream, 1 << 19)
    arrays.append(big)
    del big
    gate.shut()
    with hiprt.flags.override(alloc_defer_max_mb=1):
        thread = threading.Thread(target=arrays.clear)
        thread.start()
        gate.open()
        thread.join()
    assert owner() is None
    gate.close()


def test_work_that_ends_during_a_drop_lets_the_owner_go(stream, monkeypatch):
    """Where it ends behind the first look for idle memory, nothing is waited for, and the owner goes all the same."""
    gate, books = Gate(stream), external
    x, owner = wrapped(stream, 1 << 19)
    settle, give_back = books.settle, books.give_back

    def settled(*args, wait=True, **options):
        if wait:
            gate.release()
        settle(*args, wait=wait, **options)

    def given_back(**options):
        count = give_back(**options)
        gate.open()
        return count

    monkeypatch.setattr(books, "settle", settled)
    monkeypatch.setattr(books, "give_back", given_back)
    gate.shut()
    with hiprt.flags.override(alloc_defer_max_mb=1):
        del x
    assert owner() is None
    gate.close()


def test_without_the_allocator_a_drop_waits(stream):
    """The base alone has no books: the stream is waited for."""
    before = set_adopter(None)
    x, owner = wrapped(stream)
    y = scale(x, 3.0)
    del x
    assert owner() is None
    assert (y.numpy() == 3.0).all()
    set_adopter(before)


@host
@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_takes_arrays(stream, dtype):
    """The same memory, in the state that the stream leaves it in."""
    values = np.arange(24).reshape(4, 6).astype(hiprt.array([0], dtype).dtype)
    x = hiprt.array(values)
    if dtype == "bfloat16":
        capsule = x.__dlpack__()
        assert hiprt.from_dlpack(Capsule(capsule, x)).dtype == ml_dtypes.bfloat16
        return
    got = np.from_dlpack(x)
    assert got.dtype == values.dtype
    assert got.ctypes.data == x.address
    np.testing.assert_array_equal(got, values)
    np.testing.assert_array_equal(np.from_dlpack(x.T[::-1, 1:3]), values.T[::-1, 1:3])


class Capsule:
    """A producer that has its capsule already."""

    def __init__(self, capsule, array):
        self.capsule, self.array = capsule, array

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@host
def test_exports_wait_for_the_stream(stream):
    """The host sees what was launched before."""
    x = hiprt.full(100_000, 1.0)
    for _ in range(20):
        x = scale(x, 1.5)
    np.testing.assert_allclose(np.from_dlpack(x), 1.5**20, rtol=1e-5)


@host
def test_exports_keep_the_memory(stream):
    """Until the consumer lets go; an unused capsule lets go by itself."""
    external.trim()
    x = hiprt.full(100, 7.0)
    buffer = weakref.ref(x.buffer)
    got, view = np.from_dlpack(x), np.from_dlpack(x[::2])
    capsule = x.__dlpack__()
    del x, got
    assert buffer() is not None
    assert (view == 7.0).all()
    del view
    assert buffer() is not None
    del capsule
    assert buffer() is None


@host
def test_copies_and_other_devices(stream):
    """A copy has memory of its own; another GPU is refused."""
    x = hiprt.full(10, 1.0)
    copied = np.from_dlpack(Capsule(x.__dlpack__(copy=True), x))
    x.fill_bytes(0)
    assert (copied == 1.0).all()
    with pytest.raises(BufferError, match="cannot be shared"):
        x.__dlpack__(dl_device=(2, 0))


@host
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bfloat16"])
def test_arrays_take_numpy(stream, dtype):
    """Without a copy, with any strides; what kernels write is in numpy's array."""
    values = np.arange(60).reshape(6, 10).astype(dtype)[::-2, 1::3]
    x = hiprt.from_dlpack(values)
    assert (x.shape, x.dtype, x.address) == (values.shape, values.dtype, values.ctypes.data)
    np.testing.assert_array_equal(x.numpy(), values)


@host
def test_kernels_write_into_numpy(stream):
    """In a recorded step too, which keeps the array alive."""
    values, ones = np.zeros(500, np.float32), hiprt.full(500, 1.0)
    step = graphs.Step(lambda: accumulate(ones, x), stream=stream)
    x = hiprt.from_dlpack(values)
    for _ in range(4):
        step()
    stream.synchronize()
    assert (values == 4.0).all()


@host
def test_refused_imports(stream):
    """Memory of another device, unknown types, capsules that are used up."""
    x = hiprt.full(10, 1.0)

    class Elsewhere(Capsule):
        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(BufferError, match="cannot be used"):
        hiprt.from_dlpack(Elsewhere(x.__dlpack__(), x))
    producer = Capsule(x.__dlpack__(), x)
    hiprt.from_dlpack(producer)
    with pytest.raises(BufferError, match="has been used"):
        hiprt.from_dlpack(producer)
    with pytest.raises(BufferError, match="no dtype for DLPack's code 3, 8 bits"):
        dlpack.dtype_of(3, 8, 1)


def test_empty_and_scalar(stream):
    """Nothing, and one element."""
    empty, one = hiprt.zeros((0, 3)), hiprt.full((), 5.0)
    for x in (empty, one):
        got = hiprt.from_dlpack(x)
        assert got.shape == x.shape
        np.testing.assert_array_equal(got.numpy(), x.numpy())


@host
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_torch(stream, dtype):
    """Both directions, and torch's own bfloat16."""
    torch = pytest.importorskip("torch")
    theirs = torch.arange(12, dtype=getattr(torch, dtype)).reshape(3, 4).T
    ours = hiprt.from_dlpack(theirs)
    assert str(ours.dtype) == dtype
    assert ours.shape == (4, 3)
    np.testing.assert_array_equal(ours.numpy().astype(np.float64), theirs.to(torch.float64).numpy())
    back = torch.from_dlpack(ours)
    assert back.data_ptr() == theirs.data_ptr()
    assert torch.equal(back, theirs)
    mixed = mix(hiprt.full(12, 2.0), hiprt.full(12, 1.0))
    assert torch.equal(torch.from_dlpack(mixed), torch.full((12,), 2.0))
