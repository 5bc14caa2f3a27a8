"""The hash of the sources that make modules: it is a part of every cached module's key."""

import shutil

import pytest

from hiprt.native import build


@pytest.fixture
def tree(root, tmp_path, monkeypatch):
    """A copy of the sources, which the build hashes."""
    for name in build.CODE_GENERATION:
        for end in ("cpp", "h"):
            copy = tmp_path / "cpu" / f"{name}.{end}"
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / "hiprt" / "cpu" / f"{name}.{end}", copy)
    monkeypatch.setattr(build, "CPU", tmp_path / "cpu")
    return tmp_path / "cpu"


def hashed(tree):
    """Return what the build defines for the sources of a tree."""
    header = tree / "code_generation.h"
    build.write_code_generation(header)
    return header.read_text()


@pytest.mark.parametrize("name", build.CODE_GENERATION)
def test_code_counts(tree, name):
    """A change of code in any of the sources makes new modules."""
    before = hashed(tree)
    source = tree / f"{name}.cpp"
    source.write_text(source.read_text().replace("return", "return +", 1))
    assert hashed(tree) != before


def test_words_and_folders_do_not_count(tree, monkeypatch):
    """New comments, other include paths and another folder leave every cached module valid."""
    before = hashed(tree)
    source = tree / "compile" / "compiler.cpp"
    text = source.read_text().replace('#include "compile/', '#include "other/')
    assert "other/" in text
    source.write_text("// A comment.\n\n" + text.replace(";\n", ";  // another comment\n", 1))
    (tree / "compile").rename(tree / "other")
    monkeypatch.setattr(
        build, "CODE_GENERATION", [name.replace("compile/", "other/") for name in build.CODE_GENERATION]
    )
    assert hashed(tree) == before


def test_an_equal_header_is_left_alone(tree):
    """An unchanged hash compiles nothing again: the header keeps its time."""
    hashed(tree)
    header = tree / "code_generation.h"
    before = header.stat().st_mtime_ns
    hashed(tree)
    assert header.stat().st_mtime_ns == before
