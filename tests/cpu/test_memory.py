"""Allocations: device, host, managed, pitched, registered; what is known about an address; limits."""

import ctypes
import mmap
import threading

import numpy as np
import pytest
from helpers.hip_calls import KIND, E, Gate, error, ok, raw
from hypothesis import given, strategies as st
from rocm.bindings import hip

TYPE = hip.hipMemoryType


def place(address):
    """Return an address's memory type, its device, and whether the host may use it."""
    found = ok(hip.hipPointerGetAttributes(address))
    return found.type, found.device, found.hostPointer is not None and int(found.hostPointer) == address


@pytest.fixture
def block():
    """The address of 1000 bytes of device memory."""
    memory = int(ok(hip.hipMalloc(1000)))
    yield memory
    hip.hipFree(memory)


def test_allocations_are_aligned_and_apart():
    blocks = [int(ok(hip.hipMalloc(size))) for size in (1, 255, 256, 257, 4096)]
    assert all(block % 256 == 0 for block in blocks)
    assert len(set(blocks)) == 5
    for block in blocks:
        ok(hip.hipFree(block))


def test_nothing_is_allocated_for_no_bytes():
    pointer = ctypes.c_void_p(1)
    assert raw("hipMalloc", ctypes.byref(pointer), ctypes.c_size_t(0)) == E.hipSuccess
    assert pointer.value is None
    ok(hip.hipFree(None))
    assert raw("hipMalloc", None, ctypes.c_size_t(8)) == E.hipErrorInvalidValue


def test_free_takes_only_what_was_allocated(block):
    inside = block + 16
    host = np.zeros(16, np.uint8)
    pinned = int(ok(hip.hipHostMalloc(64, 0)))
    for wrong in (inside, host.ctypes.data, pinned):
        assert error(hip.hipFree(wrong)) == E.hipErrorInvalidValue
    for wrong in (block, host.ctypes.data):
        assert error(hip.hipHostFree(wrong)) == E.hipErrorInvalidValue
    ok(hip.hipHostFree(pinned))
    ok(hip.hipFree(block))
    assert error(hip.hipFree(block)) == E.hipErrorInvalidValue


def test_free_waits_for_work_that_uses_the_memory(block):
    gate, stream = Gate(), ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
    gate.hold(stream)
    ok(hip.hipMemsetAsync(block, 1, 1000, stream))
    thread = threading.Thread(target=lambda: ok(hip.hipFree(block)))
    thread.start()
    assert error(hip.hipStreamQuery(stream)) == E.hipErrorNotReady
    gate.open()
    thread.join()
    assert error(hip.hipStreamQuery(stream)) == E.hipSuccess


def test_memory_is_counted():
    free = ok(hip.hipMemGetInfo())[0]
    memory = ok(hip.hipMalloc(1 << 20))
    assert free - ok(hip.hipMemGetInfo())[0] == 1 << 20
    ok(hip.hipFree(memory))
    assert ok(hip.hipMemGetInfo())[0] == free


def test_memory_has_an_end(python):
    printed = python(
        """
first = ok(hip.hipMalloc(10 << 20))
print(int(error(hip.hipMalloc(7 << 20))), int(error(hip.hipMalloc((1 << 64) - 256))), ok(hip.hipMemGetInfo()))
ok(hip.hipHostMalloc(32 << 20, 0))
ok(hip.hipFree(first))
ok(hip.hipMalloc(16 << 20))
print(int(error(hip.hipMallocManaged(1, 1))))
""",
        HIPRT_CPU_MEMORY_MB="16",
    )
    assert printed.splitlines() == [f"2 2 ({6 << 20}, {16 << 20})", "2"]


def test_attributes_say_where_memory_is(block):
    assert place(block) == place(block + 999) == (TYPE.hipMemoryTypeDevice, 0, False)
    pinned = int(ok(hip.hipHostMalloc(64, hip.hipHostMallocMapped)))
    assert place(pinned) == place(pinned + 63) == (TYPE.hipMemoryTypeHost, 0, True)
    managed = int(ok(hip.hipMallocManaged(64, hip.hipMemAttachGlobal)))
    assert place(managed) == (TYPE.hipMemoryTypeManaged, 0, True)
    assert ok(hip.hipPointerGetAttributes(managed)).isManaged == 1
    assert ok(hip.hipHostGetFlags(pinned)) == hip.hipHostMallocMapped
    ok(hip.hipHostFree(pinned))
    ok(hip.hipFree(managed))
    host = np.zeros(16, np.uint8)
    assert place(host.ctypes.data)[:2] == (TYPE.hipMemoryTypeUnregistered, hip.hipInvalidDeviceId)
    ok(hip.hipFree(block))
    assert place(block)[0] == TYPE.hipMemoryTypeUnregistered


