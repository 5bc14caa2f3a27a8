"""Choosing a HIP library: what is tried, why it is refused, what is already mapped."""

import os
import subprocess
import sys
import threading

import pytest

import hiprt
from hiprt import hip_versions, library, provider
from hiprt.errors import HipWarning, ProviderError


def build(folder, body, name="libamdhip64.so"):
    """Compile a library that stands for a ROCm runtime."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "fake.c"
    source.write_text(body)
    path = folder / name
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(path), str(source)], check=True)
    return path


COUNT = """
int hipRuntimeGetVersion(int *v) {{ *v = {version}; return 0; }}
int hipGetDeviceCount(int *n) {{ *n = {count}; return {status}; }}
"""


@pytest.mark.parametrize(
    ("version", "count", "status", "reason"),
    [
        (70000000, 0, 100, "it sees no GPU (hipGetDeviceCount: hipErrorNoDevice (100), 0 devices)"),
        (70000000, 0, 0, "it sees no GPU"),
        (50220730, 1, 0, "HIP 5.2 is too old; 6.0 or newer is needed"),
        (71526333, 1, 0, None),
    ],
)
def test_probe_says_why(tmp_path, version, count, status, reason):
    """A library without a GPU, or too old, is refused with the reason."""
    path = build(tmp_path, COUNT.format(version=version, count=count, status=status))
    found = provider.probe(path)
    assert found is None if reason is None else found.startswith(reason)


def test_library_that_aborts_costs_only_a_child_process(tmp_path):
    """Initialising ROCm without a GPU may abort; the process goes on with the reason."""
    body = "#include <stdlib.h>\nint hipRuntimeGetVersion(int *v) { abort(); }"
    assert "crashed a test process" in provider.probe(build(tmp_path, body))


def test_missing_symbols_and_wrong_files_are_refused(tmp_path):
    """Not a HIP library at all."""
    assert "crashed a test process" in provider.probe(build(tmp_path, "int x;"))
    text = tmp_path / "text.so"
    text.write_text("not ELF")
    assert "invalid ELF header" in provider.probe(text) or "file too short" in provider.probe(text)
    assert provider.refusal(tmp_path / "absent.so") == "no such file"


@pytest.mark.only("cpu", reason="a GPU that is there is used")
def test_this_process_uses_the_cpu_device_and_says_why():
    """Without a GPU: cpu, with rocm's and nvidia's reasons."""
    chosen = library.current()
    assert chosen.provider is provider.CPU
    assert chosen.hip.name == "libhiprt_cpu.so"
    reasons = {name.split()[0]: reason for name, reason in chosen.tried}
    assert reasons["rocm"]
    assert "no NVIDIA driver (libcuda.so.1) or no GPU: status 100" in reasons["nvidia"]


def run(code, **environment):
    """Run code in a process of its own."""
    import os

    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def test_rocm_asked_for_by_name_lists_what_was_tried(tmp_path):
    """HIPRT_PROVIDER=rocm on a machine without a GPU ends in one error with each reason, not in a crash."""
    code = "import hiprt\nprint(hiprt.current_device())"
    child = run(code, HIPRT_PROVIDER="rocm", HIPRT_HIP_LIB=str(tmp_path / "absent.so"))
    assert child.returncode != 0
    assert "no HIP library can be used (HIPRT_PROVIDER=rocm)" in child.stderr
    assert "absent.so: no such file" in child.stderr


def test_unusable_library_ends_in_another_device(tmp_path):
    """A ROCm library on a machine without an AMD GPU is named and refused; what there is serves."""
    path = build(tmp_path, COUNT.format(version=70000000, count=0, status=100))
    code = "from hiprt import library\nc = library.current()\nprint(c.provider, c.tried[0])"
    child = run(code, HIPRT_HIP_LIB=str(path))
    assert child.stdout.startswith(f"{library.current().provider} ('rocm ")
    assert "no AMD GPU" in child.stdout or "sees no GPU" in child.stdout


def test_libraries_on_the_loaders_path_are_found(tmp_path, monkeypatch):
    """As `module load rocm` leaves them: without a link for developers; the CPU device is none of them."""
    build(tmp_path / "rocm", "int x;", "libamdhip64.so.7")
    ours = library.current().hip.parent
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{ours}:{tmp_path / 'empty'}::{tmp_path / 'rocm'}")
    found = list(provider.installed_libraries())
    assert tmp_path / "rocm" / "libamdhip64.so.7" in found
    assert ours not in [path.parent for path in found]


def fake_ldconfig(folder, monkeypatch, files):
    """A linker's cache with these files."""
    folder.mkdir(exist_ok=True)
    script = folder / "ldconfig"
    lines = [f"{len(files)} libs found in cache", *(f"\t{path.name} (libc6,x86-64) => {path}" for path in files)]
    script.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(lines) + "\nEND\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def touch(folder, *names):
    """Empty files that stand for libraries."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def rocm_libraries(monkeypatch, reasons=()):
    """What `find_rocm` yields and refuses where each library works but those in `reasons`."""
    monkeypatch.setattr(provider, "mapped_libraries", list)
    monkeypatch.setattr(provider, "refusal", dict(reasons).get)
    refused = []
    return list(provider.find_rocm(refused)), refused


def test_a_distribution_s_library_is_found_with_its_folder(tmp_path, monkeypatch):
    """The linker's cache names folders; a bare name would have the compiler looked for in the current folder."""
    folder = touch(tmp_path / "lib", "libamdhip64.so.6", "libhiprtc.so.6", "libamdhip64.so.7.2")
    fake_ldconfig(tmp_path / "bin", monkeypatch, [folder / "libamdhip64.so.6", folder / "libm.so.6"])
    monkeypatch.chdir(touch(tmp_path / "elsewhere", "libhiprtc.so"))
    assert provider.in_linker_cache("libamdhip64.so") == [folder / "libamdhip64.so.6"]
    found, _ = rocm_libraries(monkeypatch)
    assert provider.Files(folder / "libamdhip64.so.6", *[folder / "libhiprtc.so.6"] * 2) in found
    assert provider.named_library("libamdhip64.so.6") == folder / "libamdhip64.so.6"
    assert provider.named_library("./libamdhip64.so.6") == tmp_path / "elsewhere" / "libamdhip64.so.6"


