"""Compiled code on disk: what makes a new entry, what survives damage and other processes, and how much there is."""

import dataclasses
import os
import subprocess
import sys
import threading

import pytest

from hiprt import code_cache, compiler, library
from hiprt.code_cache import CodeCache, key_of
from hiprt.compiler import compile_source
from hiprt.errors import CompileError, HipWarning
from hiprt.flags import flags
from hiprt.provider import NVIDIA, ROCM

KEY = "ab" + "0" * 62
SOURCE = 'extern "C" __global__ void k(int* p) { p[0] = N; }\n'


@pytest.fixture
def cache(tmp_path):
    with flags.override(cache_dir=str(tmp_path / "cache")):
        yield CodeCache()


@pytest.fixture
def builds(cache, monkeypatch):
    """Cache for the library in use as for those without a cache of their own; the sources that were compiled."""
    built = []
    build = compiler.build

    def counted(source, *rest):
        built.append(source)
        return build(source, *rest)

    chosen = library.current()
    caching = dataclasses.replace(chosen.provider, caches_code=True)
    monkeypatch.setattr(library, "chosen", dataclasses.replace(chosen, provider=caching))
    monkeypatch.setattr(compiler, "build", counted)
    return built


def test_keys_are_of_whole_sequences():
    assert key_of(["a", "bc"]) != key_of(["ab", "c"])
    assert key_of(["a"]) != key_of(["a", ""])
    assert len(key_of([])) == 64


def test_what_was_stored_is_loaded(cache):
    assert cache.load("rocm", KEY) is None
    cache.store("rocm", KEY, b"\0code\n", {"f<int>": "_Z1f"})
    assert cache.load("rocm", KEY) == (b"\0code\n", {"f<int>": "_Z1f"})
    assert cache.load("nvidia", KEY) is None
    assert [path.name for _, _, path in cache.files()] == [KEY[2:]]


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"", lambda b: b[:-1] + b"?", lambda b: b"x" + b[1:]])
def test_a_damaged_entry_is_not_loaded_and_is_replaced(cache, damage):
    cache.store("rocm", KEY, b"code", {})
    path = cache.path("rocm", KEY)
    path.write_bytes(damage(path.read_bytes()))
    assert cache.load("rocm", KEY) is None
    cache.store("rocm", KEY, b"code", {})
    assert cache.load("rocm", KEY) == (b"code", {})


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path):
    (tmp_path / "file").write_text("")
    cache = CodeCache(tmp_path / "file" / "cache")
    with pytest.warns(HipWarning, match="cannot be written, and every process compiles its kernels again"):
        cache.store("rocm", KEY, b"code", {})
    assert cache.load("rocm", KEY) is None


def test_the_least_recently_used_goes(cache):
    keys = [f"{i:02}" + "0" * 62 for i in range(4)]
    for i, key in enumerate(keys):
        cache.store("rocm", key, bytes(1 << 20), {})
        os.utime(cache.path("rocm", key), (1000 + i, 1000 + i))
    assert cache.load("rocm", keys[0])
    with flags.override(cache_max_mb=3):
        cache.store("nvidia", KEY, b"new", {})
    assert [cache.load("rocm", key) is not None for key in keys] == [True, False, False, True]
    assert cache.load("nvidia", KEY)


def test_0_is_no_bound(cache):
    with flags.override(cache_max_mb=0):
        for i in range(3):
            cache.store("rocm", f"{i:02}" + "0" * 62, bytes(1 << 20), {})
    assert len(cache.files()) == 3


def test_what_a_process_has_open_or_writes_stays(cache):
    cache.store("rocm", KEY, b"code", {})
    path = cache.path("rocm", KEY)
    fresh = path.with_name(f"{path.name}.1.0")
    fresh.write_bytes(b"half")
    with code_cache.opened(path) as file:
        assert cache.trim(0) == (0, 0)
        assert path.exists()
        assert file.read()
    assert cache.trim(0)[0] == 1
    assert [path for _, _, path in cache.files()] == [fresh]
    os.utime(fresh, (1000, 1000))
    assert cache.trim(0)[0] == 1


