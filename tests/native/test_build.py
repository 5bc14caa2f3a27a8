"""The build of the native code: several at a time, which share their objects."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from setuptools import Distribution, Extension

from hiprt.native import build

COMPILER = """#!/bin/sh
# Writes an object in two steps; the linker takes those only that this compiler has finished.
case "$*" in *--version) cat "$0"; exit ;; esac
for each; do
  case "$last$each" in -o*) out="$each" ;; esac
  case "$each" in -o) last=-o ;; -c) compiles=1 ;; *.o) objects="$objects $each"; last= ;; *) last= ;; esac
done
if [ -n "$compiles" ]; then
  echo "$out:" > "${out%.o}.d"
  printf begun > "$out"; sleep 0.05; printf %s "$0" > "$out"
else
  for each in $objects; do [ "$(cat "$each")" = "$0" ] || { echo "$each: $(cat "$each")" >&2; exit 1; }; done
  : > "$out"
fi
"""
BUILD_LIBRARY = """
import sys
from pathlib import Path
from hiprt.native.build import build_library
build_library(*map(Path, sys.argv[1:]))
"""


def compiler(file):
    """Write a compiler to a file and return its command."""
    file.write_text(COMPILER)
    file.chmod(0o755)
    return str(file)


def test_two_builds_of_one_folder(tmp_path, monkeypatch):
    """Neither links an object that the other one still writes."""
    monkeypatch.setenv("CC", compiler(tmp_path / "cc"))
    command = [sys.executable, "-c", BUILD_LIBRARY]
    builds = [
        subprocess.Popen([*command, tmp_path / f"{n}.so", tmp_path / "objects"], stderr=subprocess.PIPE, text=True)
        for n in range(3)
    ]
    assert [(each.communicate()[1], each.returncode) for each in builds] == [("", 0)] * 3


def test_each_compiler_has_objects_of_its_own(tmp_path, monkeypatch):
    """A wheel for another processor is built in the folder that this machine's own build has left."""
    for name in ("cc", "cross-cc", "cc"):
        monkeypatch.setenv("CC", compiler(tmp_path / name))
        build.build_library(tmp_path / "libhiprt.so", tmp_path / "objects")


def test_each_version_of_a_compiler_has_objects_of_its_own(tmp_path):
    """It may have been replaced, and does not read what another one precompiled."""
    named = compiler(tmp_path / "cc")
    with build.objects_folder(tmp_path, {".c": [named]}) as first:
        pass
    (tmp_path / "cc").write_text(f"{COMPILER}# another\n")
    with build.objects_folder(tmp_path, {".c": [named]}) as second:
        assert second != first


def test_what_changed_is_compiled_again(tmp_path, monkeypatch):
    """A file whose header is another one, and all files when others than before are read in front of them."""
    monkeypatch.setattr(build, "ROOT", tmp_path)
    source, header = tmp_path / "one.cpp", tmp_path / "one.h"
    source.write_text('#include "one.h"\nstd::vector<int> one(NUMBER);\n')

    def made():
        compilers = {".cpp": [*build.compiler("CXX"), "-std=c++17"]}
        with build.objects_folder(tmp_path / "objects", compilers) as folder:
            standard = folder / "standard.h"
            build.write_if_changed(standard, "".join(f"#include <{name}>\n" for name in build.STANDARD_HEADERS))
            compilers[".cpp"] = build.precompile(standard, compilers[".cpp"])
            (out,) = build.compile_all([source], folder, compilers)
        return out, out.stat().st_mtime_ns

    monkeypatch.setattr(build, "STANDARD_HEADERS", ("vector",))
    header.write_text("#define NUMBER 1\n")
    first = made()
    assert made() == first
    header.write_text("#define NUMBER 2\n")
    os.utime(header, ns=(first[1] + 10**9, first[1] + 10**9))
    second = made()
    assert second[0] == first[0]
    assert second[1] > first[1]
    monkeypatch.setattr(build, "STANDARD_HEADERS", ("vector", "cstdio"))
    assert made()[0] != first[0]


@pytest.mark.parametrize("wanted", ["inplace", "editable_mode", ""])
def test_warnings_stop_no_installation(wanted, monkeypatch, root):
    """They are errors for those who work on hiprt, whose build lies in the source folder."""
    monkeypatch.chdir(root)
    monkeypatch.setattr(build, "WARNINGS", list(build.WARNINGS))
    command = build.Build(Distribution({"ext_modules": [Extension("hiprt._core", [])]}))
    if wanted:
        setattr(command, wanted, True)
    command.finalize_options()
    assert ("-Werror" in command.extensions[0].extra_compile_args) == bool(wanted)
    assert ("-Werror" in build.compile_flags("-std=c11")) == bool(wanted)


def test_clang_takes_the_c_files_without_a_warning(root):
    """Wheels are compiled by it, and it refuses types of atomics that gcc lets pass."""
    ziglang = pytest.importorskip("ziglang", reason="its clang compiles them")
    folders = [*build.CORE_FOLDERS, *(build.NATIVE.parent / name for name in build.C_LIBRARIES)]
    files = [file for folder in folders for file in folder.glob("*.c")]
    includes = [build.INCLUDE, *build.CORE_FOLDERS, sysconfig.get_path("include")]
    command = [sys.executable, "-m", "ziglang", "clang", "-fsyntax-only", "-std=c11", "-Wall", "-Wextra", "-Werror"]
    command += ["-Wno-unused-parameter", "-DPy_LIMITED_API=0x030A0000", *(f"-I{folder}" for folder in includes)]
    command += ["-isystem", Path(ziglang.__file__).parent / "lib" / "include", *files]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