@given(size=st.integers(1, 5000), data=st.data())
def test_range_of_any_address_inside(size, data):
    base = int(ok(hip.hipMalloc(size)))
    address = base + data.draw(st.integers(0, size - 1))
    found, length = ok(hip.hipMemGetAddressRange(address))
    assert (int(found), length) == (base, size)
    assert ok(hip.hipMemPtrGetInfo(address)) == size
    ok(hip.hipFree(base))
    assert error(hip.hipMemGetAddressRange(address)) == E.hipErrorNotFound


def test_single_pointer_attributes(block):
    which = hip.hipPointer_attribute
    out = ctypes.c_uint64()

    def get(attribute, address):
        out.value = 0
        status = raw("hipPointerGetAttribute", ctypes.byref(out), int(attribute), address)
        return out.value if status == E.hipSuccess else status

    assert get(which.HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR, block + 5) == block
    assert get(which.HIP_POINTER_ATTRIBUTE_RANGE_SIZE, block + 5) == 1000
    assert get(which.HIP_POINTER_ATTRIBUTE_DEVICE_POINTER, block + 5) == block + 5
    assert get(which.HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, block) == TYPE.hipMemoryTypeDevice
    assert get(which.HIP_POINTER_ATTRIBUTE_IS_MANAGED, block) == 0
    assert get(which.HIP_POINTER_ATTRIBUTE_HOST_POINTER, block) == E.hipErrorInvalidValue
    assert get(which.HIP_POINTER_ATTRIBUTE_P2P_TOKENS, block) == E.hipErrorNotSupported
    assert get(which.HIP_POINTER_ATTRIBUTE_RANGE_SIZE, ctypes.addressof(out)) == E.hipErrorInvalidValue
    other = int(ok(hip.hipMalloc(8)))
    assert get(which.HIP_POINTER_ATTRIBUTE_BUFFER_ID, block) != get(which.HIP_POINTER_ATTRIBUTE_BUFFER_ID, other)
    ok(hip.hipFree(other))


def test_what_pointers_are_not_asked(block):
    which, out = hip.hipPointer_attribute, ctypes.c_uint64()
    for name in ("CONTEXT", "MEMPOOL_HANDLE", "ALLOWED_HANDLE_TYPES", "IS_LEGACY_HIP_IPC_CAPABLE"):
        attribute = which[f"HIP_POINTER_ATTRIBUTE_{name}"]
        assert raw("hipPointerGetAttribute", ctypes.byref(out), int(attribute), block) == E.hipErrorNotSupported, name
    assert error(hip.hipPointerGetAttributes(None)) == E.hipErrorInvalidValue
    value, sync = ctypes.c_uint(1), int(which.HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS)
    put = lambda which, address: raw("hipPointerSetAttribute", ctypes.byref(value), which, address)  # noqa: E731
    assert put(sync, block) == E.hipSuccess
    assert put(sync, ctypes.addressof(out)) == E.hipErrorInvalidDevicePointer
    assert put(sync, None) == put(sync + 1, block) == E.hipErrorInvalidValue
    value.value = 2
    assert put(sync, block) == E.hipErrorInvalidValue


def test_register_and_unregister():
    host = np.zeros(4096, np.uint8)
    address = host.ctypes.data
    assert error(hip.hipHostUnregister(address)) == E.hipErrorHostMemoryNotRegistered
    ok(hip.hipHostRegister(address, 4096, hip.hipHostRegisterMapped))
    assert error(hip.hipHostRegister(address + 100, 8, 0)) == E.hipErrorHostMemoryAlreadyRegistered
    assert place(address)[0] == TYPE.hipMemoryTypeHost
    assert int(ok(hip.hipHostGetDevicePointer(address + 8, 0))) == address + 8
    assert error(hip.hipHostUnregister(address + 100)) == E.hipErrorHostMemoryNotRegistered
    ok(hip.hipHostUnregister(address))
    assert error(hip.hipHostGetDevicePointer(address, 0)) == E.hipErrorInvalidValue
    assert error(hip.hipHostRegister(address, 0, 0)) == E.hipErrorInvalidValue


