"""libhiprt: what it exports, what its header says, and programs in C that use it."""

import os
import random
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from helpers.native import SANITIZERS, build_with_library, run_sanitized

import hiprt
from hiprt import core
from hiprt.allocator import arena
from hiprt.flags import Flags
from hiprt.graphs import Recording
from hiprt.graphs.record.declarations import outlined
from hiprt.hip import lib
from hiprt.native import build


def functions():
    """Yield (name, the comment that stands before it) of each function in the public header."""
    comment = ""
    for found in re.finditer(
        r"/\*(.*?)\*/|^[a-z][\w *]*?\b(hiprt_\w+)\(", build.PUBLIC_HEADER.read_text(), re.S | re.M
    ):
        if found.group(2):
            yield found.group(2), comment
        else:
            comment = " ".join(found.group(1).replace("\n *", " ").split())


def test_every_function_says_who_owns_what():
    """In the comment before it, or before its group: ownership, threads and errors."""
    known = dict(functions())
    assert list(known) == build.public_functions()
    for name, comment in known.items():
        assert all(word in comment for word in ("Ownership", "hread", "rrors")), f"{name}: {comment}"


def test_the_library_exports_what_the_header_declares():
    """Nothing else: an engine may have functions of any other name."""
    library = build.library_target(build.NATIVE.parent)
    listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    # A sanitizer's own symbols are no part of the library.
    exported = {line.split()[-1] for line in listed.splitlines() if "san" not in line}
    assert exported == set(build.public_functions())


def layout():
    """The interface as text: functions by type, structures by offset and size of each field, and numbers."""
    text = re.sub(r"/\*.*?\*/", "", build.PUBLIC_HEADER.read_text(), flags=re.S)
    for name, value in re.findall(r"^#define (HIPRT_\w+) (\S+)$", re.sub(r" +$", "", text, flags=re.M), re.M):
        if name not in ("HIPRT_VERSION", "HIPRT_BUILDS_LIBRARY"):
            yield f"{name} {value}"
    for name in re.findall(r"^enum (\w+) ", text, re.M):
        yield f"{name} {sorted(core.ffi.typeof(f'enum {name}').relements.items())}"
    for name in re.findall(r"^} (\w+);", text, re.M):
        kind = core.ffi.typeof(name)
        fields = ", ".join(f"{field} {at.offset} {at.type.cname}" for field, at in kind.fields)
        yield f"{name} {core.ffi.sizeof(kind)}: {fields}"
    for name in build.public_functions():
        yield f"{name} {core.ffi.typeof(getattr(core.lib, name)).cname}"


def test_the_interface_is_that_of_its_number(root):
    """A function or structure that changes needs another HIPRT_ABI, and the list beside this test written anew."""
    assert "\n".join(layout()) + "\n" == (root / "tests" / "native" / "interface.txt").read_text()


def test_defaults_are_those_of_the_flags():
    """hiprt_rules_default and hiprt.flags say the same."""
    rules = core.ffi.new("hiprt_rules *")
    core.lib.hiprt_rules_default(rules)
    fresh = Flags()
    assert (rules.slots, rules.keys, rules.fanout) == (fresh.graph_slots, fresh.graph_keys, fresh.graph_fanout)
    assert (rules.budget_nodes, rules.budget_bytes) == (fresh.graph_update_budget, fresh.graph_update_budget_mb << 20)


@pytest.mark.parametrize("seed", range(4))
def test_a_plan_is_that_of_python(seed):
    """hiprt_step_plan gives random copies and fills the offsets that a step in Python has for them."""
    rng = random.Random(seed)
    sizes = [rng.choice((0, 4, 300, 1024, 5000)) for _ in range(20)]
    starts = [(1 << 58) + 8192 * i for i in range(len(sizes))]
    extents = [(start, start + size) for start, size in zip(starts, sizes, strict=True)]
    kept = sorted(rng.sample(range(len(sizes)), 3))
    targets = [rng.choice(starts[i : i + 3]) for i in range(len(starts) - 2) for _ in range(2)]

    def issue(stream):
        for of, to in pairwise(targets):
            if of == to:
                stream.fill(to, 0, 4, 1)
            else:
                stream.copy(to, of, 4, lib.hipMemcpyDeviceToDevice)

    given = [(start, end, i in kept, 0) for i, (start, end) in enumerate(extents)]
    offsets, plan = core.ffi.new("uint64_t[]", len(sizes)), core.ffi.new("hiprt_plan *")
    with hiprt.Stream() as stream:
        recording = Recording()
        with recording.record(stream):
            issue(stream)
        ranges = core.ffi.new("hiprt_range[]", extents)
        wanted = arena.layout(sizes, outlined(recording, ranges), kept)
        step = core.lib.hiprt_step_create(core.ffi.NULL, core.ffi.NULL)
        core.call(core.lib.hiprt_step_begin(step, stream.core))
        issue(stream)
        core.call(core.lib.hiprt_step_plan(step, len(given), given, offsets, plan))
        core.lib.hiprt_step_release(step)
    assert tuple(offsets) == wanted.offsets
    assert (plan.nbytes, plan.lower_bound) == (wanted.nbytes, wanted.lower_bound)
    assert (plan.requested, plan.intermediates) == (sum(sizes), len(sizes))
    assert plan.nbytes < plan.requested


