"""DLPack in both directions: dtypes, strides, read-only memory, versions, hostile capsules, the table for C."""

import contextlib
import ctypes
import dataclasses
import gc
import sys
import threading
import weakref
from typing import ClassVar

import ml_dtypes
import numpy as np
import pytest
from helpers.gate import Gate
from hypothesis import given, settings, strategies as st

import hiprt
from hiprt import dlpack, graphs, kernels, library
from hiprt.allocator.external import external

host = pytest.mark.only("cpu", reason="the device's memory is the host's")
NUMPY = [d for d in dlpack.TYPES if d.isbuiltin == 1]
OTHERS = [d for d in dlpack.TYPES if d.isbuiltin != 1]


class Source:
    """A producer that has its capsule already, and says where its memory is."""

    def __init__(self, capsule, device=(dlpack.CPU, 0)):
        self.capsule, self.device, self.asked = capsule, device, []

    def __dlpack__(self, **asked):
        self.asked.append(asked)
        return self.capsule

    def __dlpack_device__(self):
        return self.device


class Old(Source):
    """A producer from before DLPack 1.0."""

    def __dlpack__(self, *, stream=None):
        return self.capsule


VIEWS = st.tuples(
    st.sampled_from(NUMPY),
    st.sampled_from([(), (0,), (1,), (7,), (3, 4), (2, 0, 3), (2, 3, 4), (1, 5, 1)]),
    st.sampled_from([np.s_[...], np.s_[::-1], np.s_[..., ::2], np.s_[..., ::-3], np.s_[1:], np.s_[None], np.s_[:0]]),
    st.booleans(),
    st.booleans(),
)


@host
@settings(max_examples=200, deadline=None)
@given(VIEWS)
def test_round_trips_with_numpy(drawn):
    """From numpy to an array of ours and back: the same memory, elements, shape, strides, and right to write."""
    dtype, shape, index, is_transposed, is_writable = drawn
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    values = values[index] if values.ndim else values[...]
    values = values.T if is_transposed else values
    values.flags.writeable = is_writable
    x = hiprt.from_dlpack(values)
    assert (x.shape, x.dtype) == (values.shape, values.dtype)
    assert x.buffer.is_readonly is not is_writable
    np.testing.assert_array_equal(x.numpy(), values)
    back = np.from_dlpack(x)
    assert back.flags.writeable is is_writable
    np.testing.assert_array_equal(back, values)
    if values.size:
        assert back.ctypes.data == x.address == values.ctypes.data
    copied = np.from_dlpack(x, copy=True)
    assert copied.flags.writeable
    np.testing.assert_array_equal(copied, values)


@host
@pytest.mark.parametrize("dtype", [*NUMPY, *OTHERS], ids=str)
@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 3), (9, 9)])
def test_every_dtype_in_every_version(stream, dtype, version):
    """Capsules of the old kind for old consumers; those numpy lacks come back to us."""
    x = hiprt.array(np.arange(6).reshape(2, 3).astype(dtype))
    capsule = x.__dlpack__(max_version=version)
    assert f'"{"dltensor_versioned" if version and version[0] else "dltensor"}"' in repr(capsule)
    y = hiprt.from_dlpack(Source(capsule))
    assert (y.dtype, y.address, y.shape, y.strides) == (x.dtype, x.address, (2, 3), (3, 1))


@host
@pytest.mark.parametrize("dtype", OTHERS, ids=str)
def test_what_numpy_does_not_take_is_numpy_s_error(stream, dtype):
    """numpy's own error passes through the capsule's end, and the memory is let go."""
    x = hiprt.zeros(3, dtype)
    buffer = weakref.ref(x.buffer)
    with pytest.raises((BufferError, RuntimeError, TypeError)):
        np.from_dlpack(x)
    del x
    gc.collect()
    assert buffer() is None