def test_several_versions_side_by_side_are_all_tried_the_newest_first(tmp_path, monkeypatch):
    """An old runtime that is left beside the one that works must not hide it."""
    names = ["libamdhip64.so.5", "libamdhip64.so.10", "libamdhip64.so.7", "libhiprtc.so.5", "libhiprtc.so.10"]
    folder = touch(tmp_path / "lib", *names, "libhiprtc.so.7", "libamdhip64.sorry")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    reasons = {folder / "libamdhip64.so.10": "it sees no GPU"}
    found, refused = rocm_libraries(monkeypatch, reasons)
    ours = [files for files in found if files.hip.parent == folder]
    assert [(files.hip.name, files.hiprtc.name) for files in ours] == [
        ("libamdhip64.so.7", "libhiprtc.so.7"),
        ("libamdhip64.so.5", "libhiprtc.so.5"),
    ]
    assert (f"rocm {folder / 'libamdhip64.so.10'}", "it sees no GPU") in refused


def test_a_link_and_its_file_are_one_library(tmp_path):
    """The link without a version is the administrator's choice and comes first."""
    folder = touch(tmp_path, "libamdhip64.so.6.4.1", "libamdhip64.so.7.2.0")
    (folder / "libamdhip64.so.6").symlink_to("libamdhip64.so.6.4.1")
    (folder / "libamdhip64.so").symlink_to("libamdhip64.so.6")
    found = [path.name for path in provider.versions_in(folder, "libamdhip64.so")]
    assert found == ["libamdhip64.so", "libamdhip64.so.7.2.0"]


