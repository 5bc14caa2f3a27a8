"""PromptCache: what the layers have computed of a prompt, in a file, so that another run begins behind it."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from hiprt.bench.engine.errors import CheckpointError
from hiprt.bench.engine.safetensors_file import SafetensorsFile
from hiprt.whole_file import whole_file

__all__ = ["PromptCache", "shared"]

FORMAT = "hiprt prompt cache 1"
TOKENS = "tokens"
SCALES = ".key_scales"  # which only keys in 8 bits have
BY_POSITION = (".keys", ".values", SCALES, ".value_scales")  # the others are kept of a text as a whole
REMEDY = "write it again with --save-cache"


class PromptCache:
    """A prompt cache, a safetensors file.

    Its tensors are the ``tokens`` of a text, and under ``layers.N.`` the ``keys`` and ``values`` of attention, with
    ``key_scales`` and ``value_scales`` where they are in 8 bits, or the ``conv`` and ``delta`` of gated-delta layers.
    Its metadata has the ``model``, the number of ``positions`` that the layers have taken, and ``crc32`` of all
    tensors.

    Parameters
    ----------
    path : Path or str
    model : str
        The model that reads it, as `Model.identity` names it.

    Attributes
    ----------
    tokens : list of int
        The text, which may be longer than what the layers have taken.
    positions : int
        How many of its tokens they have taken.

    Raises
    ------
    CheckpointError
        The file is missing, damaged, no prompt cache, or of another model.
    """

    def __init__(self, path: Path | str, model: str) -> None:
        self.path = Path(path)
        self.arrays, metadata = read(self.path)
        if metadata["model"] != model:
            raise CheckpointError(f"{self.path} is of another model, or of one that was loaded differently", REMEDY)
        self.tokens: list[int] = self.arrays[TOKENS].tolist()
        self.positions = int(metadata["positions"])

    def check_bits(self, kv_bits: int | None) -> None:
        """Refuse keys and values in 8 bits where those of the model's dtype are wanted, and the other way round."""
        has_codes = any(name.endswith(SCALES) for name in self.arrays)
        has_keys = any(name.endswith(BY_POSITION) for name in self.arrays)
        if has_keys and has_codes != (kv_bits is not None):
            said, remedy = ("has", "with --kv-bits 8") if has_codes else ("has no", "without --kv-bits")
            raise CheckpointError(f"{self.path} {said} keys and values in 8 bits", f"read it {remedy}, or {REMEDY}")

    def layer(self, name: str, positions: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return what a layer keeps of so many first positions; the model asks for this shape and dtype."""
        found = self.arrays.get(name, np.empty((0, 0)))
        if name.endswith(BY_POSITION):
            found = found[:, :positions]
        if found.shape != shape or found.dtype != dtype:
            raise CheckpointError(f"{self.path}: {name} is not what the model keeps", REMEDY)
        return found

    def common(self, prompts: Sequence[Sequence[int]]) -> int:
        """Return how many first tokens every prompt has in common with the layers, the last of a prompt left out.

        That one is taken anew, for the logits behind it.
        """
        return min(shared(self.tokens[: self.positions], prompt[:-1]) for prompt in prompts)

    @staticmethod
    def read_tokens(path: Path | str) -> list[int]:
        """Return the text of a file, of whatever model it is; the errors are those of the class."""
        tokens: list[int] = read(Path(path))[0][TOKENS].tolist()
        return tokens

    @staticmethod
    def write(
        path: Path | str, model: str, tokens: Sequence[int], positions: int, layers: Mapping[str, NDArray[Any]]
    ) -> None:
        """Write a file, or none where that fails.

        Parameters
        ----------
        path : Path or str
        model : str
            As `Model.identity` names it.
        tokens : sequence of int
        positions : int
            How many of the tokens the layers have taken.
        layers : mapping of str to ndarray

        Raises
        ------
        OSError
            The file cannot be written.
        """
        arrays = {TOKENS: np.array(tokens, np.int32), **layers}
        said = {"format": FORMAT, "model": model, "positions": str(positions)}
        said["crc32"] = crc32(arrays, said)
        with whole_file(path) as part:
            save_file(arrays, part, said)


def read(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return the tensors of a prompt cache, and its metadata, of whatever model it is."""
    try:
        file = SafetensorsFile(path)
    except CheckpointError as error:
        raise CheckpointError(error.cause, REMEDY) from None
    if file.metadata.get("format") != FORMAT:
        raise CheckpointError(f"{path} is no prompt cache of this version", REMEDY)
    arrays = {name: file[name] for name in file.entries}
    tokens, positions = arrays.get(TOKENS, np.empty(0)), file.metadata.get("positions", "")
    is_whole = tokens.ndim == 1 and tokens.dtype == np.int32
    is_counted = is_whole and positions.isdecimal() and len(positions) < 10 and 0 < int(positions) <= tokens.size
    if not is_counted or "model" not in file.metadata or crc32(arrays, file.metadata) != file.metadata.get("crc32"):
        raise CheckpointError(f"{path} is damaged", REMEDY)
    return arrays, file.metadata


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many first tokens two texts have in common."""
    pairs = enumerate(zip(one, other))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def crc32(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> str:
    """Return the checksum of arrays, their names, and of what the metadata says of them."""
    found = zlib.crc32(f"{metadata['model']} {metadata['positions']}".encode())
    for name in sorted(arrays):
        found = zlib.crc32(name.encode(), found)
        found = zlib.crc32(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data, found)
    return f"{found:08x}"