@host
def test_memory_that_is_read_only(stream):
    """Launches, copies and assignments that would write it are refused; reading is not, in a step neither."""
    values = np.arange(4, dtype=np.float32)
    values.flags.writeable = False
    x = hiprt.from_dlpack(values)
    assert kernels.add(x, 1).tolist() == [1, 2, 3, 4]
    for write in (
        lambda: kernels.add(x, x, out=x),
        lambda: x.set([0, 0, 0, 0]),
        lambda: x.fill_bytes(0),
        lambda: x.copy_from(hiprt.zeros(4)),
        lambda: x[1:].__setitem__(0, 5),
        lambda: x.__iadd__(1),
        lambda: graphs.Step(lambda: kernels.add(x, 1, out=x), name="write", keep=False)(),
    ):
        with pytest.raises(ValueError, match="read-only"):
            write()
    change = graphs.Step(lambda x: kernels.add(x, 1, out=x), name="change", moves=True)
    for _ in range(3):
        change(hiprt.zeros(4))
    with pytest.raises(ValueError, match="read-only"):
        change(x)
    step = graphs.Step(lambda: x + x, name="read")
    assert [step().tolist() for _ in range(3)] == [[0, 2, 4, 6]] * 3
    assert values.tolist() == [0, 1, 2, 3]
    with pytest.raises(BufferError, match="cannot say"):
        x.__dlpack__()
    assert x.copy().__dlpack__() is not None
    taken = hiprt.from_dlpack(values, copy=True)
    taken += 1
    assert values.tolist() == [0, 1, 2, 3]
    wrapped = hiprt.wrap(taken.address, 4, owner=taken, readonly=True)
    with pytest.raises(ValueError, match="read-only"):
        wrapped.fill_bytes(0)


def test_producers_are_asked_for_the_version_that_is_taken(stream):
    x = hiprt.zeros(3)
    source = Source(x.__dlpack__(max_version=(1, 0)), x.__dlpack_device__())
    hiprt.from_dlpack(source)
    assert source.asked[0]["max_version"] == (1, 3)
    assert hiprt.from_dlpack(Old(x.__dlpack__(), x.__dlpack_device__())).address == x.address


def test_copies_to_the_host_are_marked(stream):
    """`dl_device` asks for the host wherever the array is; a copy says that it is one."""
    x = hiprt.array([1.0, 2.0])
    taken = dlpack.Imported.from_capsule(x.__dlpack__(dl_device=(dlpack.CPU, 0), copy=True, max_version=(1, 0)))
    assert taken.flags == dlpack.COPIED
    assert taken.device == (dlpack.CPU, 0)
    assert taken.address != x.address
    with pytest.raises(BufferError, match="cannot be shared"):
        x.__dlpack__(dl_device=(dlpack.METAL, 3))


def test_exports_of_a_step_that_records_are_made_behind_what_it_launched(stream):
    x, seen = hiprt.zeros(3), []

    def token():
        y = x + 1
        seen.append(hiprt.from_dlpack(y).tolist())
        x[...] = y

    step = graphs.Step(token, name="export")
    for i in range(1, 4):
        step()
        assert seen[-1] == [float(i)] * 3


@contextlib.contextmanager
def written_late():
    """An array that another stream goes on writing for a moment; yields it, and whether that is so still."""
    with hiprt.Stream() as writer:
        x = hiprt.zeros(8, stream=writer)
        gate = Gate(writer)
        gate.shut()
        with hiprt.use_stream(writer):
            x += 1
        later = threading.Timer(0.1, gate.release)
        later.start()
        try:
            yield x, gate
        finally:
            later.join()
            writer.synchronize()


@host
@pytest.mark.parametrize("way", ["capsule", "table", "table, without keeping it"])
def test_the_host_waits_for_the_stream_that_wrote_an_array(stream, table, way):
    """G13: what another library is given is what the last stream has written, whatever stream this thread has."""
    with written_late() as (x, gate):
        assert gate.is_closed
        out, tensor = ctypes.c_void_p(), dlpack.Tensor()
        if way == "capsule":
            given = x.__dlpack__()
            address = dlpack.Imported.from_capsule(given).address
        elif way == "table":
            assert table.from_object(x, ctypes.addressof(out)) == 0
            address = taken(out.value).address
        else:
            assert table.describe(x, ctypes.addressof(tensor)) == 0
            address = tensor.data
        assert not gate.is_closed
        assert list((ctypes.c_float * 8).from_address(address)) == [1.0] * 8


def test_the_stream_of_the_cuda_array_interface_waits_for_the_one_that_wrote(stream, as_gpu):
    """G13: a consumer waits for the stream that the interface names, and for no other."""
    with written_late() as (x, gate):
        named = x.__cuda_array_interface__["stream"]
        assert named == stream.raw
        assert gate.is_closed
        stream.synchronize()
        assert not gate.is_closed


# Hostile and broken producers.

