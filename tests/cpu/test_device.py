"""Devices: properties, attributes, the current one, contexts, errors and their names."""

import ctypes
import re
import threading

import pytest
from helpers.hip_calls import E, error, ok, raw
from rocm.bindings import hip

ATTRIBUTE = hip.hipDeviceAttribute_t


def test_version_is_that_of_the_interface():
    assert ok(hip.hipRuntimeGetVersion()) == ok(hip.hipDriverGetVersion()) == 71526333


def test_numbers_that_are_none_are_told(python):
    """The device itself reports a wrong setting, because a program without Python has no other report."""
    text = python("os.dup2(1, 2)\nassert ok(hip.hipGetDeviceCount()) == 1", HIPRT_CPU_DEVICES="two")
    assert text == "hiprt cpu device: HIPRT_CPU_DEVICES: 'two' is no whole number and ignored\n"


def test_properties():
    properties = ok(hip.hipGetDeviceProperties(0))
    assert properties.name
    assert properties.gcnArchName == "hiprt-cpu"
    assert properties.warpSize == 32
    assert properties.maxThreadsPerBlock == 1024
    assert properties.maxThreadsDim[:3] == [1024, 1024, 1024]
    assert properties.totalGlobalMem == ok(hip.hipDeviceTotalMem(0)) == ok(hip.hipMemGetInfo())[1]
    assert properties.multiProcessorCount >= 1
    assert properties.integrated == 1


@pytest.mark.parametrize(
    ("attribute", "member"),
    [
        ("WarpSize", "warpSize"),
        ("MaxThreadsPerBlock", "maxThreadsPerBlock"),
        ("MultiprocessorCount", "multiProcessorCount"),
        ("MaxSharedMemoryPerBlock", "sharedMemPerBlock"),
        ("ManagedMemory", "managedMemory"),
        ("MemoryPoolsSupported", "memoryPoolsSupported"),
        ("ConcurrentKernels", "concurrentKernels"),
        ("PciBusId", "pciBusID"),
        ("ComputeCapabilityMajor", "major"),
    ],
)
def test_attribute_agrees_with_the_property(attribute, member):
    value = ok(hip.hipDeviceGetAttribute(getattr(ATTRIBUTE, f"hipDeviceAttribute{attribute}"), 0))
    assert value == getattr(ok(hip.hipGetDeviceProperties(0)), member)


def test_both_clocks_of_kernels_count_nanoseconds():
    """A program turns what clock64() and wall_clock64() count into times by these."""
    which = hip.hipDeviceAttribute_t
    for attribute in (which.hipDeviceAttributeClockRate, which.hipDeviceAttributeWallClockRate):
        assert ok(hip.hipDeviceGetAttribute(attribute, 0)) == 1_000_000


def test_attributes_without_a_property():
    assert ok(hip.hipDeviceGetAttribute(ATTRIBUTE.hipDeviceAttributeCanUseStreamWaitValue, 0)) == 1
    assert ok(hip.hipDeviceGetAttribute(ATTRIBUTE.hipDeviceAttributeImageSupport, 0)) == 0
    assert ok(hip.hipDeviceGetAttribute(ATTRIBUTE.hipDeviceAttributeMaxGridDimX, 0)) == 2**31 - 1
    assert error(hip.hipDeviceGetAttribute(ATTRIBUTE.hipDeviceAttributeUnused1, 0)) == E.hipErrorInvalidValue


def test_devices_that_do_not_exist():
    for device in (-1, 1, 99):
        assert error(hip.hipGetDeviceProperties(device)) == E.hipErrorInvalidDevice
        assert error(hip.hipSetDevice(device)) == E.hipErrorInvalidDevice
        assert error(hip.hipDeviceGetAttribute(ATTRIBUTE.hipDeviceAttributeWarpSize, device)) == E.hipErrorInvalidDevice
    assert ok(hip.hipGetDevice()) == 0


def test_names_and_numbers_of_the_device():
    pci = bytes(ok(hip.hipDeviceGetPCIBusId(32, 0))).rstrip(b"\0")
    assert re.fullmatch(rb"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.0", pci)
    assert ok(hip.hipDeviceGetByPCIBusId(pci)) == 0
    assert error(hip.hipDeviceGetByPCIBusId(b"0000:7f:00.0")) == E.hipErrorInvalidDevice
    assert error(hip.hipDeviceGetByPCIBusId(b"no address")) == E.hipErrorInvalidValue
    assert ok(hip.hipChooseDevice(hip.hipDeviceProp_t())) == 0