@pytest.mark.timeout(900)
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_a_decode_loop_in_c(sanitizer, tmp_path, monkeypatch, root):
    """The example gives the same tokens by replays, by patches, by moves and eagerly."""
    source = root / "examples" / "c" / "decode.c"
    said = run_sanitized(build_with_library(tmp_path, source, sanitizer, monkeypatch, root))
    assert "199 replay, 1 instantiate, 14 nodes in 512 of 1280 bytes" in said
    assert said.count("199 patch, 1 instantiate, 14 nodes") == 2
    assert "200 eager, 14 nodes" in said
    assert said.endswith("the same tokens each time\n")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_a_transformer_block_in_cpp(sanitizer, tmp_path, monkeypatch, root):
    """The example gives the host's numbers, with one graph that is replayed, through hiprt.hpp."""
    source = root / "examples" / "cpp" / "block.cpp"
    said = run_sanitized(build_with_library(tmp_path, source, sanitizer, monkeypatch, root))
    assert said == "33 nodes, 1 instantiated, 63 replayed; as on the host\n"


def test_the_version_is_the_same_everywhere(root):
    """In the header, for pip, for pkg-config and for CMake."""
    (version,) = re.findall(r'^version = "(.*)"', (root / "pyproject.toml").read_text(), re.MULTILINE)
    (number,) = re.findall(r"^#define HIPRT_VERSION (\d+)", build.PUBLIC_HEADER.read_text(), re.MULTILINE)
    major, minor, patch = map(int, version.split("."))
    library = build.NATIVE / "lib"
    assert int(number) == 10000 * major + 100 * minor + patch == core.lib.hiprt_version()
    assert f"Version: {version}\n" in (library / "pkgconfig" / "hiprt.pc").read_text()
    assert f'PACKAGE_VERSION "{version}"' in (library / "cmake/hiprt/hiprt-config-version.cmake").read_text()


@pytest.mark.parametrize("tool", ["pkg-config", "cmake"])
def test_other_builds_find_the_library(tool, tmp_path, root):
    """By the files that are installed beside it."""
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    library = build.NATIVE / "lib"
    if tool == "pkg-config":
        given = {**os.environ, "PKG_CONFIG_PATH": str(library / "pkgconfig")}
        said = subprocess.run(
            [tool, "--cflags", "--libs", "hiprt"], env=given, capture_output=True, text=True, check=True
        ).stdout
        folders = [Path(word[2:]).resolve() for word in said.split() if word[:2] in ("-I", "-L")]
        assert folders == [build.INCLUDE, library]
        return
    (tmp_path / "main.c").write_text(
        '#include "hiprt/hiprt.h"\nint main(void) { return hiprt_version() != HIPRT_VERSION; }\n'
    )
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(main C)\nfind_package(hiprt 0.1 REQUIRED)\n"
        "add_executable(main main.c)\ntarget_link_libraries(main hiprt::hiprt)\n"
    )
    where = f"-Dhiprt_DIR={library / 'cmake' / 'hiprt'}"
    subprocess.run([tool, "-S", tmp_path, "-B", tmp_path / "build", where], check=True)
    subprocess.run([tool, "--build", tmp_path / "build"], check=True)
    subprocess.run([tmp_path / "build" / "main"], check=True)


@pytest.mark.wide
@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("cmake") is None, reason="it is installed by CMake")
def test_cmake_installs_it_without_python(tmp_path, root):
    """The same functions, and programs find it by the prefix."""
    made, prefix = tmp_path / "made", tmp_path / "prefix"
    subprocess.run(["cmake", "-S", build.NATIVE, "-B", made, "-DCMAKE_BUILD_TYPE=Release"], check=True)
    subprocess.run(["cmake", "--build", made, "--parallel"], check=True)
    subprocess.run(["cmake", "--install", made, "--prefix", prefix], check=True)
    listed = ["nm", "-D", "--defined-only", prefix / "lib" / "libhiprt.so"]
    found = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    assert {line.split()[-1] for line in found.splitlines()} == set(build.public_functions())
    (tmp_path / "main.cpp").write_text(
        '#include "hiprt/hiprt.hpp"\nint main() { return hiprt_version() != HIPRT_VERSION; }\n'
    )
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(main CXX)\nset(CMAKE_CXX_STANDARD 17)\n"
        "find_package(hiprt 0.1 REQUIRED)\nadd_executable(main main.cpp)\ntarget_link_libraries(main hiprt::hiprt)\n"
    )
    subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "program", f"-DCMAKE_PREFIX_PATH={prefix}"], check=True)
    subprocess.run(["cmake", "--build", tmp_path / "program"], check=True)
    subprocess.run([tmp_path / "program" / "main"], check=True)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_wrong_uses_in_cpp(sanitizer, tmp_path, monkeypatch, root):
    """Each is an exception that says what was wrong, and the step goes on: failures.cpp."""
    program = build_with_library(tmp_path, root / "tests" / "native" / "failures.cpp", sanitizer, monkeypatch, root)
    assert run_sanitized(program) == "ok\n"