def test_the_compiler_is_of_the_runtime_s_version(tmp_path):
    """Same version first, then same major version, a file without a version, and never another major version."""
    folder = touch(tmp_path / "a", "libamdhip64.so.7.2.5", "libhiprtc.so.7.2.5", "libhiprtc.so.7.9.0", "libhiprtc.so.6")
    assert provider.beside(folder / "libamdhip64.so.7.2.5", "libhiprtc.so").name == "libhiprtc.so.7.2.5"
    (folder / "libhiprtc.so.7.2.5").unlink()
    assert provider.beside(folder / "libamdhip64.so.7.2.5", "libhiprtc.so").name == "libhiprtc.so.7.9.0"
    (folder / "libhiprtc.so.7.9.0").unlink()
    assert provider.beside(folder / "libamdhip64.so.7.2.5", "libhiprtc.so") is None
    wheel = touch(tmp_path / "wheel", "libamdhip64.so", "libhiprtc.so")
    assert provider.beside(wheel / "libamdhip64.so", "libhiprtc.so") == wheel / "libhiprtc.so"
    link = touch(tmp_path / "links") / "libamdhip64.so"
    link.symlink_to(wheel / "libamdhip64.so")
    assert provider.beside(link, "libhiprtc.so") == wheel / "libhiprtc.so"


def test_a_runtime_without_a_compiler_never_stands_in_for_it(tmp_path, monkeypatch):
    """It comes last, for kernels compiled ahead, and an error names what is missing where."""
    alone = touch(tmp_path / "alone", "libamdhip64.so.7")
    whole = touch(tmp_path / "whole", "libamdhip64.so.6", "libhiprtc.so.6")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{alone}:{whole}")
    found = [files for files in rocm_libraries(monkeypatch)[0] if tmp_path in files.hip.parents]
    assert [files.hip.parent for files in found] == [whole, alone]
    assert found[-1].hiprtc == alone / "libhiprtc.so.7"
    code = f"""
from pathlib import Path
from hiprt import compiler, library, provider
path = Path({str(alone)!r})
files = provider.Files(path / "libamdhip64.so.7", path / "libhiprtc.so.7", path / "libhiprtc.so.7")
library.chosen = library.Library(provider.ROCM, *files, 70200000)
compiler.open_compiler()
"""
    child = run(code)
    assert f"{alone}/libhiprtc.so.7: missing beside {alone}/libamdhip64.so.7: install" in child.stderr


def test_a_device_node_that_may_not_be_opened_is_named(tmp_path, monkeypatch):
    """The usual cause of "no GPU" for a new user."""
    monkeypatch.setattr(provider, "GPU_NODES", (str(tmp_path / "kfd"),))
    assert "this machine has no AMD GPU" in provider.refusal(tmp_path)
    (tmp_path / "kfd").touch()
    monkeypatch.setattr(provider.os, "access", lambda *_: False)
    assert "may not open" in provider.refusal(tmp_path)
    assert "render" in provider.refusal(tmp_path)


@pytest.mark.parametrize(
    ("arch", "version", "first"),
    [("gfx1151", 60400000, "7.2"), ("gfx950", 60400000, "7.0"), ("gfx1201", 60300000, "6.4")],
)
def test_a_runtime_that_is_older_than_its_gpu_is_named(arch, version, first):
    """The cause of status 209 when a module is loaded, and of crashes in hipMalloc."""
    text = hip_versions.shortfall("rocm", arch, version)
    assert f"older than {first}, the first that is known to run kernels on {arch}" in text
    assert not hip_versions.shortfall("cpu", arch, version)
    assert not hip_versions.shortfall("rocm", arch, 70200000)
    assert not hip_versions.shortfall("rocm", "gfx942", 60000000)


@pytest.mark.only("cpu", reason="the arch of the device is made up")
def test_a_module_that_is_not_loaded_names_the_shortfall():
    """hipErrorNoBinaryForGpu alone says nothing of the runtime's age."""
    code = """
import warnings
from hiprt import device, library, module, hip_versions
hip_versions.FIRST_HIP["cpu", "hiprt"] = 990000000
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    found = device.current_device()
print(caught[0].message)
try:
    module.Module(b"no code")
except Exception as error:
    print(error)
"""
    child = run(code)
    warned, failed = child.stdout.splitlines()
    assert "older than 99.0, the first that is known to run kernels on hiprt-cpu" in warned
    assert "hipModuleLoadData" in failed
    assert "install a newer ROCm" in failed


