"""The C core and the CPU device under many threads, plain and with ThreadSanitizer."""

import os
import re
import subprocess

import pytest

from hiprt.native import build


def needs_python(file, folders):
    """Whether a C file includes Python.h, by itself or through headers of these folders."""
    text = file.read_text()
    headers = [folder / name for name in re.findall(r'#include "(.*)"', text) for folder in folders]
    return "<Python.h>" in text or any(needs_python(header, folders) for header in headers if header.exists())


def make(folder, sanitizer, monkeypatch, root):
    """Build the CPU device, the C core and the stress program with a sanitizer."""
    monkeypatch.setenv("HIPRT_BUILD_SANITIZE", sanitizer)
    device = folder / "libhiprt_cpu.so"
    build.build_cpu_device(device, root / "build" / "cpu")
    folders = [build.NATIVE, root / "graphs" / "native"]
    flags = [*build.compile_flags("-std=c11"), *(f"-I{each}" for each in folders)]
    sources = [source for each in folders for source in each.glob("*.c")]
    objects = []
    # Python's objects are not for a program without an interpreter.
    for source in (each for each in sources if not needs_python(each, folders)):
        objects.append(folder / (source.stem + ".o"))
        subprocess.run(["gcc", *flags, "-c", source, "-o", objects[-1]], check=True)
    program = folder / "stress"
    # As Python sees the core: its headers are C's own.
    (folder / "interface.h").write_text(f"#include <stdint.h>\n{build.interface()}")
    include = [*build.compile_flags("-std=c++17"), f"-I{folder}", f"-I{build.NATIVE}"]
    where = ["-L", folder, "-lamdhip64", f"-Wl,-rpath,{folder}", "-pthread", "-ldl"]
    source = root / "tests" / "native" / "stress.cpp"
    subprocess.run(["g++", *include, source, *objects, "-o", program, *where], check=True)
    # The device finds its headers beside itself.
    (folder / "include").symlink_to(root / "hiprt" / "cpu" / "include")
    return program, device


@pytest.mark.timeout(900)
@pytest.mark.parametrize("sanitizer", ["", pytest.param("thread", marks=pytest.mark.wide)])
def test_eight_threads_with_four_streams_each(sanitizer, tmp_path, monkeypatch, root):
    """Open the compiler, record, patch, update, launch eagerly, destroy at once: every result right, no race (G12)."""
    program, device = make(tmp_path, sanitizer, monkeypatch, root)
    environment = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"}
    environment.pop("LD_PRELOAD", None)
    child = subprocess.run(
        [program, device, "8", "4", "40"], capture_output=True, text=True, check=False, env=environment
    )
    assert child.stdout == "ok\n", child.stderr[-4000:]