new_capsule = dlpack.capsule_call("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class Held:
    """A tensor of the test's own, with a count of its deleter's calls."""

    # A consumer lets go when its work is done, which may be after the test.
    all: ClassVar = []

    def __init__(self, *, versioned=True, version=(1, 0), flags=0, deleter=True, **fields):
        self.all.append(self)
        self.data = (ctypes.c_float * 8)(*range(8))
        self.calls = []
        self.deleter = dlpack.Deleter(self.calls.append)
        given = {"data": ctypes.addressof(self.data), "device_type": 1, "device": 0, "ndim": 1, "code": 2, "bits": 32,
                 "lanes": 1, "shape": (8,), "strides": None, "byte_offset": 0} | fields  # fmt: skip
        self.keep = []
        for name in ("shape", "strides"):
            if given[name] is not None:
                self.keep.append((ctypes.c_int64 * max(len(given[name]), 1))(*given[name]))
                given[name] = ctypes.cast(self.keep[-1], ctypes.POINTER(ctypes.c_int64))
        tensor = dlpack.Tensor(**given)
        free = ctypes.cast(self.deleter, ctypes.c_void_p) if deleter else None
        if versioned:
            self.held = dlpack.Versioned(*version, None, free, flags, tensor)
        else:
            self.held = dlpack.Legacy(tensor, None, free)
        self.name = b"dltensor_versioned" if versioned else b"dltensor"
        self.capsule = new_capsule(ctypes.addressof(self.held), self.name, None)


@host
@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("deleter", [True, False])
def test_a_tensor_of_another_library_is_taken_and_let_go_once(stream, versioned, deleter):
    held = Held(versioned=versioned, deleter=deleter)
    x = hiprt.from_dlpack(Source(held.capsule))
    assert x.tolist() == list(range(8))
    assert not held.calls
    with pytest.raises(BufferError, match="has been used already"):
        hiprt.from_dlpack(Source(held.capsule))
    del x
    stream.synchronize()
    external.trim()
    assert held.calls == [ctypes.addressof(held.held)] * deleter


WRONG = {
    "another major version": {"version": (2, 0)},
    "version 0": {"version": (0, 8)},
    "negative ndim": {"ndim": -1},
    "too many axes": {"ndim": 65, "shape": (1,) * 65},
    "ndim without end": {"ndim": 2**31 - 1},
    "no shape": {"shape": None},
    "negative size": {"shape": (-8,)},
    "huge size": {"shape": (2**62,)},
    "sizes whose product overflows": {"ndim": 3, "shape": (2**40, 2**40, 2**40)},
    "strides that leave memory": {"strides": (2**61,)},
    "strides that go below 0": {"strides": (-(2**61),)},
    "no data": {"data": None},
    "an address that no element has": {"byte_offset": 2},
    "an offset past all memory": {"byte_offset": 2**64 - 4},
    "vectors": {"lanes": 4},
    "no lanes": {"lanes": 0},
    "an unknown code": {"code": 77},
    "a width that no dtype has": {"bits": 24},
    "elements smaller than a byte": {"code": 0, "bits": 4},
    "another device than it said": {"device_type": 2},
}


@host
@pytest.mark.parametrize("what", WRONG)
def test_tensors_that_describe_no_array_are_refused_and_let_go(stream, what):
    held = Held(**WRONG[what])
    with pytest.raises(BufferError):
        hiprt.from_dlpack(Source(held.capsule))
    gc.collect()
    assert held.calls == [ctypes.addressof(held.held)]


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "ndim": st.integers(-3, 70),
        "shape": st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 4), min_size=70, max_size=70),
        "strides": st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2), min_size=70, max_size=70),
        "byte_offset": st.integers(0, 2**64 - 1) | st.sampled_from([0, 4, 8]),
        "code": st.integers(0, 20),
        "bits": st.integers(0, 255) | st.sampled_from([8, 16, 32, 64]),
        "lanes": st.integers(0, 3),
    },
)


@host
@settings(max_examples=300, deadline=None)
@given(FIELDS, st.booleans())
def test_any_fields_give_an_array_within_memory_or_an_error(fields, versioned):
    """Nothing is read through them here: what they describe may lie anywhere."""
    held = Held(versioned=versioned, **({"shape": (8,) * 70} | fields))
    x = None
    with contextlib.suppress(BufferError):
        x = hiprt.from_dlpack(Source(held.capsule))
    if x is None:
        assert len(held.calls) == 1
    else:
        assert 0 <= x.extent[0] <= x.extent[1] < 2**63
        assert x.ndim <= 64


