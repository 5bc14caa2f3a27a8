"""Wheels that zig compiles: what they ask of a machine, and that one serves a machine without a compiler."""

import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from hiprt.native import wheel

DEVICES = ("cpu", "null", "nvidia")
MADE = ("_core.abi3.so", "native/lib/libhiprt.so", *(f"{name}/libhiprt_{name}.so" for name in DEVICES))
# What every Linux has that has the C library: manylinux_2_28 allows these and a few that hiprt does not use.
SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"}
LOADERS = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}
MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}

pytestmark = [pytest.mark.wide(turn=0), pytest.mark.timeout(900)]  # two minutes are for zig's own C++ library


@pytest.fixture(
    scope="module",
    params=[each if each == platform.machine() else pytest.param(each, marks=pytest.mark.soak) for each in MACHINES],
)
def made(request, tmp_path_factory, form):
    """A wheel, and the architecture that it is for."""
    pytest.importorskip("ziglang", reason="its clang compiles them")
    if request.param != platform.machine() and form != "long":
        pytest.skip("-m soak compiles for the other architecture as well")
    return wheel.build_wheel(request.param, tmp_path_factory.mktemp("wheels")), request.param


def versions_of(elf):
    """Yield the versions of the C library that a shared library asks for."""
    needed = elf.get_section_by_name(".gnu.version_r")
    for _, auxiliaries in needed.iter_versions() if needed else ():
        for each in auxiliaries:
            found = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", each.name)
            assert found, f"{each.name} is no version of the C library"
            yield int(found.group(1)), int(found.group(2))


def test_its_libraries_are_for_any_machine_of_the_architecture(made):
    """They ask for nothing but the C library, of the version in the wheel's name at most."""
    elffile = pytest.importorskip("elftools.elf.elffile", reason="it reads them")
    file, architecture = made
    assert file.name.endswith(f"-cp310-abi3-manylinux_{wheel.GLIBC[0]}_{wheel.GLIBC[1]}_{architecture}.whl")
    with zipfile.ZipFile(file) as packed:
        for name in MADE:
            elf = elffile.ELFFile(BytesIO(packed.read(f"hiprt/{name}")))
            assert elf["e_machine"] == MACHINES[architecture]
            tags = list(elf.get_section_by_name(".dynamic").iter_tags())
            needed = {tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"}
            assert needed <= SYSTEM | {LOADERS[architecture]}, name
            assert max(versions_of(elf), default=(2, 0)) <= wheel.GLIBC, name


@pytest.fixture(scope="module")
def installed(made, tmp_path_factory):
    """The folder that a wheel for this machine is installed in."""
    file, architecture = made
    if architecture != platform.machine():
        pytest.skip(f"the wheel is for {architecture}")
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), str(file)]
    subprocess.run(command, check=True)
    return folder


def environment(folder, tmp_path):
    """An environment with the installed package in front, and no program to be found by its name."""
    given = {name: value for name, value in os.environ.items() if not name.startswith(("HIPRT_", "LD_"))}
    cache = os.environ.get("HIPRT_CACHE_DIR")
    given |= {"PYTHONPATH": str(folder), "PATH": str(tmp_path), "HIPRT_PROVIDER": "cpu"}
    return {**given, "HIPRT_CACHE_DIR": cache} if cache else given


def test_it_generates_text_without_a_compiler(installed, tmp_path):
    """The CPU device's own compiler comes from the extra."""
    given = environment(installed, tmp_path)
    for arguments in (["doctor"], ["generate"]):
        command = [sys.executable, "-m", "hiprt", *arguments]
        child = subprocess.run(command, env=given, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert child.returncode == 0, child.stdout + child.stderr
        if arguments == ["doctor"]:
            assert str(installed) in child.stdout
    assert "replay" in child.stdout + child.stderr


@pytest.mark.parametrize("tool", ["pkg-config", "cmake"])
def test_programs_in_c_are_built_with_what_it_brings(tool, installed, tmp_path, root):
    """Its header, library and the files that other builds find them by."""
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    native, device = installed / "hiprt" / "native", installed / "hiprt" / "cpu"
    source, program = root / "examples" / "c" / "decode.c", tmp_path / "build" / "decode"
    program.parent.mkdir()
    if tool == "pkg-config":
        named = {**os.environ, "PKG_CONFIG_PATH": str(native / "lib" / "pkgconfig")}
        asked = [tool, "--cflags", "--libs", "hiprt"]
        flags = subprocess.run(asked, env=named, capture_output=True, text=True, check=True).stdout.split()
        linked = [*flags, f"-L{device}", "-lamdhip64", f"-Wl,-rpath,{device}", "-lm"]
        subprocess.run(["gcc", "-std=c11", source, "-o", program, *linked], check=True)
    else:
        (tmp_path / "CMakeLists.txt").write_text(
            f"cmake_minimum_required(VERSION 3.16)\nproject(decode C)\nfind_package(hiprt 0.1 REQUIRED)\n"
            f"add_executable(decode {source})\ntarget_link_directories(decode PRIVATE {device})\n"
            f"target_link_libraries(decode hiprt::hiprt amdhip64 m)\n"
        )
        where = f"-Dhiprt_DIR={native / 'lib' / 'cmake' / 'hiprt'}"
        subprocess.run([tool, "-S", tmp_path, "-B", program.parent, where], check=True)
        subprocess.run([tool, "--build", program.parent], check=True)
    zig = Path(wheel.zig())
    given = {**environment(installed, tmp_path), "HIPRT_CPU_ZIG": str(zig)}
    said = subprocess.run([program], env=given, capture_output=True, text=True, check=True).stdout
    assert said.endswith("the same tokens each time\n")
