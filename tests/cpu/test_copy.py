"""Copies and fills: one, two and three dimensions, their limits, and when the caller's memory is read."""

import ctypes
import threading

import numpy as np
import pytest
from helpers.hip_calls import KIND, E, Gate, error, ok, raw
from hypothesis import given, strategies as st
from rocm.bindings import hip

TYPE = hip.hipMemoryType
TO_DEVICE, TO_HOST, ON_DEVICE = KIND.hipMemcpyHostToDevice, KIND.hipMemcpyDeviceToHost, KIND.hipMemcpyDeviceToDevice


class Bytes:
    """Return device memory as bytes."""

    def __init__(self, content):
        content = np.ascontiguousarray(content).view(np.uint8).reshape(-1)
        self.size = content.size
        self.address = int(ok(hip.hipMalloc(self.size)))
        ok(hip.hipMemcpy(self.address, content, self.size, TO_DEVICE))

    def read(self, dtype=np.uint8):
        out = np.empty(self.size, np.uint8)
        ok(hip.hipMemcpy(out, self.address, self.size, TO_HOST))
        return out.view(dtype)

    def free(self):
        ok(hip.hipFree(self.address))


@pytest.fixture
def device():
    """Device memory of 4096 bytes with known content."""
    memory = Bytes((np.arange(4096) % 251).astype(np.uint8))
    yield memory
    memory.free()


def random_bytes(*shape):
    return np.random.default_rng(int(np.prod(shape))).integers(0, 256, shape, np.uint8)


@given(size=st.integers(0, 4096), source=st.integers(0, 4095), target=st.integers(0, 4095))
def test_a_copy_stays_in_its_allocations(size, source, target):
    content = random_bytes(4096)
    one, two = Bytes(content), Bytes(np.zeros(4096, np.uint8))
    status = error(hip.hipMemcpy(two.address + target, one.address + source, size, ON_DEVICE))
    expected = np.zeros(4096, np.uint8)
    fits = max(source, target) + size <= 4096
    if fits:
        expected[target : target + size] = content[source : source + size]
    assert status == (E.hipSuccess if fits else E.hipErrorInvalidValue)
    assert (two.read() == expected).all()
    one.free()
    two.free()


def test_bad_arguments(device):
    host = np.zeros(16, np.uint8)
    size = ctypes.c_size_t(16)
    assert raw("hipMemcpy", device.address, host.ctypes.data, size, 9) == E.hipErrorInvalidMemcpyDirection
    assert error(hip.hipMemcpy(None, host, 16, TO_DEVICE)) == E.hipErrorInvalidValue
    assert error(hip.hipMemcpy(device.address, None, 16, TO_DEVICE)) == E.hipErrorInvalidValue
    assert error(hip.hipMemcpyPeer(device.address, 0, device.address + 64, 9, 16)) == E.hipErrorInvalidDevice
    assert error(hip.hipMemset(host, 1, 16)) == E.hipErrorInvalidValue
    assert error(hip.hipMemset(device.address, 1, 4097)) == E.hipErrorInvalidValue
    assert error(hip.hipMemsetD32(device.address + 2, 1, 4)) == E.hipErrorInvalidValue
    assert error(hip.hipMemset(None, 1, 4)) == E.hipErrorInvalidValue
    ok(hip.hipMemset(None, 1, 0))


def test_directions_by_name(device):
    host = random_bytes(64)
    back = np.zeros_like(host)
    ok(hip.hipMemcpyHtoD(device.address, host, 64))
    ok(hip.hipMemcpyDtoD(device.address + 64, device.address, 64))
    ok(hip.hipMemcpyDtoH(back, device.address + 64, 64))
    assert (back == host).all()
    ok(hip.hipMemcpyPeer(device.address + 128, 0, device.address, 0, 64))
    assert (device.read()[128:192] == host).all()


@pytest.mark.parametrize("source_kind", ["pageable", "pinned"])
def test_when_an_asynchronous_copy_reads_its_source(device, source_kind):
    """Pageable memory may be changed at once; pinned memory is read when the stream gets there."""
    gate, stream = Gate(), ok(hip.hipStreamCreate())
    pinned = int(ok(hip.hipHostMalloc(64, 0)))
    array = np.zeros(64, np.uint8)
    address = array.ctypes.data if source_kind == "pageable" else pinned
    ctypes.memset(address, 1, 64)
    gate.hold(stream)
    ok(hip.hipMemcpyAsync(device.address, address, 64, TO_DEVICE, stream))
    ctypes.memset(address, 2, 64)
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    assert set(device.read()[:64]) == {1 if source_kind == "pageable" else 2}
    ok(hip.hipHostFree(pinned))


