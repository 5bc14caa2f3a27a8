"""These tests call the CPU device through hip-python, with nothing of ours in between."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rocm.bindings.util import paths


def package(name):
    """Return the folder of an installed package without importing it."""
    spec = importlib.util.find_spec(name)
    return Path(spec.submodule_search_locations[0]) if spec else None


@pytest.fixture(scope="session")
def library():
    """The CPU device's file."""
    return package("hiprt") / "cpu" / "libhiprt_cpu.so"


@pytest.fixture(scope="session", autouse=True)
def cpu_device(library):
    """Point hip-python at the CPU device before its first call, and the device at the compiler users have."""
    paths.get_library_path = lambda *_, **__: os.fsencode(library)
    if zig := package("ziglang"):
        os.environ.setdefault("HIPRT_CPU_ZIG", str(zig / "zig"))


@pytest.fixture
def sanitized(library):
    """Return whether the device is built with a sanitizer that handles faults itself."""
    built = library.read_bytes()
    return b"__asan_init" in built or b"__tsan_init" in built


PREAMBLE = """
import ctypes, os, sys
import numpy as np
from rocm.bindings.util import paths
paths.get_library_path = lambda *_, **__: os.fsencode(sys.argv[1])
from rocm.bindings import hip
from helpers.hip_calls import E, KIND, Gate, Ints, error, functions, ok, raw
"""


@pytest.fixture
def python(library, root):
    """Run Python code on the CPU device in a process of its own, which reads the environment; return what it prints."""

    def run(code, **environment):
        environment = {**os.environ, "PYTHONPATH": str(root / "tests"), **environment}
        command = [sys.executable, "-c", PREAMBLE + code, str(library)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def check(library, root, tmp_path):
    """Run a program with checks on; return its findings."""

    def run(code, *arguments, kinds="all", **environment):
        report = tmp_path / "report.jsonl"
        report.unlink(missing_ok=True)
        settings = {"PYTHONPATH": f"{root}{os.pathsep}{root / 'tests'}", "HIPRT_CPU_CHECK": kinds}
        settings |= {"HIPRT_CPU_CHECK_REPORT": str(report), **environment}
        command = [sys.executable, "-c", code, str(library), *map(str, arguments)]
        done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []

    return run


@pytest.fixture
def counted(tmp_path):
    """A compiler that writes a line to a file each time it runs, and that file: their paths."""
    real = os.environ.get("HIPRT_CPU_COMPILER") or os.environ["HIPRT_CPU_ZIG"]
    log = tmp_path / "runs"
    name = "zig" if "zig" in Path(real).name else Path(real).name
    script = tmp_path / "bin" / name
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\necho "$*" >> {log}\nexec {real} "$@"\n')
    script.chmod(0o755)
    return script, log