OTHER_NAME = b"something_else"  # a capsule borrows its name


@host
@pytest.mark.parametrize(
    "given",
    [None, 3, "capsule", object(), new_capsule(1 << 20, OTHER_NAME, None)],
    ids=["none", "number", "text", "object", "capsule"],  # processes that share the tests must name them alike
)
def test_what_is_no_capsule_is_refused(stream, given):
    with pytest.raises(BufferError, match="no capsule of DLPack"):
        hiprt.from_dlpack(Source(given))


def test_addresses_outside_of_memory_are_refused():
    for address, shape, strides in [
        (-4, 3, None),
        (2**63, 3, None),
        (4096, 3, (2**62,)),
        (4096, (-3,), None),
        (0, 3, ()),
    ]:
        with pytest.raises(ValueError, match="shape"):
            hiprt.wrap(address, shape, strides=strides)


@host
def test_a_capsule_ends_while_an_error_is_on_its_way(stream):
    """Its end calls Python, which must not see the error, and must not lose it."""
    x = hiprt.zeros(3)
    count = sys.getrefcount(x)

    def fail():
        kept = [x.__dlpack__(), x.__dlpack__(max_version=(1, 0))]
        raise KeyError(str(len(kept)))

    with pytest.raises(KeyError, match="2"):
        fail()
    gc.collect()
    assert sys.getrefcount(x) == count


# The table for extension modules.


class Table(ctypes.Structure):
    """DLPackExchangeAPI."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        (
            "allocate",
            ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
        ),
        ("from_object", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)),
        ("to_object", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("describe", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)),
        ("stream", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)),
    )


@pytest.fixture
def table():
    """The functions that an extension module finds on the type."""
    pointer = dlpack.get_pointer(type(hiprt.zeros(1)).__dlpack_c_exchange_api__, b"dlpack_exchange_api")
    return Table.from_address(pointer)


def test_the_table_is_of_version_1_3(table):
    assert (table.major, table.minor, table.previous) == (1, 3, None)


def taken(pointer):
    """The tensor at an address, which this object owns."""
    return dlpack.Imported(pointer, True)


@host
def test_the_table_gives_and_takes_arrays(stream, table):
    x = hiprt.array(np.arange(12, dtype=np.float32).reshape(3, 4))[::2, ::-1]
    out = ctypes.c_void_p()
    assert table.from_object(x, ctypes.addressof(out)) == 0
    given = taken(out.value)
    assert (given.address, given.shape, given.strides, given.dtype) == (x.address, x.shape, x.strides, x.dtype)
    held = Held()
    made = ctypes.c_void_p()
    assert table.to_object(ctypes.addressof(held.held), ctypes.addressof(made)) == 0
    y = ctypes.cast(made, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(y))
    assert y.tolist() == list(range(8))
    tensor = dlpack.Tensor()
    for _ in range(2):
        assert table.describe(x, ctypes.addressof(tensor)) == 0
        assert (tensor.data, tensor.shape[:2], tensor.strides[:2]) == (x.address, [2, 4], [8, -1])
        assert (tensor.code, tensor.bits, tensor.lanes, tensor.ndim) == (2, 32, 1, 2)


@host
def test_the_table_reports_errors_as_python_does(stream, table):
    out = ctypes.c_void_p()
    with pytest.raises(TypeError, match=r"not a hiprt\.Array"):
        table.from_object("text", ctypes.addressof(out))
    with pytest.raises(TypeError, match=r"not a hiprt\.Array"):
        table.describe(3, ctypes.addressof(dlpack.Tensor()))
    with pytest.raises(BufferError, match="no type for complex256"):
        table.from_object(hiprt.zeros(2, np.complex256), ctypes.addressof(out))
    held = Held(version=(2, 0))
    with pytest.raises(BufferError, match=r"DLPack 2\.0"):
        table.to_object(ctypes.addressof(held.held), ctypes.addressof(out))
    assert len(held.calls) == 1
    with pytest.raises(BufferError, match="this thread works on"):
        table.stream(dlpack.METAL, 0, ctypes.addressof(out))


@host
def test_the_table_allocates(stream, table):
    shape = (ctypes.c_int64 * 2)(3, 5)
    wanted = dlpack.Tensor(None, 1, 0, 2, 4, 16, 1, ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)), None, 0)
    out, said = ctypes.c_void_p(), []
    report = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)(
        lambda _, *why: said.append(why)
    )
    how = ctypes.addressof(wanted), ctypes.addressof(out), None, ctypes.cast(report, ctypes.c_void_p)
    assert table.allocate(*how) == 0
    assert (taken(out.value).shape, said) == ((3, 5), [])
    wanted.device_type = 2
    assert table.allocate(*how) == -1
    assert said[0][0] == b"BufferError"
    assert b"this thread's" in said[0][1]


def test_the_table_tells_the_stream(stream, table):
    out = ctypes.c_void_p(1)
    kind, index = hiprt.zeros(1).__dlpack_device__()
    assert table.stream(kind, index, ctypes.addressof(out)) == 0
    assert (out.value or 0) == (0 if kind == dlpack.CPU else stream.handle)


# The CUDA array interface.


@pytest.fixture
def as_gpu(monkeypatch):
    """Arrays as they are where the provider is a GPU's."""
    chosen = library.current()
    provider = dataclasses.replace(chosen.provider, has_cuda_interface=True)
    monkeypatch.setattr(library, "current", lambda: dataclasses.replace(chosen, provider=provider))


