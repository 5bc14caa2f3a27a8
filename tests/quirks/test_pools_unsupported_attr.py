"""Up to 6.1 the device says that it has no pools, and the calls work (CLR hip_device_runtime.cpp:437)."""

from helpers.child import child
from helpers.hip_calls import ok
from quirks.decode import decode_on_driver, expected
from rocm.bindings import hip

QUIRK = "pools_unsupported_attr"


def ask_and_try():
    supported = hip.hipDeviceAttribute_t.hipDeviceAttributeMemoryPoolsSupported
    memory = ok(hip.hipMallocAsync(64, None))
    ok(hip.hipFreeAsync(memory, None))
    return ok(hip.hipDeviceGetAttribute(supported, 0))


def test_the_attribute_says_no():
    assert child(ask_and_try, quirks=QUIRK) == 0
    assert child(ask_and_try) == 1


def test_arrays_need_no_pools():
    assert child(decode_on_driver, quirks=QUIRK) == expected()
