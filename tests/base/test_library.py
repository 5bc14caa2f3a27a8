"""Choosing a HIP library: what is tried, why it is refused, what is already mapped."""

import subprocess
import sys

import pytest

import hiprt
from hiprt import library, provider
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
        (70000000, 0, 100, "it sees no GPU (hipGetDeviceCount: status 100, 0 devices)"),
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


def test_unusable_library_ends_in_the_cpu_device(tmp_path):
    """A ROCm library on a machine without an AMD GPU is named and refused; the CPU device serves."""
    path = build(tmp_path, COUNT.format(version=70000000, count=0, status=100))
    code = "from hiprt import library\nc = library.current()\nprint(c.provider, c.tried[0])"
    child = run(code, HIPRT_HIP_LIB=str(path))
    assert child.stdout.startswith("cpu ('rocm ")
    assert "no AMD GPU" in child.stdout or "sees no GPU" in child.stdout


def test_libraries_on_the_loaders_path_are_found(tmp_path, monkeypatch):
    """As `module load rocm` leaves them: without a link for developers; the CPU device is none of them."""
    build(tmp_path / "rocm", "int x;", "libamdhip64.so.7")
    ours = library.current().hip.parent
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{ours}:{tmp_path / 'empty'}::{tmp_path / 'rocm'}")
    found = list(provider.installed_libraries())
    assert tmp_path / "rocm" / "libamdhip64.so.7" in found
    assert ours not in [path.parent for path in found]


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
    assert lines[0].startswith("cpu rocm ")
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
