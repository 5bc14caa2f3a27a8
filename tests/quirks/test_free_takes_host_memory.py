"""CLR's hipFree frees the host memory that HIP gave out, which HIP's documentation calls an invalid pointer."""

from helpers.child import child
from quirks.decode import decode_on_driver, expected
from rocm.bindings import hip

QUIRK = "free_takes_host_memory"


def free_host_memory():
    """Free host memory as if it were the device's, and then by its own name."""
    memory = hip.hipHostMalloc(64, 0)[1]
    return [hip.hipFree(memory)[0].name, hip.hipHostFree(memory)[0].name]


def test_host_memory_is_freed():
    assert child(free_host_memory, quirks=QUIRK) == ["hipSuccess", "hipErrorInvalidValue"]
    assert child(free_host_memory) == ["hipErrorInvalidValue", "hipSuccess"]


def test_steps():
    assert child(decode_on_driver, quirks=QUIRK) == expected()
