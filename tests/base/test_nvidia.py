"""HIP over NVIDIA's driver, with a driver and a compiler that stand in for NVIDIA's on a machine without a GPU."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hiprt import provider
from hiprt.native import build

NVIDIA = provider.PACKAGE / "nvidia"
# A program in C compiles and loads in these calls.
COMPILE_AND_LOAD = """
import ctypes, sys
hip = ctypes.CDLL(sys.argv[1])
device, *options = sys.argv[2:]
assert hip.hipSetDevice(int(device)) == 0
program, module, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
assert hip.hiprtcCreateProgram(ctypes.byref(program), sys.stdin.buffer.read(), b"", 0, None, None) == 0
texts = (ctypes.c_char_p * len(options))(*map(str.encode, options))
assert hip.hiprtcCompileProgram(program, len(options), texts) == 0
assert hip.hiprtcGetCodeSize(program, ctypes.byref(size)) == 0
code = ctypes.create_string_buffer(size.value)
assert hip.hiprtcGetCode(program, code) == 0
print(code.value.decode(), hip.hipModuleLoadData(ctypes.byref(module), code))
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """The driver that stands in."""
    return build_shared(tmp_path_factory.mktemp("driver") / "libcuda.so.1", Path(__file__).with_name("nvidia_driver.c"))


@pytest.fixture(scope="module")
def compiler(driver, tmp_path_factory):
    """The compiler that stands in, in a folder that the loader does not search, with a second library that it opens."""
    folder = tmp_path_factory.mktemp("compiler")
    (folder / "empty.c").touch()
    build_shared(folder / "libnvrtc-builtins.so.13.0", folder / "empty.c")
    return Path(shutil.copy(driver, folder / "libnvrtc.so.13"))


def build_shared(target, source):
    """Compile one file into a shared library of the target's name."""
    command = ["gcc", "-shared", "-fPIC", f"-I{build.INCLUDE}", f"-I{NVIDIA}", f"-Wl,-soname,{target.name}", source]
    subprocess.run([*command, "-o", target], check=True)
    return target


def compile_and_load(driver, compiler, device=0, options=(), source=""):
    """What the program prints: its code up to a NUL, and how loading it ended."""
    command = [sys.executable, "-c", COMPILE_AND_LOAD, NVIDIA / "libamdhip64.so", str(device), *options]
    given = {**os.environ, "LD_LIBRARY_PATH": str(driver.parent), "HIPRT_NVRTC_LIB": str(compiler)}
    child = subprocess.run(command, env=given, input=source, capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    return child.stdout.strip()


@pytest.mark.parametrize(
    ("device", "options", "wanted"),
    [
        (0, [], "sm_90a 0"),
        (1, ["-O3", "-std=c++17"], "sm_80 0"),
        (0, ["--offload-arch=sm_80"], "sm_80 200"),
        (1, ["--gpu-architecture=compute_80"], "compute_80 0"),
    ],
)
def test_a_program_without_a_target_is_compiled_for_the_threads_device(driver, compiler, device, options, wanted):
    """HIP's rule; NVRTC's own target has no machine code, and an empty image was loaded for it."""
    assert compile_and_load(driver, compiler, device, options) == wanted


@pytest.mark.parametrize("library", ["cpu", "nvidia"])
def test_what_hip_lacks_is_exported(library):
    """A function that the core finds in none of its libraries is quietly done without."""
    header = (build.INCLUDE / "hip" / "hiprt_graph_api.h").read_text()
    listed = ["nm", "-D", "--defined-only", provider.PACKAGE / library / "libamdhip64.so"]
    exported = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    declared = set(re.findall(r"hipError_t (\w+)\(", header))
    assert declared
    assert declared <= set(re.findall(r"\bhiprt\w+", exported))


@pytest.mark.skipif(provider.nvrtc_library() is None, reason="NVIDIA's compiler is not installed")
@pytest.mark.parametrize("file", ["examples/c/decode.c", "examples/cpp/block.cpp", "tests/native/steps/lane.h"])
def test_nvidias_compiler_takes_the_kernels_of_programs_in_c(driver, root, file):
    """Its headers declare more functions than HIP's, whose names a kernel with C linkage cannot have."""
    text = (root / file).read_text()
    raw = re.search(r'R"\((.*?)\)"', text, re.DOTALL)
    lines = re.findall(r'^    "(.*)\\n";?$', text, re.MULTILINE)
    source = raw.group(1) if raw else "\n".join(lines).replace('\\"', '"')
    assert "__global__" in source
    assert "\x7fELF" in compile_and_load(driver, provider.nvrtc_library(), source=source)
