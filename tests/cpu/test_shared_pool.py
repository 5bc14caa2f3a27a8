"""Pools whose memory other processes use: a pool's file, what names an allocation, and mappings on the other side."""

import ctypes
import os

import numpy as np
import pytest
from helpers.hip_calls import KIND, E, error, ok, raw
from rocm.bindings import hip

SIZE, UINT = ctypes.c_size_t, ctypes.c_uint
BAD = E.hipErrorInvalidValue
FILE = 1  # hipMemHandleTypePosixFileDescriptor
BYTES = 6000  # more than a page, and no whole number of them
OTHER = """
import ctypes
lib = ctypes.CDLL(sys.argv[1])
class Data(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]
data, size = Data.from_buffer_copy(bytes.fromhex("{data}")), ctypes.c_size_t
p, pool = ctypes.c_void_p(), ctypes.c_void_p()
own = os.open("/proc/{process}/fd/{file}", os.O_RDWR)
assert lib.hipMemPoolImportFromShareableHandle(ctypes.byref(pool), ctypes.c_void_p(own), 1, 0) == 0
os.close(own)
status = lib.hipMemPoolImportPointer(ctypes.byref(p), pool, ctypes.byref(data))
if status:
    print(status)
    raise SystemExit
count = {count}
held = (ctypes.c_ubyte * count)()
assert lib.hipMemcpy(held, p, size(count), 2) == 0
assert lib.hipMemcpy(held, p, size(count + 1), 2) == 1
assert lib.hipMemset(p, 9, size(16)) == lib.hipDeviceSynchronize() == 0
assert lib.hipIpcCloseMemHandle(p) == 1
assert lib.{free} == lib.hipDeviceSynchronize() == 0
assert lib.{free} == 1
assert lib.hipMallocFromPoolAsync(ctypes.byref(p), size(64), pool, None) == lib.hipDeviceSetMemPool(0, pool) == 1
assert lib.hipMemPoolExportToShareableHandle(ctypes.byref(p), pool, 1, 0) == 1
assert lib.hipMemPoolDestroy(pool) == 0
print(sum(held))
"""


class Data(ctypes.Structure):
    """What names an allocation to other processes."""

    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


def make_pool(handle_type):
    made = hip.hipMemPoolProps()
    made.allocType = hip.hipMemAllocationType.hipMemAllocationTypePinned
    made.location.type, made.location.id = hip.hipMemLocationType.hipMemLocationTypeDevice, 0
    made.handleTypes = hip.hipMemAllocationHandleType(handle_type)
    return ok(hip.hipMemPoolCreate(made))


@pytest.fixture
def pool():
    made = make_pool(FILE)
    yield made
    ok(hip.hipDeviceSynchronize())
    ok(hip.hipMemPoolDestroy(made))


def export(pool):
    """Return the number of a file that stands for the pool."""
    file = ctypes.c_int(-1)
    assert raw("hipMemPoolExportToShareableHandle", ctypes.byref(file), pool, FILE, UINT(0)) == E.hipSuccess
    return file.value


def import_pool(file):
    made = ctypes.c_void_p()
    handle = ctypes.c_void_p(file)
    assert raw("hipMemPoolImportFromShareableHandle", ctypes.byref(made), handle, FILE, UINT(0)) == E.hipSuccess
    return made


def data_of(memory):
    data = Data()
    assert raw("hipMemPoolExportPointer", ctypes.byref(data), memory) == E.hipSuccess
    return data


def import_pointer(pool, data):
    place = ctypes.c_void_p()
    return raw("hipMemPoolImportPointer", ctypes.byref(place), pool, ctypes.byref(data)), place


def filled(pool, content):
    memory = ok(hip.hipMallocFromPoolAsync(content.nbytes, pool, None))
    ok(hip.hipMemcpy(memory, content, content.nbytes, KIND.hipMemcpyHostToDevice))
    return memory


def read(memory, count):
    out = np.empty(count, np.uint8)
    ok(hip.hipMemcpy(out, memory, count, KIND.hipMemcpyDeviceToHost))
    return out


@pytest.mark.parametrize("free", ["hipFree(p)", "hipFreeAsync(p, None)"])
def test_another_process_reads_and_writes(python, pool, free):
    """What was there before is seen, what the other process writes comes back, and what lies beside it stays."""
    content = (np.arange(BYTES) % 200).astype(np.uint8)
    before, memory, after = (filled(pool, content) for _ in range(3))
    file, data = export(pool), data_of(memory)
    text = OTHER.format(data=bytes(data).hex(), process=os.getpid(), file=file, count=BYTES, free=free)
    assert python(text) == f"{int(content.sum())}\n"
    assert (read(memory, 16) == 9).all()
    assert (read(memory, BYTES)[16:] == content[16:]).all()
    for each in (before, after):
        assert (read(each, BYTES) == content).all()
    for each in (before, memory, after):
        ok(hip.hipFreeAsync(each, None))
    os.close(file)


