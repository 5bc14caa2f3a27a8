"""``hiprt rocm-prefix DIR``: a folder in the shape of a ROCm installation, in which everything is the CPU device.

Build systems look for HIP by such a folder: ``-DCMAKE_PREFIX_PATH=DIR`` or ``ROCM_PATH=DIR``. It links to this
installation of hiprt and holds nothing of ROCm.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from hiprt.command import set_run
from hiprt.provider import PACKAGE, library_of_ours

__all__ = ["add_arguments", "write_prefix"]

LIBRARIES = (
    "libamdhip64.so",
    "libamdhip64.so.6",
    "libamdhip64.so.7",
    "libhiprtc.so",
    "libhiprtc.so.6",
    "libhiprtc.so.7",
    "libhiprt_cpu.so",  # the name by which programs that were linked with the others load it
)
VERSION = "7.15.0"
COMMAND = """#!/bin/sh
exec "{python}" -m hiprt hipcc "$@"
"""
# CMake's language HIP takes clang only, and asks it where HIP is.
CLANG = """#!/bin/sh
case " $* " in
  *" -print-targets "*) echo "Found HIP installation: {folder}, version {version}" >&2 ;;
  *) exec "{python}" -m hiprt hipcc "$@" ;;
esac
"""
HIPCONFIG = """#!/bin/sh
case "$1" in
  --rocmpath | -R | --path | -p) printf %s "{folder}" ;;
  --hipclangpath | -l) printf %s "{folder}/lib/llvm/bin" ;;
  --platform | -P) printf amd ;;
  --compiler | -c) printf clang ;;
  --runtime | -r) printf rocclr ;;
  --version | -v) printf %s "{version}" ;;
  --cpp_config | -C) printf %s "-D__HIP_PLATFORM_AMD__=1 -I{folder}/include" ;;
  *) echo "HIP version: {version}" ;;
esac
"""
# Code is made for no architecture, but CMake wants the name of one.
ENUMERATOR = """#!/bin/sh
echo hiprt-cpu
"""
LANGUAGE_CONFIG = """\
# What programs in CMake's language HIP are linked with.
get_filename_component(HIP_LANG_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET hip-lang::amdhip64)
  add_library(hip-lang::amdhip64 SHARED IMPORTED)
  set_target_properties(hip-lang::amdhip64 PROPERTIES
    IMPORTED_LOCATION "${HIP_LANG_PREFIX}/lib/libamdhip64.so"
    INTERFACE_INCLUDE_DIRECTORIES "${HIP_LANG_PREFIX}/include")
  add_library(hip-lang::device INTERFACE IMPORTED)
  set_target_properties(hip-lang::device PROPERTIES INTERFACE_LINK_LIBRARIES hip-lang::amdhip64)
