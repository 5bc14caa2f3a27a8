"""The example in Rust: its declarations are the header's, and its tokens those of the example in C."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from helpers.native import build_with_library

from hiprt import core
from hiprt.native import build

TYPES = {
    "c_int": "int",
    "c_char": "char",
    "c_void": "void",
    "u8": "uint8_t",
    "u32": "uint32_t",
    "u64": "uint64_t",
    "f64": "double",
}
OPAQUE = ("hiprt_stream", "hiprt_kernel", "hiprt_step", "hiprt_pool", "hiprt_arena")


@pytest.fixture
def declared(root):
    """The text of the declarations, without line breaks within one."""
    return re.sub(r"\s+", " ", (root / "examples" / "rust" / "src" / "hiprt.rs").read_text())


def in_c(kind):
    """A type of Rust as cffi names it."""
    if array := re.fullmatch(r"\[(\w+); (\d+)\]", kind):
        return f"{in_c(array.group(1))}[{array.group(2)}]"
    *stars, name = re.sub(r"\*(const|mut) ", "* ", kind).split()
    opaque = "struct " if name in OPAQUE else ""
    return f"{opaque}{TYPES.get(name, name)}{' *' * len(stars)}"


def typed(text):
    """The names and types of a list of fields or parameters."""
    return [(name, in_c(kind)) for name, kind in re.findall(r"(\w+): ((?:[^,\[]|\[.*?\])+)", text)]


def test_functions_are_those_of_the_header(declared):
    """All of them, with the types of their parameters and results."""
    found = re.findall(r"pub fn (\w+)\((.*?)\)(?: -> ([^;]*))?;", declared)
    assert [name for name, _, _ in found] == build.public_functions()
    for name, parameters, result in found:
        kind = core.ffi.typeof(getattr(core.lib, name))
        assert [parameter.cname for parameter in kind.args] == [kind for _, kind in typed(parameters)], name
        assert kind.result.cname == (in_c(result) if result else "void"), name


def test_structures_and_numbers_are_those_of_the_header(declared):
    """Field by field, which gives them the header's layout too."""
    found = re.findall(r"pub struct (\w+) \{(.*?)\}", declared)
    assert len(found) == declared.count("pub struct") - len(OPAQUE)  # which nobody but libhiprt sees into
    for name, fields in found:
        in_header = [(field, at.type.cname) for field, at in core.ffi.typeof(name).fields]
        assert typed(fields.replace("pub ", "")) == in_header
    for name, value in re.findall(r"pub const (\w+): u32 = (\d+);", declared):
        assert getattr(core.lib, name) == int(value), name


@pytest.mark.wide
def test_a_decode_loop_in_rust(tmp_path, monkeypatch, root):
    """The same tokens as in C, by replays, by patches, by moves and eagerly."""
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed")
    source = root / "examples" / "rust"
    given = {**os.environ, "PYTHON": sys.executable, "CARGO_TARGET_DIR": str(tmp_path / "target")}
    subprocess.run(["cargo", "build", "--offline", "--locked"], cwd=source, env=given, check=True)
    said = subprocess.run([tmp_path / "target/debug/decode"], capture_output=True, text=True, check=True).stdout
    assert "199 replay, 1 instantiate, 14 nodes" in said
    assert said.count("199 patch, 1 instantiate, 14 nodes") == 2
    assert "200 eager, 14 nodes" in said
    assert said.endswith("the same tokens each time\n")
    program = build_with_library(tmp_path, root / "examples" / "c" / "decode.c", "", monkeypatch, root)
    lines = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line for line in lines if line.startswith("tokens:")] == [said.splitlines()[-2]]
