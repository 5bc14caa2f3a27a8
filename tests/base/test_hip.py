"""HIP's functions through the C core's table; hiprt needs no hip-python."""

import json
import re
import subprocess
import sys

import pytest

import hiprt
from hiprt import core, hip, library
from hiprt.errors import HipError
from hiprt.hip import call, handle, lib, result

BLOCK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("hip", "rocm"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""
GENERATE = """
from hiprt.__main__ import main
assert main(["generate", "--tokens", "20", "--json"]) == 0
"""


def run(code):
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    return child.stdout


def test_a_decode_without_hip_python_is_the_same_decode():
    """Where it has no wheel (aarch64, say): importing, compiling, graphs, the pool and the copies."""
    texts = [json.loads(run(code).splitlines()[-1])["text"] for code in (BLOCK + GENERATE, GENERATE)]
    assert texts[0]
    assert texts[0] == texts[1]


def test_hip_python_is_not_imported_for_our_own_calls():
    run(GENERATE + "import sys\nassert 'rocm.bindings.hip' not in sys.modules and 'hip' not in sys.modules\n")


def test_without_hip_python_its_handles_are_an_import_error():
    run(
        BLOCK + "import hiprt\nstream = hiprt.Stream()\n"
        "try:\n    stream.hip_stream\nexcept ImportError:\n    stream.close()\nelse:\n    raise AssertionError\n"
    )


def test_handles_of_hip_python_are_accepted_and_handed_out(stream):
    theirs = stream.hip_stream
    assert int(theirs) == stream.handle
    wrapped = hiprt.Stream.from_handle(theirs)
    assert wrapped.handle == stream.handle
    wrapped.close()
    event = hiprt.Event()
    assert int(event.hip_event) == event.handle
    assert int(library.hip().hipEventRecord(event.hip_event, theirs)[0]) == 0
    event.synchronize()
    event.close()


def test_every_function_of_the_list_can_be_called_from_python(root):
    text = (root / "hiprt" / "native" / "hip_functions.h").read_text()
    names = re.findall(r"X\((hip\w+)", text)
    assert len(names) > 60
    assert not [name for name in names if not hasattr(lib, name)]


@pytest.mark.parametrize("name", ["cpu", "nvidia", "null"])
def test_every_library_of_ours_has_what_hiprt_calls(root, name):
    """Without a device: the functions are looked up, and none is called."""
    path = root / "hiprt" / name / f"libhiprt_{name}.so"
    run(
        "from hiprt import core\n"
        f"core.call(core.lib.hiprt_library_open({str(path).encode()!r}))\n"
        f"core.call(core.lib.hiprt_compiler_open({str(path).encode()!r}))\n"
    )


def test_a_failure_names_function_and_status():
    library.current()
    with pytest.raises(HipError, match=r"hipSetDevice: hipErrorInvalidDevice \(101\)") as caught:
        call(lib.hipSetDevice(1 << 20))
    assert (caught.value.code, caught.value.call) == (101, "hipSetDevice")
    with pytest.raises(hiprt.OutOfMemoryError, match=r"hipMalloc: hipErrorOutOfMemory \(2\): all of it"):
        handle(lib.hipMalloc, 1 << 62, detail="all of it")
    assert result("int", lib.hipGetDeviceCount) >= 1


def test_a_failure_of_hiprtc_has_hiprtc_s_name():
    """Its numbers are others: 2 is no lack of memory."""
    from hiprt.compiler import open_compiler

    open_compiler()
    with pytest.raises(HipError, match=r"hiprtcGetCode: HIPRTC_ERROR_\w+") as caught:
        call(lib.hiprtcGetCode(0, core.ffi.NULL))
    assert not isinstance(caught.value, hiprt.OutOfMemoryError)


def test_a_function_that_the_library_lacks_is_an_error():
    code = (
        "import os\nos.environ['HIPRT_PROVIDER'] = 'null'\nimport hiprt\nfrom hiprt.hip import call, lib\n"
        "hiprt.current_device()\n"
        "try:\n    call(lib.hipMemPoolTrimTo(0, 0))\n"
        "except hiprt.HipError as error:\n    print(error)\n"
    )
    assert "hipMemPoolTrimTo: HIPRT_E_LIBRARY (-1): the library lacks it" in run(code)


def test_names_of_statuses_are_those_of_the_header():
    assert core.status_name("hipError_t", 2) == "hipErrorOutOfMemory"
    assert core.status_name("hipError_t", 4711) == "hipError_t 4711"
    assert core.status_name("hiprtcResult", 6) == "HIPRTC_ERROR_COMPILATION"
    assert hip.__all__
