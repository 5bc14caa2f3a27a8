"""Programs in C and C++ that use the core without Python, built with a sanitizer or none."""

import os
import shlex
import subprocess

import pytest

from hiprt.native import build

# For tests of such programs, each of which takes long with one.
SANITIZERS = [
    "",
    pytest.param("address,undefined", marks=pytest.mark.wide(turn="each")),
    pytest.param("thread", marks=pytest.mark.wide(turn="each")),
]


def build_device(folder, sanitizer, monkeypatch, root):
    """Build the CPU device with a sanitizer into a folder; return its file, or without one that which is there."""
    if not sanitizer:
        return build.library_file(root / "hiprt", "cpu")
    monkeypatch.setenv("HIPRT_BUILD_SANITIZE", sanitizer)
    device = build.library_file(folder, "cpu")
    build.build_cpu_device(device, root / "build" / "cpu")
    # The device finds its headers beside itself.
    (device.parent / "include").symlink_to(root / "hiprt" / "cpu" / "include")
    return device


def build_with_library(folder, source, sanitizer, monkeypatch, root):
    """Build a program that uses the CPU device and libhiprt, and with a sanitizer these too; return the program."""
    device = build_device(folder, sanitizer, monkeypatch, root)
    library = build.library_target(folder if sanitizer else root / "hiprt")
    if sanitizer:
        build.build_library(library, root / "build" / "libhiprt")
    program = folder / source.stem
    compiler, standard = ("CXX", "-std=c++17") if source.suffix == ".cpp" else ("CC", "-std=c11")
    where = [f"-L{library.parent}", "-lhiprt", f"-L{device.parent}", "-lamdhip64"]
    where.append(f"-Wl,-rpath,{library.parent}:{device.parent}")
    chosen = shlex.split(os.environ.get(compiler, {"CC": "gcc", "CXX": "g++"}[compiler]))
    flags = build.compile_flags(standard)
    subprocess.run([*chosen, *flags, str(source), "-o", str(program), *where, "-pthread"], check=True)
    return program


def run_sanitized(program, *arguments, **environment):
    """Run a program; a report of a sanitizer, or five minutes, end it with an error. Return its output."""
    options = {"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1", "UBSAN_OPTIONS": "halt_on_error=1"}
    given = {**os.environ, **options, **environment}
    given.pop("LD_PRELOAD", None)
    command = [program, *map(str, arguments)]
    try:
        child = subprocess.run(command, capture_output=True, text=True, check=False, env=given, timeout=300)
    except subprocess.TimeoutExpired as late:
        raise AssertionError(f"{late}: {late.stdout}\n{late.stderr}") from None
    assert child.returncode == 0, f"status {child.returncode}: {child.stdout[-2000:]}\n{child.stderr[-4000:]}"
    return child.stdout
