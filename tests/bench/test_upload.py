"""Upload: matrices in pieces through pinned memory, what that takes of memory, and what it says on the way."""

import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from helpers import checkpoints
from hypothesis import given, settings, strategies as st
from safetensors.numpy import save_file

from hiprt import HipError, bfloat16
from hiprt.bench.engine.checkpoint import Checkpoint
from hiprt.bench.engine.errors import CheckpointError
from hiprt.bench.engine.matrix import Joined, join, lifted
from hiprt.bench.engine.models import load, upload
from hiprt.bench.engine.models.upload import Upload
from hiprt.bench.engine.safetensors_file import SafetensorsFile
from hiprt.hip import lib

SIZES = {"vocab_size": 60000, "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 16}


@st.composite
def trees(draw, ndim, depth=0):
    """Draw an array as parts of parts, with the same array in one piece."""
    dtype = draw(st.sampled_from([np.uint8, np.float32, bfloat16])) if not depth else None
    shape = draw(st.lists(st.integers(1, 5), min_size=ndim, max_size=ndim))

    def make(shape, depth):
        axis = draw(st.integers(0, min(1, ndim - 1)))
        if depth == 3 or shape[axis] < 2 or draw(st.booleans()):
            whole = np.array([draw(st.integers(0, 200)) for _ in range(int(np.prod(shape)))]).reshape(shape)
            return whole.astype(dtype), whole.astype(dtype)
        cut = draw(st.integers(1, shape[axis] - 1))
        made = [make([*shape[:axis], size, *shape[axis + 1 :]], depth + 1) for size in (cut, shape[axis] - cut)]
        return Joined([part for part, _ in made], axis), np.concatenate([whole for _, whole in made], axis)

    return make(shape, depth)


@settings(deadline=None)
@given(st.integers(1, 3).flatmap(trees), st.data())
def test_joined_arrays_are_the_concatenation(tree, data):
    """Whatever rows are read of whatever parts."""
    parts, whole = tree
    assert (parts.shape, parts.dtype) == (whole.shape, whole.dtype)
    assert np.asarray(parts).tobytes() == whole.tobytes()
    index = data.draw(st.integers(0, len(whole) - 1))
    assert np.asarray(parts[index]).tobytes() == whole[index].tobytes()
    if isinstance(parts, Joined):
        with pytest.raises(IndexError):
            parts[len(whole)]
    assert np.asarray(lifted(parts)).tobytes() == whole[None].tobytes()


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 3).flatmap(trees), st.sampled_from([1, 3, 16, 1 << 20]))
def test_what_is_uploaded_is_what_was_given(tree, size):
    """In pieces of any size, which take turns, with a row at least in each."""
    parts, whole = tree
    said = []
    copy = Upload(whole.nbytes, lambda *counts: said.append(counts))
    copy.size = size
    made = [copy(parts) for _ in range(3)]
    copy.wait()
    copy.close()
    assert [each.numpy().tobytes() for each in made] == [whole.tobytes()] * 3
    assert said[-1] == (3 * whole.nbytes, whole.nbytes)
    assert said == sorted(said)


def uploaded(copy, rows):
    """Return the bytes on the device."""
    made = copy(rows)
    copy.wait()
    return made.numpy().tobytes()


def test_pieces_that_several_threads_fill():
    """Each thread takes a part, and fills its pinned memory several times with it; the last part may be smaller."""
    rng = np.random.default_rng(0)
    parts = [rng.integers(0, 2**32, (rows, 33), np.uint32) for rows in (70, 1, 58)]
    copy = Upload(0, lambda *_: None)
    copy.size = 8  # a part has 32 bytes, a row 132
    assert uploaded(copy, join(parts)) == np.concatenate(parts).tobytes()
    copy.close()


def test_what_uses_the_contents_follows_the_copies(monkeypatch):
    """A call returns while threads still read; `then` comes behind its array's copies, in order, and few bytes wait."""
    monkeypatch.setattr(upload, "AHEAD", 4096)
    copy, read = Upload(0, lambda *_: None), upload.Part.copy
    copy.size = 256

    def slowly(self, piece):
        time.sleep(0.002)
        read(self, piece)

    monkeypatch.setattr(upload.Part, "copy", slowly)
    found, most = [], 0
    for value in range(12):
        made = copy(np.full((2048,), value, np.uint8))
        copy.then(lambda made=made, value=value: found.append((value, set(made.numpy().tolist()))))
        most = max(most, copy.ahead_bytes)
    copy.wait()
    copy.close()
    assert found == [(value, {value}) for value in range(12)]
    assert 2048 < most <= 4096 + 1024