def test_mapped_libraries_come_first_and_two_are_warned_about(tmp_path):
    """torch brings its own libamdhip64: use the mapped one; with two mapped, say so."""
    first = build(tmp_path / "a", COUNT.format(version=70000000, count=0, status=100))
    second = build(tmp_path / "b", COUNT.format(version=70000000, count=0, status=100))
    assert not provider.mapped_libraries()
    code = f"""
import ctypes, warnings
from hiprt import library, provider
ctypes.CDLL({str(first)!r})
assert provider.mapped_libraries() == [provider.Path({str(first)!r})]
ctypes.CDLL({str(second)!r})
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    chosen = library.current()
print(chosen.provider, chosen.tried[0][0])
print([str(w.message) for w in caught])
"""
    child = run(code)
    assert child.returncode == 0, child.stderr
    lines = child.stdout.splitlines()
    assert lines[0].startswith(f"{library.current().provider} rocm ")
    assert "two HIP libraries are mapped" in lines[1]


def test_library_without_needed_functions_is_refused(tmp_path):
    """The C core names the function that is missing."""
    path = build(tmp_path, COUNT.format(version=71526333, count=1, status=0))
    tried = []
    code = f"""
from pathlib import Path
from hiprt import library, provider
tried = []
path = Path({str(path)!r})
assert library.open_library(provider.ROCM, provider.Files(path, path, path), tried) is None
print(tried)
"""
    child = run(code)
    assert "hipSetDevice is missing" in child.stdout, child.stderr
    assert not tried


ERROR_OF_A_PROGRAM = """
#include <hip/hip_runtime.h>
int last_error(void) { return hipSetDevice(1 << 20) ? (int)hipGetLastError() : 0; }
int devices(void) { int n = 0; return hipGetDeviceCount(&n) ? -1 : n; }
"""


@pytest.mark.only("cpu", reason="the program is linked with the CPU device")
def test_a_program_finds_the_library_it_was_linked_with(tmp_path):
    """Whatever was tried and refused before in its process: here NVIDIA's, which has fewer functions (docs/cpu.md)."""
    device = library.current().hip.parent
    source, program = tmp_path / "program.c", tmp_path / "libprogram.so"
    source.write_text(ERROR_OF_A_PROGRAM)
    include = device.parent / "native" / "include"
    link = [f"-L{device}", "-lamdhip64", f"-Wl,-rpath,{device}"]
    subprocess.run(["gcc", "-shared", "-fPIC", f"-I{include}", str(source), "-o", str(program), *link], check=True)
    code = f"""
import ctypes, hiprt
print(hiprt.current_device().provider)
program = ctypes.CDLL({str(program)!r}, mode=ctypes.RTLD_GLOBAL)
print(program.last_error(), program.devices())
print(*sorted({{line.split("/")[-1].strip() for line in open("/proc/self/maps") if "libhiprt_" in line}}))
print("libamdhip64" in open("/proc/self/maps").read())
"""
    child = run(code, HIPRT_PROVIDER="auto", HIPRT_CPU_DEVICES="3")
    assert child.stdout.splitlines() == ["cpu", "101 3", "libhiprt_cpu.so", "False"], child.stderr


@pytest.mark.parametrize("name", ["cpu", "nvidia", "null"])
def test_the_hip_name_is_a_link_to_a_library_with_a_name_of_its_own(name):
    """The loader knows a library by the name within the file."""
    folder = provider.PACKAGE / name
    assert (folder / "libamdhip64.so").resolve() == (folder / f"libhiprt_{name}.so").resolve()
    dynamic = subprocess.run(
        ["readelf", "-d", folder / "libamdhip64.so"], capture_output=True, text=True, check=True
    ).stdout
    assert f"Library soname: [libhiprt_{name}.so]" in dynamic


