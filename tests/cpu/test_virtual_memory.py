"""Virtual memory: addresses that are reserved, memory that is made apart from them, and what maps one to the other."""

import ctypes
import os

import numpy as np
import pytest
from helpers.hip_calls import KIND, E, raw

SIZE, LONG = ctypes.c_size_t, ctypes.c_ulonglong
BAD = E.hipErrorInvalidValue
NOTHING, READ, BOTH = 0, 1, 3
FILE = 1


class Place(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Properties(ctypes.Structure):
    _fields_ = [
        *(("type", ctypes.c_int), ("handle", ctypes.c_int), ("place", Place), ("meta", ctypes.c_void_p)),
        *(("compression", ctypes.c_ubyte), ("rdma", ctypes.c_ubyte), ("usage", ctypes.c_ushort)),
    ]


class Access(ctypes.Structure):
    _fields_ = [("place", Place), ("flags", ctypes.c_int)]


def pinned(handle=0):
    return Properties(1, handle, Place(1, 0))


@pytest.fixture(scope="module")
def unit():
    size = SIZE()
    assert raw("hipMemGetAllocationGranularity", ctypes.byref(size), ctypes.byref(pinned()), 0) == 0
    assert size.value.bit_count() == 1
    return size.value


def reserve(size, alignment=0):
    base = ctypes.c_void_p()
    assert raw("hipMemAddressReserve", ctypes.byref(base), SIZE(size), SIZE(alignment), None, LONG(0)) == 0
    return base.value


def create(size, handle=0):
    memory = ctypes.c_void_p()
    assert raw("hipMemCreate", ctypes.byref(memory), SIZE(size), ctypes.byref(pinned(handle)), LONG(0)) == 0
    return memory


def do_map(base, size, memory):
    return raw("hipMemMap", ctypes.c_void_p(base), SIZE(size), SIZE(0), memory, LONG(0))


def unmap(base, size):
    return raw("hipMemUnmap", ctypes.c_void_p(base), SIZE(size))


def allow(base, size, flags=BOTH):
    access = Access(Place(1, 0), flags)
    return raw("hipMemSetAccess", ctypes.c_void_p(base), SIZE(size), ctypes.byref(access), SIZE(1))


def allowed(base):
    flags = LONG()
    assert raw("hipMemGetAccess", ctypes.byref(flags), ctypes.byref(Place(1, 0)), ctypes.c_void_p(base)) == 0
    return flags.value


def release(memory):
    return raw("hipMemRelease", memory)


def free(base, size):
    return raw("hipMemAddressFree", ctypes.c_void_p(base), SIZE(size))


def write(base, content):
    return raw(
        "hipMemcpy",
        ctypes.c_void_p(base),
        ctypes.c_void_p(content.ctypes.data),
        SIZE(content.nbytes),
        KIND.hipMemcpyHostToDevice,
    )


def read(base, size):
    out = np.empty(size, np.uint8)
    assert (
        raw(
            "hipMemcpy", ctypes.c_void_p(out.ctypes.data), ctypes.c_void_p(base), SIZE(size), KIND.hipMemcpyDeviceToHost
        )
        == 0
    )
    return out


def taken():
    left, whole = SIZE(), SIZE()
    assert raw("hipMemGetInfo", ctypes.byref(left), ctypes.byref(whole)) == 0
    return whole.value - left.value


def test_two_mappings_grow_a_buffer(unit):
    """What two memories hold lies in one range of addresses; one of them shows at another address again."""
    before = taken()
    base, one, two = reserve(4 * unit), create(unit), create(2 * unit)
    assert taken() == before + 3 * unit
    assert do_map(base, unit, one) == do_map(base + unit, 2 * unit, two) == 0
    assert allow(base, 3 * unit) == 0
    content = np.random.default_rng(1).integers(0, 256, 3 * unit, np.uint8)
    assert write(base, content[:unit]) == write(base + unit, content[unit:]) == 0
    assert raw("hipMemset", ctypes.c_void_p(base + unit), 7, SIZE(16)) == 0
    content[unit : unit + 16] = 7
    elsewhere = reserve(2 * unit)
    assert do_map(elsewhere, 2 * unit, two) == allow(elsewhere, 2 * unit, READ) == 0
    assert (read(base, unit) == content[:unit]).all()
    assert (read(elsewhere, 2 * unit) == content[unit:]).all()
    # Memory lives until its handle and all its mappings are gone.
    assert release(two) == unmap(base + unit, 2 * unit) == 0
    assert taken() == before + 3 * unit
    assert unmap(elsewhere, 2 * unit) == 0
    assert taken() == before + unit
    assert release(one) == unmap(base, unit) == 0
    assert taken() == before
    assert free(base, 4 * unit) == free(elsewhere, 2 * unit) == 0


def test_access(unit):
    base, memory = reserve(2 * unit), create(unit)
    assert do_map(base, unit, memory) == 0
    assert allowed(base) == NOTHING
    for flags in (READ, BOTH, NOTHING):
        assert allow(base, unit, flags) == 0
        assert allowed(base) == allowed(base + unit - 1) == flags
    assert allow(base, 2 * unit) == allow(base + unit, unit) == allow(base, unit // 2) == BAD
    assert allow(base, unit, 2) == allow(0, unit) == allow(base, 0) == BAD
    access = (Access * 2)(Access(Place(1, 0), BOTH), Access(Place(1, 99), BOTH))
    assert raw("hipMemSetAccess", ctypes.c_void_p(base), SIZE(unit), access, SIZE(2)) == BAD
    assert allowed(base) == NOTHING  # a call that fails changes nothing
    assert unmap(base, unit) == release(memory) == free(base, 2 * unit) == 0


def test_a_kernel_needs_access(python, unit, sanitized):
    """A kernel that writes mapped memory before hipMemSetAccess allows it fails, as on a GPU."""
    if sanitized:
        pytest.skip("the sanitizer reports it first")
    out = python(
        f"""
import ctypes
lib = ctypes.CDLL(sys.argv[1])
v, size, long = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_ulonglong
source = b'extern "C" __global__ void put(int *p) {{ *p = 42; }}'
program, bytes_, module, put = v(), size(), v(), v()
assert lib.hiprtcCreateProgram(ctypes.byref(program), source, b"put.hip", 0, None, None) == 0
assert lib.hiprtcCompileProgram(program, 0, None) == 0
assert lib.hiprtcGetCodeSize(program, ctypes.byref(bytes_)) == 0
code = ctypes.create_string_buffer(bytes_.value)
assert lib.hiprtcGetCode(program, code) == 0
assert lib.hipModuleLoadData(ctypes.byref(module), code) == 0
assert lib.hipModuleGetFunction(ctypes.byref(put), module, b"put") == 0
unit, base, memory = size({unit}), v(), v()
prop = (ctypes.c_int * 8)(1, 0, 1, 0)
assert lib.hipMemAddressReserve(ctypes.byref(base), unit, size(0), None, long(0)) == 0
assert lib.hipMemCreate(ctypes.byref(memory), unit, prop, long(0)) == 0
assert lib.hipMemMap(base, unit, size(0), memory, long(0)) == 0
args = (v * 1)(ctypes.addressof(base))
assert lib.hipModuleLaunchKernel(put, 1, 1, 1, 1, 1, 1, 0, None, args, None) == 0
print(lib.hipDeviceSynchronize() != 0)
"""
    )
    assert out == "True\n"


def test_refusals(unit):
    base, memory, out = reserve(2 * unit), create(unit), ctypes.c_void_p()

    def reserving(size, alignment=0, flags=0):
        return raw("hipMemAddressReserve", ctypes.byref(out), SIZE(size), SIZE(alignment), None, LONG(flags))

    def creating(size, properties, flags=0):
        return raw("hipMemCreate", ctypes.byref(out), SIZE(size), ctypes.byref(properties), LONG(flags))

    assert reserving(unit, flags=1) == BAD
    assert reserving(0) == reserving(unit - 1) == reserving(unit, alignment=3) == E.hipErrorOutOfMemory
    assert creating(0, pinned()) == creating(unit - 1, pinned()) == creating(unit, pinned(), flags=1) == BAD
    assert creating(unit, Properties(0, 0, Place(1, 0))) == creating(unit, Properties(1, 0, Place(1, 99))) == BAD
    assert creating(unit, pinned(handle=2)) == E.hipErrorNotSupported
    assert creating(1 << 62, pinned()) == E.hipErrorOutOfMemory
    assert do_map(base, 2 * unit, memory) == do_map(base, unit // 2, memory) == do_map(base, unit, None) == BAD
    assert do_map(base + 1, unit, memory) == do_map(base + 2 * unit, unit, memory) == BAD
    assert raw("hipMemMap", ctypes.c_void_p(base), SIZE(unit), SIZE(unit), memory, LONG(0)) == BAD
    assert do_map(base, unit, memory) == 0
    assert do_map(base, unit, memory) == BAD  # something is mapped there
    assert free(base, 2 * unit) == BAD
    assert unmap(base + unit, unit) == unmap(base, 2 * unit) == BAD
    assert raw("hipFree", ctypes.c_void_p(base)) == BAD
    assert unmap(base, unit) == release(memory) == free(base, 2 * unit) == 0
    assert release(memory) == unmap(base, unit) == free(base, 2 * unit) == BAD


def test_alignment(unit):
    base = reserve(unit, alignment=64 * unit)
    assert base % (64 * unit) == 0
    assert free(base, unit) == 0


def test_a_handle_of_a_mapping(unit):
    """The memory behind an address is retained, so that it survives its mapping; its properties are told."""
    base, memory, again, told = reserve(unit), create(unit, handle=FILE), ctypes.c_void_p(), Properties()
    assert do_map(base, unit, memory) == allow(base, unit) == 0
    assert write(base, np.full(unit, 5, np.uint8)) == 0
    assert raw("hipMemRetainAllocationHandle", ctypes.byref(again), ctypes.c_void_p(base + 1)) == 0
    assert again.value == memory.value
    assert release(memory) == unmap(base, unit) == 0
    assert raw("hipMemGetAllocationPropertiesFromHandle", ctypes.byref(told), again) == 0
    assert (told.type, told.handle, told.place.type, told.place.id) == (1, FILE, 1, 0)
    assert do_map(base, unit, again) == allow(base, unit) == 0
    assert (read(base, unit) == 5).all()
    assert release(again) == unmap(base, unit) == 0
    assert raw("hipMemRetainAllocationHandle", ctypes.byref(again), ctypes.c_void_p(base)) == BAD
    assert free(base, unit) == 0


@pytest.mark.parametrize("by_number", [False, True])
def test_a_file_is_imported(unit, by_number):
    """Memory that leaves as a file's number comes back as the same memory. HIP 6 takes the number's address."""
    base, memory, other, file = reserve(2 * unit), create(unit, handle=FILE), ctypes.c_void_p(), ctypes.c_int()
    assert raw("hipMemExportToShareableHandle", ctypes.byref(file), memory, FILE, LONG(0)) == 0
    given = ctypes.c_void_p(file.value) if by_number else ctypes.byref(file)
    assert raw("hipMemImportFromShareableHandle", ctypes.byref(other), given, FILE) == 0
    assert do_map(base, unit, memory) == do_map(base + unit, unit, other) == allow(base, 2 * unit) == 0
    assert write(base, np.full(unit, 9, np.uint8)) == 0
    assert (read(base + unit, unit) == 9).all()
    assert (
        unmap(base, unit) == unmap(base + unit, unit) == release(memory) == release(other) == free(base, 2 * unit) == 0
    )
    plain = create(unit)
    assert raw("hipMemExportToShareableHandle", ctypes.byref(file), plain, FILE, LONG(0)) == BAD
    assert release(plain) == 0


def test_files_that_are_no_memory_are_closed():
    """An import that fails leaves no open file behind."""
    reader, writer = os.pipe()
    memory, before = ctypes.c_void_p(), len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        assert raw("hipMemImportFromShareableHandle", ctypes.byref(memory), ctypes.c_void_p(reader), FILE) == BAD
    assert len(os.listdir("/proc/self/fd")) == before
    os.close(reader)
    os.close(writer)