def test_flags_are_checked():
    both = hip.hipHostMallocCoherent | (hip.hipHostMallocNonCoherent & 0xFFFFFFFF)
    assert error(hip.hipHostMalloc(64, both)) == E.hipErrorInvalidValue
    assert error(hip.hipHostMalloc(64, 0x100)) == E.hipErrorInvalidValue
    assert error(hip.hipMallocManaged(64, 7)) == E.hipErrorInvalidValue
    assert error(hip.hipExtMallocWithFlags(64, 77)) == E.hipErrorInvalidValue
    ok(hip.hipFree(ok(hip.hipExtMallocWithFlags(8, hip.hipMallocSignalMemory))))


def test_managed_memory_is_plain_memory_for_the_host():
    assert error(hip.hipMallocManaged(0, hip.hipMemAttachGlobal)) == E.hipErrorInvalidValue
    managed = int(ok(hip.hipMallocManaged(64, hip.hipMemAttachGlobal)))
    ok(hip.hipMemset(managed, 7, 64))
    assert bytes((ctypes.c_char * 64).from_address(managed)) == b"\7" * 64
    ok(hip.hipFree(managed))


def test_advice_is_kept():
    advice, attribute = hip.hipMemoryAdvise, hip.hipMemRangeAttribute
    managed = int(ok(hip.hipMallocManaged(4096, hip.hipMemAttachGlobal)))
    out = ctypes.c_int()

    def get(which):
        four, count = ctypes.c_size_t(4), ctypes.c_size_t(64)
        status = raw("hipMemRangeGetAttribute", ctypes.byref(out), four, int(which), managed, count)
        assert status == E.hipSuccess
        return out.value

    assert get(attribute.hipMemRangeAttributeReadMostly) == 0
    ok(hip.hipMemAdvise(managed, 4096, advice.hipMemAdviseSetReadMostly, 0))
    assert get(attribute.hipMemRangeAttributeReadMostly) == 1
    assert get(attribute.hipMemRangeAttributePreferredLocation) == hip.hipInvalidDeviceId
    ok(hip.hipMemAdvise(managed, 4096, advice.hipMemAdviseSetPreferredLocation, hip.hipCpuDeviceId))
    assert get(attribute.hipMemRangeAttributePreferredLocation) == hip.hipCpuDeviceId
    ok(hip.hipMemPrefetchAsync(managed, 4096, 0, None))
    assert get(attribute.hipMemRangeAttributeLastPrefetchLocation) == 0
    assert error(hip.hipMemAdvise(managed, 4097, advice.hipMemAdviseSetReadMostly, 0)) == E.hipErrorInvalidValue
    assert error(hip.hipMemAdvise(managed, 64, advice.hipMemAdviseSetPreferredLocation, 5)) == E.hipErrorInvalidDevice
    ok(hip.hipMemAdvise(managed, 4096, advice.hipMemAdviseSetReadMostly, 5))  # this advice is of no device
    ok(hip.hipFree(managed))


