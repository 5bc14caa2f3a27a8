"""Tensor files: named arrays and a few texts in one file of the safetensors format."""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hiprt.dtype import SAFETENSORS
from hiprt.whole_file import whole_file

__all__ = ["read_tensors", "tensors_in", "write_tensors"]

HostArray = np.ndarray[Any, np.dtype[Any]]
WORDS = {dtype: word for word, dtype in SAFETENSORS.items()}
ALIGNMENT = 8  # of the first tensor
MOST_AXES = 64


def write_tensors(path: Path, tensors: Mapping[str, Callable[[], HostArray]], texts: Mapping[str, str]) -> None:
    """Write a file; one that is there is replaced when the new one is complete.

    Parameters
    ----------
    path : Path
    tensors : mapping of str to callable
        Each returns an array of the host. It is called twice: its content is needed only while it is written.
    texts : mapping of str to str

    Raises
    ------
    OSError
        The file cannot be written.
    TypeError
        A tensor has a dtype that the format lacks.
    """
    header: dict[str, Any] = {"__metadata__": dict(texts)}
    end = 0
    # Larger elements come first, so that all are aligned.
    order = sorted(tensors, key=lambda name: -tensors[name]().dtype.itemsize)
    for name in order:
        tensor = tensors[name]()
        if tensor.dtype not in WORDS:
            raise TypeError(f"{tensor.dtype} has no place in a safetensors file")
        begin, end = end, end + tensor.nbytes
        header[name] = {"dtype": WORDS[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    with whole_file(path) as partial, partial.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            tensor = np.ascontiguousarray(tensors[name]())
            file.write(tensor.reshape(-1).view(np.uint8).data)


def read_tensors(path: Path) -> tuple[dict[str, HostArray], dict[str, str]]:
    """Return a file's arrays, which are views of the mapped file, and its texts.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        It is no file of this format: every byte behind the header belongs to exactly one tensor.
    """
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            raise ValueError("it is truncated, or no safetensors file: it ends in its header")
        return tensors_in(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))


def tensors_in(memory: memoryview) -> tuple[dict[str, HostArray], dict[str, str]]:
    """Return the arrays, which are views of the memory, and the texts of a file's bytes.

    Raises
    ------
    ValueError
        They are no file of this format.
    """
    length = int.from_bytes(memory[:8], "little")
    if length > len(memory) - 8:
        raise ValueError("it is truncated, or no safetensors file: it ends in its header")
    try:
        header = json.loads(bytes(memory[8 : 8 + length]), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its header is not what safetensors has ({type(error).__name__})") from None
    if type(header) is not dict:
        raise ValueError("its header is no table of tensors")
    content = np.frombuffer(memory, np.uint8)[8 + length :]
    texts = header.pop("__metadata__", {})
    texts = {} if texts is None else texts  # MLX writes null where it is given none
    if type(texts) is not dict or not all(type(text) is str for text in texts.values()):
        raise ValueError("its metadata are not texts")
    tensors: dict[str, HostArray] = {}
    places: list[tuple[int, int]] = []
    for name, entry in header.items():
        dtype, shape, begin, end = entry_of(name, entry)
        if begin < 0 or end > len(content) or end - begin != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"its tensor {name[:40]!r} has no such bytes")
        places.append((begin, end))
        tensors[name] = np.ndarray(shape, dtype, content.data, begin) if end > begin else np.empty(shape, dtype)
    at = 0
    for begin, end in sorted(places):
        if begin != at:
            raise ValueError("its tensors overlap, or leave bytes out")
        at = end
    if at != len(content):
        raise ValueError("its tensors leave bytes out at the end")
    return tensors, texts


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of the header; raise ValueError where it has a name twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name twice")
    return found


def entry_of(name: str, entry: Any) -> tuple[np.dtype[Any], tuple[int, ...], int, int]:
    """Return a tensor's dtype and shape, and where its bytes begin and end."""
    if type(entry) is dict and type(entry.get("dtype")) is str and entry["dtype"] in SAFETENSORS:
        shape: Any = entry.get("shape")
        offsets: Any = entry.get("data_offsets")
        if is_sizes(shape) and is_sizes(offsets) and len(offsets) == 2:
            return SAFETENSORS[entry["dtype"]], tuple(shape), offsets[0], offsets[1]
    raise ValueError(f"its header says nothing usable of the tensor {name[:40]!r}")


def is_sizes(value: Any) -> bool:
    """Whether a value is a list of sizes."""
    return type(value) is list and len(value) <= MOST_AXES and all(type(n) is int and 0 <= n < 2**63 for n in value)
