"""The cache of compiled programs on disk: what makes a new entry, and what damaged entries do."""

import fcntl
import os
import subprocess
import sys

import pytest

BUILD = """
from helpers.rtc import build
made = build({source!r}, **{how!r})
assert made.status == 0, made.log
print(made.log, end="")
"""
SOURCE = 'extern "C" __global__ void k(int* p) { p[0] = N; }'


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def compiles(python, cache, counted):
    """Build in a process of its own; return how many times that ran the compiler."""
    script, log = counted

    def run(source=SOURCE, **how):
        before = len(log.read_text().splitlines()) if log.exists() else 0
        how.setdefault("options", ["-DN=1"])
        python(BUILD.format(source=source, how=how), HIPRT_CACHE_DIR=str(cache), HIPRT_CPU_COMPILER=str(script))
        return (len(log.read_text().splitlines()) if log.exists() else 0) - before

    return run


def entries(cache):
    return [path for path in cache.rglob("*") if path.is_file()]


def test_a_second_process_does_not_compile(compiles, cache):
    assert compiles() > 0
    assert len(entries(cache)) == 1
    assert compiles() == 0


@pytest.mark.parametrize(
    "change",
    [
        {"source": SOURCE + " "},
        {"options": ["-DN=2"]},
        {"options": ["-DN=1", "-O1"]},
        {"expressions": ["k"]},
        {"headers": {"a.h": ""}},
        {"name": "other.hip"},
    ],
    ids=["source", "definition", "option", "expression", "header", "name"],
)
def test_whatever_goes_in_makes_a_new_entry(compiles, cache, change):
    compiles()
    assert compiles(**change) > 0
    assert len(entries(cache)) == 2
    assert compiles(**change) == compiles() == 0


def test_a_header_text_is_part_of_the_key(compiles):
    source = '#include "a.h"\n' + SOURCE
    assert compiles(source, headers={"a.h": "// 1"}) > 0
    assert compiles(source, headers={"a.h": "// 2"}) > 0
    assert compiles(source, headers={"a.h": "// 1"}) == 0


def test_a_header_on_disk_is_checked_for_changes(compiles, tmp_path):
    header = tmp_path / "inc" / "disk.h"
    header.parent.mkdir()
    header.write_text("// 1")
    source, options = "#include <disk.h>\n" + SOURCE, ["-DN=1", f"-I{header.parent}"]
    assert compiles(source, options=options) > 0
    assert compiles(source, options=options) == 0
    header.write_text("// 2")
    assert compiles(source, options=options) > 0
    assert compiles(source, options=options) == 0


def test_another_compiler_makes_a_new_entry(compiles, counted):
    compiles()
    script, _ = counted
    script.write_text(script.read_text() + "# another build\n")
    assert compiles() > 0


@pytest.mark.parametrize("damage", ["truncated", "one bit", "empty", "another file", "longer"])
def test_a_damaged_entry_is_built_again(compiles, cache, damage):
    compiles()
    (entry,) = entries(cache)
    good = entry.read_bytes()
    half = len(good) // 2
    bad = {
        "truncated": good[:half],
        "one bit": good[:half] + bytes([good[half] ^ 1]) + good[half + 1 :],
        "empty": b"",
        "another file": b"something else entirely",
        "longer": good + b"x",
    }
    entry.write_bytes(bad[damage])
    assert compiles() > 0
    assert entry.read_bytes()[:64] == good[:64] or len(entry.read_bytes()) == len(good)
    assert compiles() == 0


def test_an_entry_that_was_copied_over_another_is_built_again(compiles, cache):
    compiles()
    (mine,) = entries(cache)
    compiles(options=["-DN=2"])
    (other,) = set(entries(cache)) - {mine}
    mine.write_bytes(other.read_bytes())
    assert compiles() > 0
    assert compiles() == compiles(options=["-DN=2"]) == 0


def test_warnings_are_kept(python, cache):
    how = {"options": ["-Wall"]}
    source = "__global__ void k(int* p) { int unused = 1; p[0] = 2; }"
    logs = [python(BUILD.format(source=source, how=how), HIPRT_CACHE_DIR=str(cache)) for _ in range(2)]
    assert "unused" in logs[0]
    assert logs[0] == logs[1]


