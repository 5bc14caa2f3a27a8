"""Compiled code on disk: what makes a new entry, what survives damage and other processes, and how much there is."""

import dataclasses
import fcntl
import hashlib
import os
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from hiprt import code_cache, compiler, core, library
from hiprt.cache_key import digest
from hiprt.code_cache import CodeCache
from hiprt.compiler import compile_source
from hiprt.errors import CompileError, HipWarning
from hiprt.flags import Flags, flags
from hiprt.provider import NVIDIA, ROCM


def entries(cache):
    """The files of a cache."""
    return [path for path in cache.folder.rglob("*") if path.is_file()]


def path_of(cache, provider, key):
    return cache.folder / provider / key[:2] / key[2:]


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
    assert digest(["a", "bc"]) != digest(["ab", "c"])
    assert digest(["a"]) != digest(["a", ""])
    assert len(digest([])) == 64


@pytest.mark.parametrize("size", [0, 1, 55, 56, 63, 64, 65, 1000])
def test_a_key_is_sha256_of_lengths_and_texts(size):
    texts = ["a" * size, "", "größer"]
    whole = b"".join(len(text.encode()).to_bytes(8, "little") + text.encode() for text in texts)
    assert digest(texts) == hashlib.sha256(whole).hexdigest()


def test_the_bound_is_the_same_for_python_and_the_cpu_device():
    assert Flags.cache_max_mb.default == core.lib.HIPRT_CACHE_DEFAULT_MB


def test_the_folder_is_the_platform_s_unless_a_flag_names_one(tmp_path, monkeypatch):
    with flags.override(cache_dir=str(tmp_path)):
        assert code_cache.folder() == tmp_path
    with flags.override(cache_dir=""):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert code_cache.folder() == tmp_path / "hiprt"
        monkeypatch.setenv("XDG_CACHE_HOME", "not absolute")
        monkeypatch.setenv("HOME", str(tmp_path))
        assert code_cache.folder() in (tmp_path / ".cache" / "hiprt", tmp_path / "Library" / "Caches" / "hiprt")


def test_a_user_without_a_home_has_a_folder_for_the_process(monkeypatch):
    monkeypatch.setattr(code_cache, "lib", SimpleNamespace(hiprt_cache_default_folder=lambda: core.ffi.NULL))
    with flags.override(cache_dir=""):
        assert code_cache.folder().is_dir()
        assert code_cache.folder() == code_cache.folder()


def test_what_was_stored_is_loaded(cache):
    assert cache.load("rocm", KEY) is None
    cache.store("rocm", KEY, b"\0code\n", {"f<int>": "_Z1f"})
    assert cache.load("rocm", KEY) == (b"\0code\n", {"f<int>": "_Z1f"})
    assert cache.load("nvidia", KEY) is None
    assert entries(cache) == [path_of(cache, "rocm", KEY)]


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"", lambda b: b[:-1] + b"?", lambda b: b"x" + b[1:]])
def test_a_damaged_entry_is_not_loaded_and_is_replaced(cache, damage):
    cache.store("rocm", KEY, b"code", {})
    path = path_of(cache, "rocm", KEY)
    path.write_bytes(damage(path.read_bytes()))
    assert cache.load("rocm", KEY) is None
    cache.store("rocm", KEY, b"code", {})
    assert cache.load("rocm", KEY) == (b"code", {})


@pytest.mark.parametrize(("kind", "key"), [("rocm", KEY[:-1] + "1"), ("nvidia", KEY), ("nvidia", "cd" + KEY[2:])])
def test_an_entry_that_was_copied_over_another_is_not_taken_for_it(cache, kind, key):
    cache.store("rocm", KEY, b"code", {})
    cache.store(kind, key, b"other", {})
    path_of(cache, kind, key).write_bytes(path_of(cache, "rocm", KEY).read_bytes())
    assert cache.load(kind, key) is None
    assert cache.load("rocm", KEY) == (b"code", {})
    cache.store(kind, key, b"other", {})
    assert cache.load(kind, key) == (b"other", {})


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
        os.utime(path_of(cache, "rocm", key), (1000 + i, 1000 + i))
    assert cache.load("rocm", keys[0])
    with flags.override(cache_max_mb=3):
        cache.store("nvidia", KEY, b"new", {})
    assert [cache.load("rocm", key) is not None for key in keys] == [True, False, False, True]
    assert cache.load("nvidia", KEY)


def test_the_bound_holds_after_every_store_of_several_processes(cache):
    """None of them looks at the folder each time; what the others have stored meanwhile counts all the same."""
    others = [subprocess.Popen([sys.executable, "-c", FILL, str(cache.folder)], stdin=-1, stdout=-1) for _ in range(3)]
    held = []
    for _ in range(40):
        for each in others:
            each.stdin.write(b"store\n")
            each.stdin.flush()
            assert each.stdout.readline() == b"stored\n"
            held.append(cache.size()[1])
    for each in others:
        each.communicate()
    assert max(held) <= 2 << 20
    assert held[-1] > 1 << 20


FILL = """
import os, sys
from pathlib import Path
from hiprt.code_cache import CodeCache
from hiprt.flags import flags
cache = CodeCache(Path(sys.argv[1]))
with flags.override(cache_max_mb=2):
    for _ in sys.stdin:
        cache.store("rocm", os.urandom(32).hex(), bytes(50_000), {})
        print("stored", flush=True)
"""


def test_0_is_no_bound(cache):
    with flags.override(cache_max_mb=0):
        for i in range(3):
            cache.store("rocm", f"{i:02}" + "0" * 62, bytes(1 << 20), {})
    assert cache.size()[0] == 3


def test_what_a_process_has_open_or_writes_stays(cache):
    cache.store("rocm", KEY, b"code", {})
    path = path_of(cache, "rocm", KEY)
    fresh = path.with_name(f"{path.name}.1.0")
    fresh.write_bytes(b"half")
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert cache.trim(0) == (0, 0)
        assert path.exists()
        assert file.read()
    assert cache.trim(0)[0] == 1
    assert entries(cache) == [fresh]
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
    assert all("." not in path.name for path in entries(cache))


def test_compiled_code_is_kept_for_the_next_process(builds, cache):
    first = compile_source(SOURCE, "k.hip", options=["-DN=1"], expressions=["k"])
    assert compile_source(SOURCE, "k.hip", options=["-DN=1"], expressions=["k"]) == first
    assert len(builds) == 1
    (entry,) = entries(cache)
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
    assert entries(cache) == []


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ('#include "mine.h"\n', []),
        ("  #  include MINE\n", []),
        ("%:include <mine.h>\n", ["-Ithere"]),
        ("int x;\n\t%:  embed <x>\n", []),
        ("??=include MINE\n", []),
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