# What programs that are linked with a provider's library call beside what hiprt itself needs.
PLAIN = """
hipGetLastError hipPeekAtLastError hipGetErrorName hipGetErrorString hipMalloc hipFree hipHostMalloc hipHostFree
hipHostAlloc hipMallocHost hipFreeHost hipMemcpy hipMemcpyAsync hipMemcpyWithStream hipMemcpyHtoD hipMemcpyDtoH
hipMemcpyDtoD hipMemcpyHtoDAsync hipMemcpyDtoHAsync hipMemcpyDtoDAsync hipMemset hipMemsetAsync hipMemsetD8Async
hipMemsetD16Async hipMemsetD32 hipMemsetD32Async hipModuleLoadData hipModuleGetFunction hipModuleLaunchKernel
hipStreamCreate hipStreamDestroy hipStreamSynchronize hipDeviceSynchronize hipEventCreate hipEventRecord
hiprtcCreateProgram hiprtcCompileProgram
""".split()
ERRORS = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.hipGetErrorName.restype = library.hipGetErrorString.restype = ctypes.c_char_p
print(library.hipGetLastError(), library.hipInit(1), library.hipPeekAtLastError(), library.hipGetLastError())
print(library.hipGetLastError(), library.hipInit(0) * 0)
for code in range(1100):
    print(code, library.hipGetErrorName(code), library.hipGetErrorString(code))
"""


@pytest.mark.parametrize("name", ["cpu", "nvidia"])
def test_a_library_has_what_linked_programs_call(name):
    """Without a driver too: the symbols are there, and the thread's last error is remembered until it is read."""
    library = provider.PACKAGE / name / "libamdhip64.so"
    listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    assert set(PLAIN) <= set(listed.split())
    child = run_script(ERRORS, library)
    assert child.splitlines()[:2] == ["0 1 1 1", "0 0"]
    assert f"1 {b'hipErrorInvalidValue'} {b'invalid argument'}" in child
    assert child == run_script(ERRORS, provider.PACKAGE / "cpu" / "libamdhip64.so")


def run_script(code, *arguments):
    """What a program prints in a process of its own."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_choice_is_final(tmp_path):
    """A second library cannot be opened in one process."""
    library.current()
    other = build(tmp_path, "int x;")
    from hiprt import core

    with pytest.raises(hiprt.HipError):
        core.call(core.lib.hiprt_library_open(str(other).encode()))


def test_provider_error_is_one_text_with_every_reason():
    """For people."""
    error = ProviderError("no HIP library can be used", [("rocm", "no GPU"), ("cpu", "not built")])
    assert str(error) == "no HIP library can be used\n  rocm: no GPU\n  cpu: not built"
    assert issubclass(HipWarning, RuntimeWarning)


def test_a_device_is_opened_ahead_by_another_thread(monkeypatch):
    """The call returns while the device is still being opened."""
    is_asked, may_go, seen = threading.Event(), threading.Event(), []

    def describe(index):
        is_asked.set()
        assert may_go.wait(60)
        seen.append((index, threading.current_thread()))
        return hiprt.current_device()

    device = hiprt.current_device()
    monkeypatch.setattr(hiprt.device, "describe", lambda index: device if may_go.is_set() else describe(index))
    hiprt.open_ahead(0)
    assert is_asked.wait(60)
    (thread,) = [each for each in threading.enumerate() if each.name == "hiprt opens a device"]
    may_go.set()
    thread.join()
    assert seen == [(0, thread)]


AHEAD = """
import os, threading, hiprt
hiprt.open_ahead({index})
[thread.join() for thread in threading.enumerate() if thread is not threading.current_thread()]
from hiprt import library
print(library.is_open())
print(hiprt.zeros(4).tolist())
"""


@pytest.mark.parametrize(
    ("provider", "index", "told", "error"),
    [
        ("cpu", "", "True\n[0.0, 0.0, 0.0, 0.0]\n", ""),
        ("cpu", "7", "True\n[0.0, 0.0, 0.0, 0.0]\n", ""),
        ("rocm", "", "False\n", "ProviderError: no HIP library can be used"),
    ],
)
def test_what_goes_wrong_ahead_is_an_error_of_the_first_call(provider, index, told, error, tmp_path):
    """A device that is not there, a library that is not there: nothing is said of it before that call."""
    missing = "" if provider == "cpu" else str(tmp_path / "absent.so")
    environment = os.environ | {"HIPRT_PROVIDER": provider, "HIPRT_HIP_LIB": missing}
    command = [sys.executable, "-W", "error", "-c", AHEAD.format(index=index)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout == told
    assert error in done.stderr
    assert done.stderr.count("Traceback") == bool(error)
