"""The rooms of the CPU device, whose includes go one way. tests/base looks for circles among its files."""

import re
from pathlib import Path

import pytest

# From the bottom to the top. A file may include files of its own room and of the rooms before it. The first room is
# hiprt/cpu itself; include/ holds what is compiled into kernels, which the engine and the compiler read too.
ROOMS = ("", "include", "quirks", "check", "engine", "compile", "runtime", "graph", "api")


@pytest.fixture(scope="module")
def cpu(root):
    return root / "hiprt" / "cpu"


def sources(cpu):
    """Return every C++ file of the device itself."""
    return [file for file in sorted(cpu.rglob("*")) if file.suffix in (".h", ".cpp") and "include" not in file.parts]


def includes(cpu, file):
    """Return the paths, relative to hiprt/cpu, of the device's files that a file includes."""
    named = re.findall(r'^#include "([^"]+)"', file.read_text(), re.MULTILINE)
    return [Path(name) for name in named if (cpu / name).is_file()]


def room_of(path):
    return path.parts[0] if len(path.parts) > 1 else ""


def test_rooms_are_known(cpu):
    """Each file lies in a room that has its place in the order, and each room has files."""
    rooms = {room_of(file.relative_to(cpu)) for file in sources(cpu)}
    assert rooms == {*ROOMS} - {"include"}


def test_includes_follow_the_order_of_rooms(cpu):
    """No file includes one of a room above its own."""
    for file in sources(cpu):
        own = ROOMS.index(room_of(file.relative_to(cpu)))
        for path in includes(cpu, file):
            assert ROOMS.index(room_of(path)) <= own, f"{file.relative_to(cpu)} includes {path}"


def test_entry_points_stand_at_the_top(cpu):
    """Functions of HIP and hiprtc are defined in api/ and nowhere else."""
    entry = re.compile(r"^(?:const char \*|\w+ )hip(?:rtc)?[A-Z]\w*\((?![^\n]*;$)", re.MULTILINE)
    rooms = {room_of(file.relative_to(cpu)) for file in sources(cpu) if entry.search(file.read_text())}
    assert rooms == {"api"}