def test_advice_is_of_pages():
    """Advice is of every page that its range touches; an answer is what holds for all pages of the range asked for."""
    what, attribute, page = hip.hipMemoryAdvise, hip.hipMemRangeAttribute, mmap.PAGESIZE
    managed = int(ok(hip.hipMallocManaged(4 * page, hip.hipMemAttachGlobal)))

    def get(which, first, count, entries=1):
        out = (ctypes.c_int * entries)(*[77] * entries)
        size, length = ctypes.c_size_t(4 * entries), ctypes.c_size_t(count)
        assert raw("hipMemRangeGetAttribute", out, size, int(which), managed + first, length) == E.hipSuccess
        return out[:] if entries > 1 else out[0]

    ok(hip.hipMemAdvise(managed + page // 2, page, what.hipMemAdviseSetReadMostly, 0))  # pages 0 and 1
    ok(hip.hipMemAdvise(managed + page, page, what.hipMemAdviseSetPreferredLocation, 0))
    ok(hip.hipMemAdvise(managed, 4 * page, what.hipMemAdviseSetAccessedBy, 0))
    ok(hip.hipMemAdvise(managed + page, 3 * page, what.hipMemAdviseSetAccessedBy, hip.hipCpuDeviceId))
    ok(hip.hipMemPrefetchAsync(managed + 3 * page, 1, 0, None))
    assert get(attribute.hipMemRangeAttributeReadMostly, 0, 2 * page) == 1
    assert get(attribute.hipMemRangeAttributeReadMostly, 0, 2 * page + 1) == 0
    assert get(attribute.hipMemRangeAttributePreferredLocation, page, page) == 0
    assert get(attribute.hipMemRangeAttributePreferredLocation, page - 1, 2) == hip.hipInvalidDeviceId
    assert get(attribute.hipMemRangeAttributeAccessedBy, 0, 4 * page, 2) == [0, hip.hipInvalidDeviceId]
    assert get(attribute.hipMemRangeAttributeAccessedBy, page, 3 * page, 2) == [hip.hipCpuDeviceId, 0]
    assert get(attribute.hipMemRangeAttributeLastPrefetchLocation, 3 * page, page) == 0
    assert get(attribute.hipMemRangeAttributeLastPrefetchLocation, 0, 4 * page) == hip.hipInvalidDeviceId
    ok(hip.hipMemAdvise(managed, page, what.hipMemAdviseUnsetReadMostly, 0))
    assert get(attribute.hipMemRangeAttributeReadMostly, page, page) == 1
    ok(hip.hipFree(managed))
    # Memory that lies where other memory was starts without advice.
    again = [int(ok(hip.hipMallocManaged(4 * page, hip.hipMemAttachGlobal))) for _ in range(4)]
    for managed in again:
        assert get(attribute.hipMemRangeAttributeAccessedBy, 0, 4 * page, 2) == [hip.hipInvalidDeviceId] * 2
        ok(hip.hipFree(managed))


def test_advice_on_memory_of_the_host():
    """The device says that it reads pageable memory, so that advice on it is taken; what is not mapped is refused."""
    what, attribute = hip.hipMemoryAdvise, hip.hipMemRangeAttribute
    with mmap.mmap(-1, 4 * mmap.PAGESIZE) as pages:
        view = ctypes.c_char.from_buffer(pages)
        address, out = ctypes.addressof(view), ctypes.c_int(-1)
        ok(hip.hipMemAdvise(address, len(pages), what.hipMemAdviseSetPreferredLocation, 0))
        which, size = int(attribute.hipMemRangeAttributePreferredLocation), ctypes.c_size_t(len(pages))
        four = ctypes.c_size_t(4)
        assert raw("hipMemRangeGetAttribute", ctypes.byref(out), four, which, address, size) == E.hipSuccess
        assert out.value == 0
        del view
    assert error(hip.hipMemAdvise(4096, 64, what.hipMemAdviseSetReadMostly, 0)) == E.hipErrorInvalidValue
    assert error(hip.hipMemAdvise(2**64 - 4096, 64, what.hipMemAdviseSetReadMostly, 0)) == E.hipErrorInvalidValue


def test_which_memory_is_coarse():
    """A device's own memory is coarse unless it was asked to be fine; host and managed memory are fine."""
    fine, coarse = 0, 1  # hipMemRangeCoherencyModeFineGrain, hipMemRangeCoherencyModeCoarseGrain
    host, device = ok(hip.hipHostMalloc(64, 0)), ok(hip.hipMalloc(64))
    asked = ok(hip.hipExtMallocWithFlags(64, hip.hipDeviceMallocFinegrained))
    managed = ok(hip.hipMallocManaged(64, hip.hipMemAttachGlobal))
    which, out = int(hip.hipMemRangeAttribute.hipMemRangeAttributeCoherencyMode), ctypes.c_int(-1)
    for memory, mode in [(host, fine), (device, coarse), (asked, fine), (managed, fine)]:
        sizes = ctypes.c_size_t(4), which, int(memory), ctypes.c_size_t(64)
        assert raw("hipMemRangeGetAttribute", ctypes.byref(out), *sizes) == E.hipSuccess
        assert out.value == mode
    ok(hip.hipHostFree(host))
    for memory in (device, asked, managed):
        ok(hip.hipFree(memory))


def test_attaching_managed_memory():
    page, attach = mmap.PAGESIZE, hip.hipStreamAttachMemAsync
    managed, stream = int(ok(hip.hipMallocManaged(page, hip.hipMemAttachGlobal))), ok(hip.hipStreamCreate())
    single = hip.hipMemAttachSingle
    assert error(attach(stream, managed, 0, single)) == error(attach(stream, managed, page, single)) == E.hipSuccess
    for wrong in ((stream, managed, page // 2, single), (stream, None, 0, single), (None, managed, 0, single)):
        assert error(attach(*wrong)) == E.hipErrorInvalidValue
    assert error(attach(stream, managed, 0, 3)) == E.hipErrorInvalidValue
    data = np.zeros(page, np.uint8)
    assert error(attach(stream, data.ctypes.data, page, single)) == E.hipSuccess
    assert error(attach(stream, data.ctypes.data, 0, single)) == E.hipErrorInvalidValue
    ok(hip.hipStreamDestroy(stream))
    ok(hip.hipFree(managed))


def test_memory_that_is_not_there_is_not_registered():
    with mmap.mmap(-1, 2 * mmap.PAGESIZE) as pages:
        view = ctypes.c_char.from_buffer(pages)
        address = ctypes.addressof(view)
        assert error(hip.hipHostRegister(address, 1 << 46, 0)) == E.hipErrorInvalidValue
        assert error(hip.hipHostRegister(address, 2**64 - 1, 0)) == E.hipErrorInvalidValue
        ok(hip.hipHostRegister(address, len(pages), 0))
        ok(hip.hipHostUnregister(address))
        del view


def test_attributes_of_several_kinds_at_once():
    which, out = (
        (ctypes.c_int * 1)(int(hip.hipPointer_attribute.HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL)),
        ctypes.c_int(-1),
    )
    data = (ctypes.c_void_p * 1)(ctypes.addressof(out))
    memory = ok(hip.hipMalloc(64))
    ask = lambda count, address: raw("hipDrvPointerGetAttributes", ctypes.c_uint(count), which, data, address)  # noqa: E731
    assert ask(1, memory) == E.hipSuccess
    assert out.value == 0
    assert ask(0, memory) == ask(1, None) == E.hipErrorInvalidValue
    ok(hip.hipFree(memory))


def test_pitched_rows_are_aligned():
    memory, pitch = ok(hip.hipMallocPitch(100, 5))
    assert pitch >= 100
    assert pitch % 256 == 0
    assert ok(hip.hipMemPtrGetInfo(int(memory))) == pitch * 5
    ok(hip.hipFree(memory))


def test_pitched_box():
    extent = hip.hipExtent(width=100, height=5, depth=3)
    box = ok(hip.hipMalloc3D(extent))
    assert (box.xsize, box.ysize) == (100, 5)
    assert box.pitch % 256 == 0
    assert ok(hip.hipMemPtrGetInfo(int(box.ptr))) == box.pitch * 5 * 3
    ok(hip.hipFree(int(box.ptr)))


def test_threads_allocate_and_free_together():
    failures = []

    def work(seed):
        random = np.random.default_rng(seed)
        held = []
        try:
            for size in random.integers(1, 1 << 14, 300):
                memory = int(ok(hip.hipMalloc(int(size))))
                ok(hip.hipMemset(memory, seed, int(size)))
                held.append((memory, int(size)))
                if len(held) > 8:
                    memory, size = held.pop(int(random.integers(len(held))))
                    out = np.empty(size, np.uint8)
                    ok(hip.hipMemcpy(out, memory, size, KIND.hipMemcpyDeviceToHost))
                    assert (out == seed).all()
                    ok(hip.hipFree(memory))
            for memory, _ in held:
                ok(hip.hipFree(memory))
        except BaseException as failure:
            failures.append(failure)

    free = ok(hip.hipMemGetInfo())[0]
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert ok(hip.hipMemGetInfo())[0] == free


def test_the_size_of_a_range_has_four_bytes(block):
    which = hip.hipPointer_attribute.HIP_POINTER_ATTRIBUTE_RANGE_SIZE
    out = (ctypes.c_uint * 2)(7, 7)
    assert raw("hipPointerGetAttribute", out, ctypes.c_int(which), block) == E.hipSuccess
    assert out[0] > 0
    assert out[1] == 7
    out = (ctypes.c_uint * 2)(7, 7)
    names, places = (ctypes.c_int * 1)(which), (ctypes.c_void_p * 1)(ctypes.addressof(out))
    nowhere = ctypes.c_void_p(ctypes.addressof(out))
    assert raw("hipDrvPointerGetAttributes", ctypes.c_uint(1), names, places, nowhere) == E.hipSuccess
    assert list(out) == [0, 7]


def test_a_graph_memory_attribute_that_cannot_be_set_is_not_read():
    nowhere = ctypes.c_void_p(-1)
    for which in (0, 2, 99):  # used and reserved now, and none
        assert raw("hipDeviceSetGraphMemAttribute", ctypes.c_int(0), ctypes.c_int(which), nowhere) == (
            E.hipErrorInvalidValue
        )
