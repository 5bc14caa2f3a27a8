"""Real ROCms for tests: folders that kernels/offline/rocm.sh made, and what their headers declare."""

import os
import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from hiprt.kernels.offline.rocm_compiler import Rocm

SUITES = {"sid": "6.", "experimental": "7."}
VARIABLE = "ROCM_UNPACKED"
WHY = f"{VARIABLE} names no folder with SUITE in it: kernels/offline/rocm.sh FOLDER/SUITE SUITE unpacks Debian's ROCm"


def unpacked(suite):
    """The folder of a suite's ROCm; the test is skipped where Debian's packages were not unpacked."""
    folder = Path(os.environ.get(VARIABLE) or "/nonexistent", suite)
    if not (folder / "run").exists():
        pytest.skip(WHY.replace("SUITE", suite))
    return folder


def run(folder, code, *arguments, **environment):
    """Run Python with the libraries of an unpacked ROCm; returns what it prints."""
    path = [str(Path(__file__).resolve().parents[2]), *(place for place in sys.path if place)]
    rocm = Rocm.find(folder)
    child = subprocess.run(
        [*rocm.start, "-W", "ignore", "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    return child.stdout


def declared(include, *headers):
    """What C headers declare: the size and the offsets of each structure, and the value of each enumerator.

    They are read from the debug information that gcc writes for a program of the headers alone.
    """
    text = "".join(f"#include <{header}>\n" for header in headers)
    options = "-x c -g -gdwarf-4 -fno-eliminate-unused-debug-types -D__HIP_PLATFORM_AMD__ -w -c -".split()
    with tempfile.TemporaryDirectory() as place:
        made = Path(place, "headers.o")
        command = ["gcc", *options, f"-I{include}", "-o", str(made)]
        subprocess.run(command, input=text.encode(), capture_output=True, check=True)
        code = made.read_bytes()
    structures, enumerators = {}, {}
    for unit in ELFFile(BytesIO(code)).get_dwarf_info().iter_CUs():
        for entry in unit.iter_DIEs():
            if entry.tag == "DW_TAG_enumerator":
                enumerators[name_of(entry)] = entry.attributes["DW_AT_const_value"].value
            elif entry.tag in ("DW_TAG_typedef", "DW_TAG_structure_type", "DW_TAG_union_type"):
                kind = resolved(entry)
                if (
                    kind is not None
                    and "DW_AT_byte_size" in kind.attributes
                    and name_of(entry).startswith(("hip", "dim3"))
                ):
                    structures[name_of(entry)] = (kind.attributes["DW_AT_byte_size"].value, dict(members(kind, 0)))
    return structures, enumerators


def name_of(entry):
    """A type's, a member's or an enumerator's name; empty for one without."""
    found = entry.attributes.get("DW_AT_name")
    return found.value.decode() if found else ""


def resolved(entry):
    """The structure that a name stands for, if it is one."""
    while entry.tag in ("DW_TAG_typedef", "DW_TAG_const_type") and "DW_AT_type" in entry.attributes:
        entry = entry.get_DIE_from_attribute("DW_AT_type")
    return entry if entry.tag in ("DW_TAG_structure_type", "DW_TAG_union_type") else None


def members(kind, start):
    """The offset of each member; those of structures and unions without a name lie in the outer one."""
    for entry in kind.iter_children():
        if entry.tag == "DW_TAG_member":
            location = entry.attributes.get("DW_AT_data_member_location")
            at = start + (location.value if location else 0)
            inner = resolved(entry.get_DIE_from_attribute("DW_AT_type"))
            if name_of(entry):
                yield name_of(entry), at
            elif inner is not None:
                yield from members(inner, at)
