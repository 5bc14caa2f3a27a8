"""The CPU device's sources: its rooms, and includes that go one way."""

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
    """Return the paths, relative to hiprt/cpu, of our own files that a file includes."""
    named = re.findall(r'^#include "([^"]+)"', file.read_text(), re.MULTILINE)
    return [Path(name) for name in named if (cpu / name).is_file()]


def room_of(path):
    return path.parts[0] if len(path.parts) > 1 else ""


def modules(cpu):
    """Return the modules that each module includes; a module is the header and the source file of one name."""
    graph = {}
    for file in sources(cpu):
        module = file.relative_to(cpu).with_suffix("")
        seen = graph.setdefault(module, set())
        seen.update(path.with_suffix("") for path in includes(cpu, file))
        seen.discard(module)
    return graph


def circle(graph):
    """Return some circle of a graph, as a list of its nodes, or an empty list."""
    done = set()

    def visit(node, way):
        if node in way:
            return [*way[way.index(node) :], node]
        if node not in done:
            for successor in sorted(graph.get(node, ())):
                found = visit(successor, [*way, node])
                if found:
                    return found
            done.add(node)
        return []

    for node in sorted(graph):
        found = visit(node, [])
        if found:
            return found
    return []


def test_finds_a_circle():
    """The search finds a circle, and takes two ways that meet for none."""
    assert circle({1: {2, 3}, 2: {4}, 3: {4}, 4: {3}}) == [4, 3, 4]
    assert circle({1: {2, 3}, 2: {4}, 3: {4}, 4: set()}) == []


def test_every_include_of_ours_is_found(cpu):
    """Quoted includes are our files, HIP's interface, the cache that Python shares, or generated; no other is taken."""
    folders = [cpu, cpu.parent / "native" / "include", cpu.parent / "native" / "cache"]
    for file in sources(cpu):
        for name in re.findall(r'^#include "([^"]+)"', file.read_text(), re.MULTILINE):
            found = name == "code_generation.h" or any((folder / name).is_file() for folder in folders)
            assert found, f"{file.relative_to(cpu)} includes {name}"


def test_rooms_are_known(cpu):
    """Each file lies in a room that has its place in the order."""
    for file in sources(cpu):
        assert room_of(file.relative_to(cpu)) in ROOMS, file.relative_to(cpu)


def test_includes_follow_the_order_of_rooms(cpu):
    """No file includes one of a room above its own."""
    for file in sources(cpu):
        own = ROOMS.index(room_of(file.relative_to(cpu)))
        for path in includes(cpu, file):
            assert ROOMS.index(room_of(path)) <= own, f"{file.relative_to(cpu)} includes {path}"


def test_no_include_circle(cpu):
    """Modules, a header and its source file taken as one, include each other one way."""
    graph = modules(cpu)
    assert len(graph) > 60
    found = circle(graph)
    assert not found, " -> ".join(map(str, found))


def test_entry_points_stand_at_the_top(cpu):
    """Functions of HIP and hiprtc are defined in api/ and nowhere else."""
    entry = re.compile(r"^(?:const char \*|\w+ )hip(?:rtc)?[A-Z]\w*\((?![^\n]*;$)", re.MULTILINE)
    rooms = {room_of(file.relative_to(cpu)) for file in sources(cpu) if entry.search(file.read_text())}
    assert rooms == {"api"}