def test_an_asynchronous_copy_to_pageable_memory_is_done_on_return(device):
    stream, out = ok(hip.hipStreamCreate()), np.zeros(4096, np.uint8)
    ok(hip.hipMemsetAsync(device.address, 5, 4096, stream))
    ok(hip.hipMemcpyAsync(out, device.address, 4096, TO_HOST, stream))
    assert (out == 5).all()


def test_a_copy_with_a_stream_is_done_on_return(device):
    stream, pinned = ok(hip.hipStreamCreate()), int(ok(hip.hipHostMalloc(4096, 0)))
    ok(hip.hipMemsetAsync(device.address, 6, 4096, stream))
    ok(hip.hipMemcpyWithStream(pinned, device.address, 4096, TO_HOST, stream))
    assert ctypes.string_at(pinned, 4096) == b"\6" * 4096
    ok(hip.hipHostFree(pinned))


@given(
    width=st.integers(1, 40),
    height=st.integers(1, 6),
    to_pad=st.integers(0, 9),
    from_pad=st.integers(0, 9),
    queue=st.booleans(),
)
def test_two_dimensions(width, height, to_pad, from_pad, queue):
    content = random_bytes(height, width + from_pad)
    device = Bytes(np.zeros((height, width + to_pad), np.uint8))
    args = (device.address, width + to_pad, content, width + from_pad, width, height, TO_DEVICE)
    ok(hip.hipMemcpy2DAsync(*args, None) if queue else hip.hipMemcpy2D(*args))
    expected = np.zeros((height, width + to_pad), np.uint8)
    expected[:, :width] = content[:, :width]
    assert (device.read().reshape(expected.shape) == expected).all()
    back = np.zeros((height, width), np.uint8)
    ok(hip.hipMemcpy2D(back, width, device.address, width + to_pad, width, height, TO_HOST))
    assert (back == content[:, :width]).all()
    device.free()


def test_two_dimensions_have_limits(device):
    host = np.zeros(256 * 17, np.uint8)
    copy = lambda pitch, width, height: error(  # noqa: E731
        hip.hipMemcpy2D(device.address, pitch, host, 256, width, height, TO_DEVICE)
    )
    assert copy(64, 65, 2) == E.hipErrorInvalidPitchValue
    assert copy(256, 256, 16) == E.hipSuccess
    assert copy(256, 256, 17) == E.hipErrorInvalidValue


def fill(struct, **members):
    """Set the members of a struct inside a struct, which cannot be assigned whole."""
    for name, value in members.items():
        setattr(struct, name, value)


@given(
    shape=st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 17)),
    room=st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 5)),
    data=st.data(),
)
def test_three_dimensions(shape, room, data):
    depth, height, width = shape
    full = tuple(n + r for n, r in zip(shape, room, strict=True))
    z, y, x = (data.draw(st.integers(0, r)) for r in room)
    content = random_bytes(*full)
    device = Bytes(np.zeros(shape, np.uint8))
    params = hip.hipMemcpy3DParms()
    fill(params.srcPtr, ptr=content.ctypes.data, pitch=full[2], xsize=full[2], ysize=full[1])
    fill(params.srcPos, x=x, y=y, z=z)
    fill(params.dstPtr, ptr=device.address, pitch=width, xsize=width, ysize=height)
    fill(params.extent, width=width, height=height, depth=depth)
    params.kind = TO_DEVICE
    ok(hip.hipMemcpy3D(params))
    assert (device.read().reshape(shape) == content[z : z + depth, y : y + height, x : x + width]).all()
    device.free()


