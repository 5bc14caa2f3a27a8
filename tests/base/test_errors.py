"""Statuses become exceptions in one place."""

import pickle
from enum import IntEnum

import pytest

from hiprt import core
from hiprt.errors import CompileError, HipError, OutOfMemoryError, ProviderError, check


class Status(IntEnum):
    """Stands for hipError_t."""

    hipSuccess = 0
    hipErrorInvalidValue = 1
    hipErrorOutOfMemory = 2


def test_check_returns_the_values():
    """Nothing, one value or several."""
    assert check(Status.hipSuccess, "f") is None
    assert check((Status.hipSuccess,), "f") is None
    assert check((Status.hipSuccess, 5), "f") == 5
    assert check((Status.hipSuccess, 5, 6), "f") == (5, 6)


def test_check_names_the_call():
    """The exception carries code, name and call."""
    with pytest.raises(HipError, match=r"hipFree: hipErrorInvalidValue \(1\)") as caught:
        check((Status.hipErrorInvalidValue, 5), "hipFree")
    assert (caught.value.code, caught.value.name, caught.value.call) == (1, "hipErrorInvalidValue", "hipFree")


def test_out_of_memory_is_a_memory_error():
    """Callers may catch Python's own exception."""
    with pytest.raises(MemoryError):
        check(Status.hipErrorOutOfMemory, "hipMalloc")


@pytest.mark.parametrize(
    "error",
    [
        HipError(1, "n", "c", "d"),
        OutOfMemoryError(2, "n", "c"),
        CompileError(6, "n", "c", "d", "log"),
        ProviderError("none", [("rocm", "no GPU")]),
    ],
)
def test_errors_survive_pickling(error):
    """Errors cross process boundaries whole."""
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_core_failure_names_the_call_and_the_cause():
    """A status of the C core is raised with its own name."""
    stream = core.create("hiprt_stream", core.lib.hiprt_stream_release, core.lib.hiprt_stream_create, 0, 0)
    with pytest.raises(HipError, match=r"hiprt_fill: HIPRT_E_ARGUMENT .*width must be 1, 2 or 4"):
        core.call(core.lib.hiprt_fill(stream, 0, 0, 3, 1))


def test_core_refuses_host_copies_in_a_recording():
    """A host address in a node would be read long after its owner is gone (parents' bug 20)."""
    from helpers.recorder import Program

    p = Program()
    with pytest.raises(HipError, match="a host copy cannot be part of a recorded step"):
        core.call(core.lib.hiprt_copy(p.stream, 0, 0, 4, 1))
