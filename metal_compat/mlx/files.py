"""Files of arrays: ``.npy``, ``.npz`` and ``.safetensors``, whose content is mapped and goes to the device at once."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hiprt.dtype import SAFETENSORS
from hiprt.graphs.export.tensor_file import read_tensors, tensors_in
from hiprt.metal_compat.mlx.array import array
from hiprt.metal_compat.mlx.dtypes import of
from hiprt.metal_compat.mlx.evaluation import eval as evaluate

__all__ = ["load", "save", "save_gguf", "save_safetensors", "savez", "savez_compressed"]

File = str | os.PathLike[str] | io.IOBase
HostArray = np.ndarray[Any, np.dtype[Any]]
WORDS = {dtype: word for word, dtype in SAFETENSORS.items()}
FORMATS = ("npy", "npz", "safetensors", "gguf")
GGUF = "GGUF files are not part of a decode runtime: convert the model to safetensors first"


def load(
    file: File,
    /,
    format: str | None = None,  # noqa: A002
    return_metadata: bool = False,
    *,
    stream: Any = None,
) -> Any:
    """Return the array of a ``.npy`` file, or those of an ``.npz`` or ``.safetensors`` file by name.

    Parameters
    ----------
    file : path, or a file that can be read
    format : str, optional
        The format; by the name's ending without it.
    return_metadata : bool
        Whether to return the texts of a ``.safetensors`` file as well.

    Raises
    ------
    ValueError
        The format is unknown, or the file is not of it.
    NotImplementedError
        The file is in the format GGUF.
    """
    kind = format or ending_of(file)
    if kind not in FORMATS:
        raise ValueError(f"[load] Unknown file format {kind}; npy, npz and safetensors are read.")
    if not isinstance(file, io.IOBase) and not hasattr(file, "read") and not os.path.exists(os.fspath(file)):
        raise RuntimeError(f"[load] Failed to open file {os.fspath(file)}.")
    if kind == "gguf":
        raise NotImplementedError(f"[load] {GGUF}.")
    if kind == "safetensors":
        found, texts = tensors_of(file)
        arrays = {name: array(viewed(host)) for name, host in found.items()}
        return (arrays, texts) if return_metadata else arrays
    if return_metadata:
        raise ValueError(f"[load] metadata not supported for format {kind}")
    if kind == "npy":
        return from_numpy(np.load(opened(file)))
    with np.load(opened(file)) as archive:
        return {name: from_numpy(archive[name]) for name in archive.files}


def ending_of(file: File) -> str:
    """Return what stands behind the last dot of a file's name."""
    name = getattr(file, "name", None) if hasattr(file, "read") else os.fspath(file)
    if not isinstance(name, str):
        raise ValueError("[load] The format of a file without a name must be given.")
    return name.rpartition(".")[2]


def opened(file: File) -> Any:
    """Return what numpy reads: a file, or the name of one."""
    return file if hasattr(file, "read") else os.fspath(file)


def tensors_of(file: File) -> tuple[dict[str, HostArray], dict[str, str]]:
    """Return the tensors and texts of a file in the format safetensors, mapped where it has a name."""
    try:
        if isinstance(file, (str, os.PathLike)):
            return read_tensors(Path(file))
        content: bytes = file.read()
        return tensors_in(memoryview(content))
    except ValueError as error:
        raise RuntimeError(f"[load_safetensors] The file cannot be read: {error}.") from None


def viewed(host: HostArray) -> HostArray:
    """Return an array in a dtype that MLX has: floats of 8 bits are bytes."""
    return host.view(np.uint8) if host.dtype.name.startswith("float8") else host


def from_numpy(host: HostArray) -> array:
    """Return an array of numpy's; refuse what MLX refuses."""
    if host.dtype.name == "complex128":
        raise ValueError("[load] Unsupported dtype complex128: complex64 is read.")
    return array(np.ascontiguousarray(host).reshape(host.shape), of(host.dtype))


def host_of(name: str, value: Any) -> HostArray:
    """Return an array on the host."""
    if not isinstance(value, array):
        raise TypeError(f"{name} is a {type(value).__name__}, not an array")
    return value.numpy()


def save(file: File, arr: array) -> None:
    """Write an array to a ``.npy`` file."""
    write_numpy(file, ".npy", lambda to: np.save(to, without_bfloat16(host_of("arr", arr))))


def savez(file: File, *args: array, **kwargs: array) -> None:
    """Write arrays to an ``.npz`` file; those without a name are arr_0, arr_1 and so on."""
    write_numpy(file, ".npz", lambda to: np.savez(to, **named(args, kwargs)))


def savez_compressed(file: File, *args: array, **kwargs: array) -> None:
    """Write arrays to a compressed ``.npz`` file."""
    write_numpy(file, ".npz", lambda to: np.savez_compressed(to, **named(args, kwargs)))


def named(args: tuple[array, ...], kwargs: Mapping[str, array]) -> dict[str, Any]:
    """Return arrays of the host by name."""
    all_named = dict(kwargs)
    for i, each in enumerate(args):
        if f"arr_{i}" in all_named:
            raise ValueError(f"Cannot use un-named variables and keyword arr_{i}")
        all_named[f"arr_{i}"] = each
    return {name: without_bfloat16(host_of(name, each)) for name, each in all_named.items()}


def without_bfloat16(host: HostArray) -> HostArray:
    """Return an array that numpy's formats can hold."""
    if host.dtype.name == "bfloat16":
        raise ValueError(
            "[save] bfloat16 has no place in numpy's formats: save safetensors, or astype(mx.float32) first"
        )
    return host


def write_numpy(file: File, ending: str, write: Any) -> None:
    """Write to a file, or to one of a name, which gets the ending that it lacks."""
    if hasattr(file, "write"):
        write(file)
        return
    name = os.fspath(file)
    with open(name if name.endswith(ending) else name + ending, "wb") as to:
        write(to)


def save_safetensors(file: File, arrays: Mapping[str, array], metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays, and texts, to a ``.safetensors`` file."""
    texts = dict(metadata or {})
    if not all(isinstance(part, str) for pair in texts.items() for part in pair):
        raise TypeError("save_safetensors(): metadata maps str to str")
    for name, each in arrays.items():
        if not isinstance(name, str) or not isinstance(each, array):
            raise TypeError("save_safetensors(): arrays maps str to array")
    evaluate(list(arrays.values()))
    if hasattr(file, "write"):
        write_safetensors(file, arrays, texts)
        return
    name = os.fspath(file)
    with open(name if name.endswith(".safetensors") else name + ".safetensors", "wb") as to:
        write_safetensors(to, arrays, texts)


def write_safetensors(to: Any, arrays: Mapping[str, array], texts: Mapping[str, str]) -> None:
    """Write the header, then array by array, of which one at a time is on the host."""
    header: dict[str, Any] = {"__metadata__": dict(texts)}
    end = 0
    for name, each in arrays.items():
        begin, end = end, end + each.nbytes
        word = WORDS[each.dtype.numpy]
        header[name] = {"dtype": word, "shape": list(each.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    to.write(len(text).to_bytes(8, "little") + text)
    for each in arrays.values():
        to.write(np.ascontiguousarray(each.numpy()).reshape(-1).view(np.uint8).data)


def save_gguf(file: File, arrays: Mapping[str, array], metadata: Mapping[str, Any] | None = None) -> None:
    """Refuse: GGUF is not written.

    Raises
    ------
    NotImplementedError
    """
    raise NotImplementedError(f"[save_gguf] {GGUF}.")