def test_three_dimensions_in_driver_form(device):
    content = random_bytes(4, 5, 6)
    params = hip.HIP_MEMCPY3D()
    params.srcMemoryType, params.dstMemoryType = TYPE.hipMemoryTypeHost, TYPE.hipMemoryTypeDevice
    params.srcHost, params.dstDevice = content.ctypes.data, device.address
    params.srcPitch, params.srcHeight = 6, 5
    params.srcXInBytes, params.srcY, params.srcZ = 1, 2, 1
    params.WidthInBytes, params.Height, params.Depth = 4, 3, 2
    ok(hip.hipDrvMemcpy3D(params))
    assert (device.read()[:24].reshape(2, 3, 4) == content[1:3, 2:5, 1:5]).all()
    params.WidthInBytes = 6
    assert error(hip.hipDrvMemcpy3D(params)) == E.hipErrorInvalidValue
    params.WidthInBytes, params.srcMemoryType = 4, TYPE.hipMemoryTypeArray
    assert error(hip.hipDrvMemcpy3D(params)) == E.hipErrorInvalidValue  # no array is named


def test_two_dimensions_in_driver_form(device):
    content = random_bytes(4, 8)
    params = hip.hip_Memcpy2D()
    params.srcMemoryType, params.dstMemoryType = TYPE.hipMemoryTypeHost, TYPE.hipMemoryTypeDevice
    params.srcHost, params.dstDevice = content.ctypes.data, device.address
    params.srcPitch, params.dstPitch = 8, 16
    params.WidthInBytes, params.Height = 8, 4
    ok(hip.hipMemcpyParam2D(params))
    assert (device.read()[:64].reshape(4, 16)[:, :8] == content).all()


def test_a_copy_begins_in_the_memory_that_it_names():
    """A place beyond an allocation is refused, although the bytes there may be those of another one."""
    memory, target = Bytes(np.zeros((4, 8), np.uint8)), Bytes(np.zeros((4, 8), np.uint8))
    params = hip.HIP_MEMCPY3D()
    params.srcMemoryType = params.dstMemoryType = TYPE.hipMemoryTypeDevice
    params.srcDevice, params.dstDevice = memory.address, target.address
    params.srcPitch = params.dstPitch = 8
    params.WidthInBytes, params.Height, params.Depth = 4, 1, 1
    box = hip.hipMemcpy3DParms()
    for side, of in ((box.srcPtr, memory), (box.dstPtr, target)):
        fill(side, ptr=of.address, pitch=8, xsize=8, ysize=4)
    fill(box.extent, width=4, height=1, depth=1)
    box.kind = KIND.hipMemcpyDeviceToDevice
    for row, status in ((3, E.hipSuccess), (4, E.hipErrorInvalidValue), (2**61, E.hipErrorInvalidValue)):
        params.srcY, params.dstY = row, 0
        assert error(hip.hipDrvMemcpy3D(params)) == status
        params.srcY, params.dstY = 0, row
        assert error(hip.hipDrvMemcpy3D(params)) == status
        box.srcPos.y = row
        assert error(hip.hipMemcpy3D(box)) == status
    memory.free()
    target.free()


@pytest.mark.parametrize("queue", [False, True])
@pytest.mark.parametrize(
    ("call", "dtype", "value"),
    [("hipMemsetD8", np.uint8, 0xA5), ("hipMemsetD16", np.uint16, 0xBEEF), ("hipMemsetD32", np.int32, -559038737)],
)
def test_fill_by_element(device, call, dtype, value, queue):
    before, size = device.read(), np.dtype(dtype).itemsize
    address = device.address + 8 * size
    ok(getattr(hip, call + "Async")(address, value, 10, None) if queue else getattr(hip, call)(address, value, 10))
    expected = before.copy()
    expected.view(dtype)[8:18] = value
    assert (device.read() == expected).all()


@pytest.mark.parametrize("queue", [False, True])
def test_fill_of_rows(device, queue):
    expected = device.read().reshape(64, 64).copy()
    args = (device.address, 64, 9, 10, 7)
    ok(hip.hipMemset2DAsync(*args, None) if queue else hip.hipMemset2D(*args))
    expected[:7, :10] = 9
    assert (device.read().reshape(64, 64) == expected).all()
    assert error(hip.hipMemset2D(device.address, 64, 9, 65, 2)) == E.hipErrorInvalidValue
    assert error(hip.hipMemset2D(device.address, 64, 9, 64, 65)) == E.hipErrorInvalidValue