def test_limits_and_configuration_are_kept():
    limit = hip.hipLimit_t.hipLimitStackSize
    before = ok(hip.hipDeviceGetLimit(limit))
    ok(hip.hipDeviceSetLimit(limit, before + 4096))
    assert ok(hip.hipDeviceGetLimit(limit)) == before + 4096
    ok(hip.hipDeviceSetLimit(limit, before))
    assert error(hip.hipDeviceGetLimit(hip.hipLimit_t.hipLimitRange)) == E.hipErrorUnsupportedLimit
    ok(hip.hipDeviceSetCacheConfig(hip.hipFuncCache_t.hipFuncCachePreferL1))
    assert ok(hip.hipDeviceGetCacheConfig()) == hip.hipFuncCache_t.hipFuncCachePreferL1
    ok(hip.hipDeviceSetCacheConfig(hip.hipFuncCache_t.hipFuncCachePreferNone))
    ok(hip.hipSetDeviceFlags(hip.hipDeviceScheduleSpin))
    assert ok(hip.hipGetDeviceFlags()) == hip.hipDeviceScheduleSpin
    assert error(hip.hipSetDeviceFlags(3)) == E.hipErrorInvalidValue
    ok(hip.hipSetDeviceFlags(hip.hipDeviceScheduleAuto))


def test_last_error_stays_until_it_is_read():
    hip.hipGetLastError()
    assert error(hip.hipSetDevice(7)) == E.hipErrorInvalidDevice
    ok(hip.hipSetDevice(0))
    assert error(hip.hipPeekAtLastError()) == E.hipErrorInvalidDevice
    assert error(hip.hipGetLastError()) == E.hipErrorInvalidDevice
    assert error(hip.hipGetLastError()) == E.hipSuccess


def test_last_error_is_per_thread():
    hip.hipGetLastError()
    seen = []
    thread = threading.Thread(target=lambda: seen.extend([hip.hipSetDevice(7), hip.hipGetLastError()]))
    thread.start()
    thread.join()
    assert [error(result) for result in seen] == [E.hipErrorInvalidDevice, E.hipErrorInvalidDevice]
    assert error(hip.hipGetLastError()) == E.hipSuccess


def test_extended_last_error_is_of_the_last_call():
    hip.hipSetDevice(7)
    ok(hip.hipSetDevice(0))
    assert error(hip.hipExtGetLastError()) == E.hipSuccess
    hip.hipGetLastError()


def test_every_error_has_its_name_and_a_meaning():
    for status in E:
        names = {name for name, value in E.__members__.items() if value == status}
        name, meaning = str(ok(hip.hipGetErrorName(status))), str(ok(hip.hipGetErrorString(status)))
        assert name in names
        assert len(meaning) > 4
        assert str(ok(hip.hipDrvGetErrorName(status))) == name
        assert str(ok(hip.hipDrvGetErrorString(status))) == meaning


def test_context_is_the_primary_one():
    context = ok(hip.hipDevicePrimaryCtxRetain(0))
    assert int(ok(hip.hipCtxGetCurrent())) == int(context)
    assert ok(hip.hipDevicePrimaryCtxGetState(0))[1] == 1
    ok(hip.hipCtxPushCurrent(context))
    assert int(ok(hip.hipCtxPopCurrent())) == int(context)
    assert error(hip.hipCtxPopCurrent()) == E.hipErrorInvalidContext
    ok(hip.hipCtxSynchronize())
    ok(hip.hipDevicePrimaryCtxRelease(0))


def test_several_devices(python):
    printed = python(
        """
import threading
assert ok(hip.hipGetDeviceCount()) == 3
ok(hip.hipSetDevice(2))
seen = []
def other():
    seen.append(ok(hip.hipGetDevice()))
thread = threading.Thread(target=other); thread.start(); thread.join()
print(ok(hip.hipGetDevice()), seen[0], len({bytes(ok(hip.hipDeviceGetPCIBusId(32, d))) for d in range(3)}))
print(ok(hip.hipDeviceCanAccessPeer(0, 1)), ok(hip.hipDeviceCanAccessPeer(1, 1)))
print(int(error(hip.hipDeviceDisablePeerAccess(1))), int(error(hip.hipDeviceEnablePeerAccess(1, 0))),
      int(error(hip.hipDeviceEnablePeerAccess(1, 0))), int(error(hip.hipDeviceEnablePeerAccess(2, 0))))
memory = Ints(8, 5)
ok(hip.hipSetDevice(1))
print(hip.hipPointerGetAttributes(int(memory))[1].device, memory.read().tolist() == [5] * 8)
event = ok(hip.hipEventCreate())
ok(hip.hipSetDevice(0))
print(int(error(hip.hipEventRecord(event, ok(hip.hipStreamCreate())))))
""",
        HIPRT_CPU_DEVICES="3",
    )
    assert printed.splitlines() == ["2 0 3", "1 0", "705 0 704 101", "2 True", "400"]