endif()
set(_CMAKE_HIP_DEVICE_RUNTIME_TARGET "hip-lang::device")
"""
CONFIG = """\
# find_package(hip): the targets hip::host and hip::device, on hiprt's CPU device.
get_filename_component(HIP_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(hip_FOUND TRUE)
set(HIP_FOUND TRUE)
set(HIP_PLATFORM amd)
set(HIP_COMPILER clang)
set(HIP_RUNTIME rocclr)
set(HIP_HIPCC_EXECUTABLE "${HIP_PREFIX}/bin/hipcc")
set(hip_INCLUDE_DIR "${HIP_PREFIX}/include")
set(hip_INCLUDE_DIRS "${hip_INCLUDE_DIR}")
set(hip_LIB_INSTALL_DIR "${HIP_PREFIX}/lib")
set(hip_BIN_INSTALL_DIR "${HIP_PREFIX}/bin")
if(NOT TARGET hip::amdhip64)
  add_library(hip::amdhip64 SHARED IMPORTED)
  set_target_properties(hip::amdhip64 PROPERTIES
    IMPORTED_LOCATION "${HIP_PREFIX}/lib/libamdhip64.so"
    INTERFACE_INCLUDE_DIRECTORIES "${hip_INCLUDE_DIR}"
    INTERFACE_COMPILE_DEFINITIONS "__HIP_PLATFORM_AMD__=1")
  add_library(hip::host INTERFACE IMPORTED)
  set_target_properties(hip::host PROPERTIES INTERFACE_LINK_LIBRARIES hip::amdhip64)
  add_library(hip::device INTERFACE IMPORTED)
  set_target_properties(hip::device PROPERTIES INTERFACE_LINK_LIBRARIES hip::host)
endif()
set(hip_LIBRARIES hip::host)
set(hip_LIBRARY hip::host)
"""
RTC_CONFIG = """\
# find_package(hiprtc): the same library.
get_filename_component(HIP_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET hiprtc::hiprtc)
  add_library(hiprtc::hiprtc SHARED IMPORTED)
  set_target_properties(hiprtc::hiprtc PROPERTIES
    IMPORTED_LOCATION "${HIP_PREFIX}/lib/libhiprtc.so"
    INTERFACE_INCLUDE_DIRECTORIES "${HIP_PREFIX}/include")
endif()
set(hiprtc_FOUND TRUE)
"""
VERSION_FILE = f"""\
set(PACKAGE_VERSION "{VERSION}")
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
"""
TOOLCHAIN = """\
# cmake -DCMAKE_TOOLCHAIN_FILE=...: C++ is compiled by hiprt's hipcc, as is the language HIP.
get_filename_component(HIP_PREFIX "${CMAKE_CURRENT_LIST_DIR}" ABSOLUTE)
set(CMAKE_CXX_COMPILER "${HIP_PREFIX}/bin/hipcc")
set(CMAKE_HIP_COMPILER "${HIP_PREFIX}/lib/llvm/bin/clang++")
list(APPEND CMAKE_PREFIX_PATH "${HIP_PREFIX}")
set(ENV{ROCM_PATH} "${HIP_PREFIX}")
set(ENV{HIP_PATH} "${HIP_PREFIX}")
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to a parser."""
    parser.description = "Write a folder in the shape of a ROCm installation, which is the CPU device."
    parser.add_argument("folder", type=Path, help="the folder; it is made, or must be empty or such a folder already")
    set_run(parser, run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    write_prefix(options.folder)
    print(options.folder)
    return 0


def write_prefix(folder: Path) -> None:
    """Write the folder.

    Parameters
    ----------
    folder : Path
        Where; it is made, or must be empty or have been written by this function.

    Raises
    ------
    ValueError
        There is something else in the folder.
    OSError
        The folder cannot be written.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / "toolchain.cmake").exists():
        raise ValueError(f"{folder} holds something else: name a new or an empty folder")
    target = library_of_ours("cpu")
    for name in LIBRARIES:
        link(folder / "lib" / name, target)
    # Headers of the host's interface stand for those of the device where both have a name: hipcc finds its own first.
    headers = {
        header.name: header
        for source in ("cpu", "native")
        for header in (PACKAGE / source / "include" / "hip").iterdir()
    }
    for name, header in headers.items():
        link(folder / "include" / "hip" / name, header)
    values = {"python": sys.executable, "folder": folder.absolute(), "version": VERSION}
    commands = {
        "bin/hipcc": COMMAND,
        "bin/hipconfig": HIPCONFIG,
        "bin/rocm_agent_enumerator": ENUMERATOR,
        "lib/llvm/bin/clang++": CLANG,
    }
    for name, text in commands.items():
        write(folder / name, text.format_map(values)).chmod(0o755)
    write(folder / "lib" / "cmake" / "hip" / "hip-config.cmake", CONFIG)
    write(folder / "lib" / "cmake" / "hip" / "hip-config-version.cmake", VERSION_FILE)
    write(folder / "lib" / "cmake" / "hip-lang" / "hip-lang-config.cmake", LANGUAGE_CONFIG)
    write(folder / "lib" / "cmake" / "hiprtc" / "hiprtc-config.cmake", RTC_CONFIG)
    write(folder / "lib" / "cmake" / "hiprtc" / "hiprtc-config-version.cmake", VERSION_FILE)
    write(folder / ".info" / "version", VERSION + "\n")
    write(folder / "toolchain.cmake", TOOLCHAIN)


def link(path: Path, target: Path) -> None:
    """Make a symbolic link, in place of one that is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(os.path.realpath(target))


def write(path: Path, text: str) -> Path:
    """Write a file, with the folders that it needs; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