def test_processes_and_threads_at_once(cache):
    """Writers and readers of one entry and a trimmer: every reader sees the whole entry or none."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom hiprt.code_cache import CodeCache\n"
        "cache = CodeCache(Path(sys.argv[1]))\n"
        "for i in range(100):\n"
        f"    cache.store('rocm', '{KEY}', bytes([i]) * 100000, {{'n': str(i)}})\n"
        f"    found = cache.load('rocm', '{KEY}')\n"
        "    assert found is None or found[0] == bytes([int(found[1]['n'])]) * 100000\n"
        "    cache.trim(0) if i % 10 == 0 else None\n"
    )
    children = [subprocess.Popen([sys.executable, "-c", code, str(cache.folder)]) for _ in range(2)]
    try:
        while any(child.poll() is None for child in children):
            found = cache.load("rocm", KEY)
            assert found is None or found[0] == bytes([int(found[1]["n"])]) * 100000
    finally:
        assert [child.wait() for child in children] == [0, 0]
    assert all("." not in path.name for _, _, path in cache.files())


def test_compiled_code_is_kept_for_the_next_process(builds, cache):
    first = compile_source(SOURCE, "k.hip", options=["-DN=1"], expressions=["k"])
    assert compile_source(SOURCE, "k.hip", options=["-DN=1"], expressions=["k"]) == first
    assert len(builds) == 1
    ((_, _, entry),) = cache.files()
    assert entry.parts[-3] == library.current().provider.name
    assert entry.read_bytes().endswith(first[0])


@pytest.mark.parametrize(
    "change",
    [
        {"source": SOURCE + " "},
        {"name": "other.hip"},
        {"options": ["-DN=2"]},
        {"options": ["-DN=1", "-DM=1"]},
        {"expressions": ["k"]},
    ],
    ids=["source", "name", "value", "option", "expression"],
)
def test_whatever_goes_in_makes_a_new_entry(builds, change):
    how = {"source": SOURCE, "name": "k.hip", "options": ["-DN=1"]}
    compile_source(**how)
    compile_source(**{**how, **change})
    assert len(builds) == 2
    compile_source(**{**how, **change})
    compile_source(**how)
    assert len(builds) == 2


def test_another_compiler_makes_a_new_entry(builds, monkeypatch):
    compile_source(SOURCE, "k.hip", options=["-DN=1"])
    monkeypatch.setattr(compiler, "identity", lambda: "another")
    compile_source(SOURCE, "k.hip", options=["-DN=1"])
    assert len(builds) == 2


@pytest.mark.parametrize(("provider", "name"), [(ROCM, "libamd_comgr.so.3"), (NVIDIA, "libnvrtc.so.13")])
def test_the_compiler_s_files_are_its_identity(tmp_path, monkeypatch, provider, name):
    chosen = dataclasses.replace(library.current(), provider=provider, compiler=tmp_path / name)
    found = []
    with monkeypatch.context() as patch:
        patch.setattr(library, "current", lambda: chosen)
        for text in ("1", "22"):
            (tmp_path / name).write_text(text)
            compiler.identity.cache_clear()
            found.append(compiler.identity())
    compiler.identity.cache_clear()
    assert found[0] != found[1]
    assert name in found[0]


def test_a_failed_build_is_not_kept(builds, cache):
    for _ in range(2):
        with pytest.raises(CompileError):
            compile_source("int x", "k.hip")
    assert len(builds) == 2
    assert cache.files() == []


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ('#include "mine.h"\n', []),
        ("  #  include MINE\n", []),
        ("%:include <mine.h>\n", ["-Ithere"]),
        ("", ["-Ithere"]),
        ("", ["-include", "mine.h"]),
        ("", ["--include-path=there"]),
    ],
)
def test_what_may_read_files_is_compiled_each_time(source, options):
    assert compiler.reads_files(source + SOURCE, options)


@pytest.mark.parametrize(
    ("source", "options"), [("#include <hip/hip_fp16.h>\n", []), ("// #include\n", ["-O3", "-DI=1"])]
)
def test_the_compiler_s_own_headers_are_part_of_it(source, options):
    assert not compiler.reads_files(source + SOURCE, options)


def test_threads_that_compile_one_source(builds, cache):
    made, barrier = [], threading.Barrier(4)

    def run():
        barrier.wait()
        made.append(compile_source(SOURCE, "k.hip", options=["-DN=1"]))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4
    before = len(builds)
    compile_source(SOURCE, "k.hip", options=["-DN=1"])
    assert len(builds) == before