def test_lowered_names_are_kept(python, cache):
    code = """
from helpers.rtc import build
print(build("template <class T> __global__ void k(T* p) { p[0] = 1; }", expressions=["k<int>", "&k<float>"]).lowered)
"""
    outs = [python(code, HIPRT_CACHE_DIR=str(cache)) for _ in range(2)]
    assert "_Z1kIfEvPT_" in outs[0]
    assert outs[0] == outs[1]


def test_a_cache_that_cannot_be_written(compiles, cache):
    cache.write_text("a file where the folder should be")
    assert compiles() > 0
    assert compiles() > 0


def test_a_cache_that_cannot_be_written_is_told_once(python, cache):
    cache.write_text("a file where the folder should be")
    code = """
from helpers.rtc import build
os.dup2(1, 2)
for n in (1, 2):
    assert build(f'extern "C" __global__ void k(int* p) {{ p[0] = {n}; }}').status == 0
"""
    text = python(code, HIPRT_CACHE_DIR=str(cache))
    assert text.count("\n") == 1
    assert f"{cache} cannot be written, and every process compiles its kernels again" in text


def test_failures_are_not_kept(compiles, cache, python, counted):
    script, _ = counted
    code = BUILD.replace("assert made.status == 0, made.log", "assert made.status == 6")
    python(code.format(source="bad", how={}), HIPRT_CACHE_DIR=str(cache), HIPRT_CPU_COMPILER=str(script))
    assert not entries(cache)


def test_many_processes_at_once(library, root, cache):
    """All processes get the right program, and one whole entry is left."""
    from textwrap import dedent

    code = dedent("""
    import sys, os
    from rocm.bindings.util import paths
    paths.get_library_path = lambda *_, **__: os.fsencode(sys.argv[1])
    import numpy as np
    from helpers.rtc import Program
    out = np.zeros(1, np.int32)
    Program('extern "C" __global__ void k(int* p) { p[0] = 42; }').run("k", 1, 1, out)
    print(out[0])
    """)
    environment = {**os.environ, "PYTHONPATH": str(root / "tests"), "HIPRT_CACHE_DIR": str(cache)}
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(library)], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(5)
    ]
    assert [process.communicate(timeout=120)[0].strip() for process in running] == ["42"] * 5
    assert len(entries(cache)) == 1


def test_the_cache_follows_xdg(python, tmp_path):
    environment = {"HIPRT_CACHE_DIR": "", "XDG_CACHE_HOME": str(tmp_path)}
    python(BUILD.format(source=SOURCE, how={"options": ["-DN=9"]}), **environment)
    assert len(entries(tmp_path / "hiprt")) == 1


def test_the_folder_is_bounded_and_the_least_recently_used_goes(python, cache, compiles):
    """The files of every provider count, and reading an entry counts as use."""
    compiles()
    (kept,) = entries(cache)
    old = [cache / "rocm" / "ab" / str(i) for i in range(3)]
    old[0].parent.mkdir(parents=True)
    for i, path in enumerate(old):
        path.write_bytes(bytes(1 << 20))
        os.utime(path, (2000 + i, 2000 + i))
    os.utime(kept, (1000, 1000))
    assert compiles() == 0
    python(BUILD.format(source=SOURCE, how={"options": ["-DN=2"]}), HIPRT_CACHE_DIR=str(cache), HIPRT_CACHE_MAX_MB="2")
    left = entries(cache)
    assert kept in left
    assert [path for path in old if path in left] == old[2:]
    assert len(left) == 3


def test_what_a_process_has_open_or_writes_stays(python, cache):
    folder = cache / "cpu" / "ab"
    folder.mkdir(parents=True)
    opened, fresh, abandoned = folder / "cd", folder / "ef.1.0", folder / "gh.2.0"
    for path in (opened, fresh, abandoned):
        path.write_bytes(bytes(1 << 20))
    for path in (opened, abandoned):
        os.utime(path, (1000, 1000))
    with opened.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        how = {"options": ["-DN=1"]}
        python(BUILD.format(source=SOURCE, how=how), HIPRT_CACHE_DIR=str(cache), HIPRT_CACHE_MAX_MB="1")
    left = entries(cache)
    assert opened in left
    assert fresh in left
    assert abandoned not in left