def test_files_are_read_and_not_mapped(tmp_path):
    """Views of a file, and parts of them, are read from it; of a file that has become shorter that is said."""
    rng = np.random.default_rng(0)
    stored = {"a": rng.integers(0, 2**32, (40, 6), np.uint32), "b": rng.integers(0, 2**32, (3, 40, 6), np.uint32)}
    save_file(stored, tmp_path / "file")
    file = SafetensorsFile(tmp_path / "file")
    copy = Upload(0, lambda *_: None, [file])
    found, source_of = [], copy.source_of
    copy.source_of = lambda block: (found.append(source_of(block)), found[-1])[1]
    assert uploaded(copy, join([file["a"], file["a"]])) == np.concatenate([stored["a"]] * 2).tobytes()
    wide = uploaded(copy, join([file["b"], file["b"][:, 3:7]]))
    assert wide == np.concatenate([stored["b"], stored["b"][:, 3:7]], 1).tobytes()
    assert uploaded(copy, file["a"][::2]) == stored["a"][::2].tobytes()
    assert [at for at, _ in found] == [file] * (2 + 3 * 2 + 20)
    assert uploaded(copy, file["a"][0, ::2]) == stored["a"][0, ::2].tobytes()
    assert found[-1][0] is None
    raw = (tmp_path / "file").read_bytes()
    os.truncate(tmp_path / "file", len(raw) - 100)
    with pytest.raises(CheckpointError, match="file has become shorter"):
        uploaded(copy, file["b"])
    os.dup2(os.open(tmp_path, os.O_RDONLY), file.descriptor)
    with pytest.raises(IsADirectoryError, match="file"):
        uploaded(copy, file["b"])
    copy.close()


def test_pinned_memory_is_given_back(monkeypatch):
    """Each thread has one piece at most at a time, and none after the end, or after an error."""
    held = []
    malloc, free = upload.handle, lib.hipHostFree

    def pinned(function, *args, **options):
        held.append(malloc(function, *args, **options))
        return held[-1]

    def freed(address):
        held.remove(address)
        return free(address)

    monkeypatch.setattr(upload, "handle", pinned)
    names = {name: getattr(lib, name) for name in dir(lib)} | {"hipHostFree": freed}
    monkeypatch.setattr(upload, "lib", type("lib", (), names))
    copy = Upload(0, lambda *_: None)
    copy.size = 64
    for width in (4, 64, 256):
        uploaded(copy, np.zeros((70, width), np.uint8))
        assert len(held) <= upload.THREADS
    copy.close()
    assert held == []

    def fail(*_):
        raise HipError(1, "hipErrorInvalidValue", "hipMemcpyAsync", "")

    copy = Upload(0, fail)
    with pytest.raises(HipError):
        uploaded(copy, np.zeros((7, 4), np.uint8))
    copy.close()
    assert held == []


def test_loading_says_how_far_it_is(tmp_path):
    """Bytes that were copied, up to nearly all of the files; headers are not counted."""
    checkpoint, said = Checkpoint(checkpoints.write(tmp_path, shards=3)), []
    load(checkpoint, progress=lambda *counts: said.append(counts))
    assert {nbytes for _, nbytes in said} == {checkpoint.nbytes}
    assert 0.8 * checkpoint.nbytes < said[-1][0] < checkpoint.nbytes


PROGRAM = """
import sys
from pathlib import Path
from hiprt.bench.engine.checkpoint import Checkpoint
from hiprt.bench.engine.models import load

def memory(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))

load(Checkpoint(sys.argv[1]))
Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
before = memory("VmRSS")
kept = load(Checkpoint(sys.argv[2]))
print("took", memory("VmHWM") - before)
"""


def coded(config, group=32):
    """Return weights of a config's shapes whose codes are random and whose scales are small."""
    matrices, vectors = checkpoints.shapes(config)
    rng, made = np.random.default_rng(0), {}
    for name, (rows, columns) in matrices.items():
        made[f"{name}.weight"] = rng.integers(0, 2**32, (rows, columns // 8), np.uint32)
        made |= {f"{name}.{part}": np.full((rows, columns // group), 0.01, np.float16) for part in ("scales", "biases")}
    return made | {f"{name}.weight": np.ones(size, np.float16) for name, size in vectors.items()}


@pytest.mark.only("cpu", reason="elsewhere the device's memory is not the host's")
def test_a_model_takes_the_memory_of_its_file_once(tmp_path):
    """Mapped pages, pinned pieces and what is put together of parts are a tenth of the file at most."""
    config = {**checkpoints.CONFIG, **SIZES}
    small = checkpoints.write(tmp_path / "small")
    large = checkpoints.write(tmp_path / "large", weights=coded(config), **SIZES)
    size = (large / "model.safetensors").stat().st_size
    made = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(small), str(large)], capture_output=True, text=True, check=True, timeout=240
    )
    taken = int(re.search(r"took (\d+)", made.stdout)[1])
    assert 0.9 * size < taken < 1.1 * size