@host
def test_arrays_of_the_host_have_no_cuda_array_interface(stream):
    x = hiprt.zeros(3)
    assert not hasattr(x, "__cuda_array_interface__")
    with pytest.raises(AttributeError, match=r"use np\.asarray"):
        x.__cuda_array_interface__  # noqa: B018


class Cuda:
    """An array of a library that has only the CUDA array interface."""

    def __init__(self, **interface):
        self.__cuda_array_interface__ = interface


def test_the_cuda_array_interface_of_an_array(stream, as_gpu):
    x = hiprt.array(np.arange(12, dtype=np.float32).reshape(3, 4))
    interface = x.__cuda_array_interface__
    assert interface == {
        "version": 3, "shape": (3, 4), "typestr": "<f4", "data": (x.address, False), "strides": None,
        "stream": stream.raw or 1,
    }  # fmt: skip
    assert x.T.__cuda_array_interface__["strides"] == (4, 16)
    assert hiprt.zeros((0, 3)).__cuda_array_interface__["data"] == (0, False)
    assert not hasattr(hiprt.zeros(3, "bfloat16"), "__cuda_array_interface__")


@pytest.mark.parametrize("index", [np.s_[...], np.s_[::-1], np.s_[:, ::2], np.s_[:0]])
def test_arrays_with_a_cuda_array_interface_are_shared(stream, as_gpu, index):
    x = hiprt.array(np.arange(12, dtype=np.float32).reshape(3, 4))[index]
    owner = Cuda(**x.__cuda_array_interface__)
    y = hiprt.asarray(owner)
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    np.testing.assert_array_equal(y.numpy(), x.numpy())
    if x.size:
        assert y.address == x.address
    alive = weakref.ref(owner)
    del owner
    assert alive() is not None


def test_wrong_cuda_array_interfaces_are_refused(stream, as_gpu):
    right = hiprt.zeros(4).__cuda_array_interface__
    for wrong in ({"mask": object()}, {"typestr": "<V2"}, {"typestr": ">f4"}, {"strides": (3,)}):
        with pytest.raises(BufferError):
            hiprt.asarray(Cuda(**right | wrong))
    fixed = hiprt.asarray(Cuda(**right | {"data": (right["data"][0], True), "stream": None}))
    with pytest.raises(ValueError, match="read-only"):
        fixed.fill_bytes(0)


def test_asarray_takes_everything(stream):
    x = hiprt.array([1.0, 2.0])
    assert hiprt.asarray(x) is x
    assert hiprt.asarray(x, np.float16).dtype == np.float16
    values = np.array([1.0, 2.0], np.float32)
    y = hiprt.asarray(values)
    values[:] = 0
    assert y.tolist() == [1.0, 2.0]
    assert hiprt.asarray([1, 2], np.float32).tolist() == [1.0, 2.0]
    assert hiprt.asarray(ml_dtypes.bfloat16(3)).item() == 3.0


def test_streams_are_passed_by_protocol(stream):
    assert stream.__cuda_stream__() == (0, stream.handle)