def test_no_device(python):
    printed = python("print(int(error(hip.hipGetDeviceCount())), int(error(hip.hipInit(0))))", HIPRT_CPU_DEVICES="0")
    assert printed.split() == ["100", "100"]


def test_reset_frees_what_the_device_held(python):
    printed = python(
        """
memory, stream = ok(hip.hipMalloc(1 << 20)), ok(hip.hipStreamCreate())
function = functions()["small_block"]
free, total = ok(hip.hipMemGetInfo())
ok(hip.hipDeviceReset())
print(ok(hip.hipMemGetInfo())[0] > free, int(error(hip.hipFree(int(memory)))), int(error(hip.hipStreamQuery(stream))))
print(int(raw("hipModuleLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, None, None)))
print(Ints(4, 3).read().tolist())
"""
    )
    assert printed.splitlines() == ["True 1 400", "400", "[3, 3, 3, 3]"]


def test_entry_points_by_name():
    import ctypes

    from helpers.hip_calls import library, raw

    address = ctypes.c_void_p()
    result = ctypes.c_int(-1)
    call = lambda name, version: raw(  # noqa: E731
        "hipGetProcAddress", name, ctypes.byref(address), version, ctypes.c_uint64(0), ctypes.byref(result)
    )
    assert call(b"hipMalloc", 70000000) == E.hipSuccess
    assert result.value == 0
    assert address.value == ctypes.cast(library().hipMalloc, ctypes.c_void_p).value
    assert call(b"hipGetDeviceProperties", 70000000) == E.hipSuccess
    assert address.value == ctypes.cast(library().hipGetDevicePropertiesR0600, ctypes.c_void_p).value
    assert call(b"malloc", 70000000) == E.hipErrorNotFound
    assert result.value == 1
    per_thread = lambda name: raw(  # noqa: E731
        "hipGetDriverEntryPoint_spt", name, ctypes.byref(address), ctypes.c_uint64(0), ctypes.byref(result)
    )
    assert per_thread(b"hipMemcpy") == per_thread(b"hipMalloc") == E.hipSuccess
    assert address.value == ctypes.cast(library().hipMalloc, ctypes.c_void_p).value  # it has no stream
    assert per_thread(b"hipMemcpy") == E.hipSuccess
    assert address.value == ctypes.cast(library().hipMemcpy_spt, ctypes.c_void_p).value
    assert per_thread(b"malloc") == E.hipErrorNotFound


def test_memory_of_a_reset_primary_context_is_gone(python):
    assert python(
        """
memory = Ints(4)
ok(hip.hipDevicePrimaryCtxReset(0))
print(int(error(hip.hipFree(int(memory)))))
"""
    ).split() == ["1"]


def test_device_ids_are_texts(python):
    code = """
from rocm.bindings import hip
for device in range(2):
    properties = ok(hip.hipGetDeviceProperties(device))  # the UUID is a view of it
    uuid = bytes(properties.uuid.bytes)
    print(uuid.decode(), uuid.decode().isprintable())
"""
    ids = python(code, HIPRT_CPU_DEVICES="2").split()
    assert ids[1::2] == ["True", "True"]
    assert ids[0] != ids[2]


def test_the_plain_symbol_of_properties_is_that_of_hip_5():
    class Older(ctypes.Structure):
        _fields_ = (
            ("name", ctypes.c_char * 256),
            ("total", ctypes.c_size_t),
            ("shared", ctypes.c_size_t),
            ("registers", ctypes.c_int),
            ("warp", ctypes.c_int),
            ("until_arch", ctypes.c_byte * 116),
            ("arch_name", ctypes.c_char * 256),
            ("rest", ctypes.c_byte * 140),
        )

    assert (ctypes.sizeof(Older), Older.arch_name.offset) == (792, 396)
    older, newer = Older(), ok(hip.hipGetDeviceProperties(0))
    assert raw("hipGetDeviceProperties", ctypes.byref(older), ctypes.c_int(0)) == E.hipSuccess
    assert (older.name.decode(), older.arch_name.decode()) == (newer.name, newer.gcnArchName)
    assert (older.total, older.warp) == (newer.totalGlobalMem, newer.warpSize)
    assert raw("hipGetDeviceProperties", ctypes.byref(older), ctypes.c_int(99)) == E.hipErrorInvalidDevice
    assert raw("hipGetDeviceProperties", None, ctypes.c_int(0)) == E.hipErrorInvalidValue
    device = ctypes.c_int(-1)
    assert raw("hipChooseDevice", ctypes.byref(device), ctypes.byref(older)) == E.hipSuccess
    assert device.value == 0