@pytest.mark.parametrize("queue", [False, True])
def test_fill_of_a_box(device, queue):
    expected = device.read().reshape(4, 16, 64).copy()
    box = hip.hipPitchedPtr(ptr=device.address, pitch=64, xsize=64, ysize=16)
    args = (box, 3, hip.hipExtent(width=20, height=5, depth=3))
    ok(hip.hipMemset3DAsync(*args, None) if queue else hip.hipMemset3D(*args))
    expected[:3, :5, :20] = 3
    assert (device.read().reshape(4, 16, 64) == expected).all()


@pytest.mark.parametrize(("call", "dtype"), [("hipMemsetD2D16", np.uint16), ("hipMemsetD2D32", np.uint32)])
def test_fill_of_rows_by_element(device, call, dtype):
    expected = device.read().view(dtype).reshape(16, -1).copy()
    ok(getattr(hip, call)(device.address, 256, 77, 5, 3))
    expected[:3, :5] = 77
    assert (device.read(dtype).reshape(expected.shape) == expected).all()


def test_a_copy_from_host_to_host_is_done_when_the_call_returns():
    gate, stream = Gate(), ok(hip.hipStreamCreateWithFlags(1))
    source, target = (int(ok(hip.hipHostMalloc(64, 0))) for _ in range(2))
    source_bytes, target_bytes = ((ctypes.c_char * 64).from_address(at) for at in (source, target))
    source_bytes.raw, target_bytes.raw = b"x" * 64, bytes(64)
    gate.hold(stream)
    opener = threading.Timer(0.1, gate.open)
    opener.start()
    ok(hip.hipMemcpyAsync(target, source, 64, KIND.hipMemcpyHostToHost, stream))
    assert target_bytes.raw == b"x" * 64
    opener.join()
    ok(hip.hipStreamSynchronize(stream))
    for memory in (source, target):
        ok(hip.hipHostFree(memory))


def test_a_fill_of_the_device_s_memory_is_not_waited_for(device):
    """One of the host's memory is, and one behind the begin of an allocation."""
    gate, stream = Gate(), ok(hip.hipStreamCreate())
    gate.hold(stream)
    opener = threading.Timer(60, gate.open)  # where the call waits, the test ends too
    opener.start()
    ok(hip.hipMemset(device.address, 7, 64))
    assert error(hip.hipStreamQuery(stream)) == E.hipErrorNotReady
    opener.cancel()
    gate.open()
    assert (device.read()[:64] == 7).all()
    gate.hold(stream)
    opener = threading.Timer(0.1, gate.open)
    opener.start()
    ok(hip.hipMemset(device.address + 8, 9, 8))
    assert error(hip.hipStreamQuery(stream)) == E.hipSuccess
    opener.join()
    assert (device.read()[8:16] == 9).all()


@pytest.mark.parametrize("is_box", [False, True])
def test_a_copy_within_the_device_is_waited_for_where_both_ends_ask(device, is_box):
    """hipMemcpy and hipMemcpy3D, as CLR's and CUDA's."""
    gate, stream = Gate(), ok(hip.hipStreamCreate())
    source = ok(hip.hipMalloc(64))
    ok(hip.hipMemset(source, 3, 64))
    ok(hip.hipDeviceSynchronize())
    sync = int(hip.hipPointer_attribute.HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS)

    def copy():
        if not is_box:
            return ok(hip.hipMemcpy(device.address, source, 64, ON_DEVICE))
        params = hip.hipMemcpy3DParms()
        for end, address in (params.dstPtr, device.address), (params.srcPtr, source):
            fill(end, ptr=address, pitch=64, xsize=64, ysize=1)
        fill(params.extent, width=64, height=1, depth=1)
        params.kind = ON_DEVICE
        return ok(hip.hipMemcpy3D(params))

    for asking, is_waited_for in ((), False), ((source,), False), ((device.address,), True):
        for address in asking:
            value = ctypes.c_uint(1)
            assert raw("hipPointerSetAttribute", ctypes.byref(value), sync, address) == E.hipSuccess
        gate.hold(stream)
        opener = threading.Timer(0.1 if is_waited_for else 60, gate.open)  # where the call waits, the test ends too
        opener.start()
        copy()
        assert error(hip.hipStreamQuery(stream)) == (E.hipSuccess if is_waited_for else E.hipErrorNotReady)
        opener.cancel()
        gate.open()
        ok(hip.hipDeviceSynchronize())
        assert (device.read()[:64] == 3).all()
    ok(hip.hipFree(source))
