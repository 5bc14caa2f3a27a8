"""The C core and the CPU device under many threads, plain and with ThreadSanitizer."""

import subprocess

import pytest
from helpers.native import build_device, run_sanitized

from hiprt.native import build


def make(folder, sanitizer, monkeypatch, root):
    """Build the CPU device, the C core and the stress program with a sanitizer."""
    device = build_device(folder, sanitizer, monkeypatch, root)
    compilers = build.library_compilers()
    with build.objects_folder(root / "build" / "libhiprt", compilers) as where:
        objects = build.compile_all(build.plain_sources(), where, compilers)
    program = folder / "stress"
    # As Python sees the core: its headers are C's own.
    (folder / "interface.h").write_text(f"#include <stdint.h>\n{build.interface()}")
    include = [*build.compile_flags("-std=c++17"), f"-I{folder}", f"-I{build.NATIVE}"]
    linked = [f"-L{device.parent}", "-lamdhip64", f"-Wl,-rpath,{device.parent}", "-pthread", "-ldl"]
    source = root / "tests" / "native" / "stress.cpp"
    subprocess.run(["g++", *include, source, *objects, "-o", program, *linked], check=True)
    return program, device


@pytest.mark.wide
@pytest.mark.timeout(900)
@pytest.mark.parametrize("sanitizer", ["", "thread"])
def test_eight_threads_with_four_streams_each(sanitizer, tmp_path, monkeypatch, root):
    """Open the compiler, record, patch, update, launch eagerly, destroy at once: every result right, no race (G12)."""
    program, device = make(tmp_path, sanitizer, monkeypatch, root)
    assert run_sanitized(program, device, 8, 4, 40) == "ok\n"