def test_the_same_process(pool):
    """A process that imports its own memory sees it at a second address, until it ends that mapping."""
    memory, file = filled(pool, np.full(64, 3, np.uint8)), export(pool)
    twin = import_pool(file)
    os.close(file)
    status, place = import_pointer(twin, data_of(memory))
    assert status == E.hipSuccess
    assert place.value != int(memory)
    ok(hip.hipMemset(memory, 4, 64))
    assert (read(place, 64) == 4).all()
    assert (raw("hipFree", place), raw("hipFree", place)) == (E.hipSuccess, BAD)
    assert (read(memory, 64) == 4).all()
    ok(hip.hipFree(memory))
    assert raw("hipMemPoolDestroy", twin) == E.hipSuccess


def test_an_export_knows_the_access_that_was_granted(pool):
    file = export(pool)
    twin = import_pool(file)
    os.close(file)
    location, flags = hip.hipMemLocation(), ctypes.c_int()
    location.type, location.id = hip.hipMemLocationType.hipMemLocationTypeDevice, 0
    assert raw("hipMemPoolGetAccess", ctypes.byref(flags), twin, location) == E.hipSuccess
    assert flags.value == hip.hipMemAccessFlags.hipMemAccessFlagsProtReadWrite
    assert raw("hipMemPoolDestroy", twin) == E.hipSuccess


def test_memory_that_is_gone(pool):
    """Memory that its pool gave back opens nothing; the pages that the process gets there are its own again."""
    memory, file = filled(pool, np.ones(BYTES, np.uint8)), export(pool)
    twin, data = import_pool(file), data_of(memory)
    ok(hip.hipFree(memory))
    ok(hip.hipMemPoolTrimTo(pool, 0))
    assert import_pointer(twin, data)[0] == E.hipErrorOutOfMemory
    os.close(file)
    assert raw("hipMemPoolDestroy", twin) == E.hipSuccess


def test_refusals(pool):
    plain, memory, data, file = make_pool(0), filled(pool, np.ones(64, np.uint8)), Data(), ctypes.c_int()
    exported = lambda *args: raw("hipMemPoolExportToShareableHandle", *args)  # noqa: E731
    assert exported(None, pool, FILE, UINT(0)) == exported(ctypes.byref(file), None, FILE, UINT(0)) == BAD
    assert exported(ctypes.byref(file), pool, 0, UINT(0)) == exported(ctypes.byref(file), pool, FILE, UINT(1)) == BAD
    assert exported(ctypes.byref(file), plain, FILE, UINT(0)) == exported(ctypes.byref(file), plain, 0, UINT(0)) == BAD
    other, twin = filled(plain, np.ones(64, np.uint8)), import_pool(export(pool))
    inner = ctypes.c_void_p(int(memory) + 8)
    for wrong in (None, other, inner):
        assert raw("hipMemPoolExportPointer", ctypes.byref(data), wrong) == BAD
    assert raw("hipMemPoolExportPointer", None, memory) == BAD
    assert import_pointer(twin, Data())[0] == import_pointer(pool, data_of(memory))[0] == BAD
    place, found = ctypes.c_void_p(), data_of(memory)
    assert raw("hipMemPoolImportPointer", None, twin, ctypes.byref(found)) == BAD
    assert raw("hipMemPoolImportPointer", ctypes.byref(place), twin, None) == BAD
    imported = lambda *args: raw("hipMemPoolImportFromShareableHandle", *args)  # noqa: E731
    handle = ctypes.c_void_p(export(pool))
    assert imported(None, handle, FILE, UINT(0)) == imported(ctypes.byref(place), None, FILE, UINT(0)) == BAD
    assert (
        imported(ctypes.byref(place), handle, 0, UINT(0)) == imported(ctypes.byref(place), handle, FILE, UINT(1)) == BAD
    )
    reader, writer = os.pipe()
    assert imported(ctypes.byref(place), ctypes.c_void_p(reader), FILE, UINT(0)) == E.hipErrorOutOfMemory
    for each in (reader, writer, handle.value):
        os.close(each)
    another = make_pool(FILE)
    assert import_pointer(import_pool(export(another)), found)[0] == BAD  # a pointer of another pool
    for each in (memory, other):
        ok(hip.hipFree(each))
    for each in (plain, another):
        ok(hip.hipMemPoolDestroy(each))


def test_a_device_names_the_handles_it_exports():
    which = hip.hipDeviceAttribute_t.hipDeviceAttributeMemoryPoolSupportedHandleTypes
    assert ok(hip.hipDeviceGetAttribute(which, 0)) == FILE
    assert error(hip.hipDeviceGetAttribute(which, 99)) == E.hipErrorInvalidDevice
