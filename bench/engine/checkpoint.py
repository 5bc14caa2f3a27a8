"""Checkpoints: Hugging Face directories whose weights are plain, or quantised in MLX's affine layout.

A `Checkpoint` reads config.json and tokenizer.json and maps the safetensors files. Weights are views of the mapped
files, checked against the shape and dtype that the model asks for. Whatever is wrong is a `CheckpointError` that says
what it is and what to do about it.
"""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from hiprt import bfloat16
from hiprt.bench.engine.errors import CONVERT, DOWNLOAD, CheckpointError
from hiprt.bench.engine.matrix import Matrix, Quantized
from hiprt.bench.engine.safetensors_file import SafetensorsFile
from hiprt.bench.engine.settings import Settings
from hiprt.kernels.ops.quantized.formats import AFFINE_BITS, GROUP_SIZES

__all__ = ["Checkpoint", "CheckpointWarning"]

FLOATS = (np.dtype(np.float16), bfloat16, np.dtype(np.float32))


class CheckpointWarning(UserWarning):
    """A model directory holds something that is not used."""


class Checkpoint:
    """A model directory.

    Parameters
    ----------
    path : Path or str
        The directory; it holds config.json, tokenizer.json and model.safetensors, or shards and their index.

    Attributes
    ----------
    path : Path
    settings : Settings
        What config.json says.
    tokenizer : Tokenizer
    stops : frozenset of int
        The tokens that end a text.
    files : dict of str to SafetensorsFile
        The files by name.
    places : dict of str to SafetensorsFile
        The file that holds each tensor.
    used : set of str
        The tensors that have been asked for.

    Raises
    ------
    CheckpointError
        A file is missing, truncated or corrupt.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            what = "is not a directory" if self.path.exists() else "does not exist"
            hint = "give the directory of a downloaded Hugging Face model"
            if re.fullmatch(r"[\w.-]+/[\w.-]+", str(path)):
                hint += f": `hf download {path}` prints the directory to give"
            raise CheckpointError(f"{self.path} {what}", hint)
        self.settings = Settings(self.json("config.json"), str(self.path / "config.json"))
        self.tokenizer = self.load_tokenizer()
        self.stops = self.find_stops()
        self.files: dict[str, SafetensorsFile] = {}
        self.places = self.find_tensors()
        self.used: set[str] = set()

    def json(self, name: str) -> dict[str, Any]:
        """Read a JSON object of the directory."""
        path = self.path / name
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise CheckpointError(f"{path} is missing", "give a complete Hugging Face model directory") from None
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path} cannot be read ({error})", DOWNLOAD) from None
        if not isinstance(value, dict):
            raise CheckpointError(f"{path} holds no JSON object", DOWNLOAD)
        return value

    def load_tokenizer(self) -> Tokenizer:
        """Read tokenizer.json."""
        path = self.path / "tokenizer.json"
        if not path.exists():
            raise CheckpointError(f"{path} is missing", "give a complete Hugging Face model directory")
        try:
            return Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception
            raise CheckpointError(f"{path} cannot be read ({error})", DOWNLOAD) from None

    def find_stops(self) -> frozenset[int]:
        """Return the tokens that end a text, from generation_config.json or, where that names none, config.json."""
        stops = self.settings.values.get("eos_token_id")
        if (self.path / "generation_config.json").exists():
            stops = self.json("generation_config.json").get("eos_token_id", stops)
        listed = stops if isinstance(stops, list) else [] if stops is None else [stops]
        if not all(isinstance(stop, int) for stop in listed):
            cause = f"{self.path}: eos_token_id is {stops!r}, neither a token nor a list of tokens"
            raise CheckpointError(cause, DOWNLOAD)
        return frozenset(listed)

    def find_tensors(self) -> dict[str, SafetensorsFile]:
        """Open the weights; return the file that holds each tensor."""
        if not (self.path / "model.safetensors.index.json").exists():
            whole = self.path / "model.safetensors"
            if not whole.exists():
                cause = f"{self.path} holds neither model.safetensors nor model.safetensors.index.json"
                raise CheckpointError(cause, "give a model with safetensors weights")
            file = self.files[whole.name] = SafetensorsFile(whole)
            return dict.fromkeys(file.entries, file)
        index = self.path / "model.safetensors.index.json"
        shards = self.json(index.name).get("weight_map")
        if not isinstance(shards, dict) or not all(isinstance(shard, str) for shard in shards.values()):
            raise CheckpointError(f"{index} has no weight_map of names to files", DOWNLOAD)
        for shard in sorted(set(shards.values())):
            if not (self.path / shard).exists():
                raise CheckpointError(f"{index} names {shard}, which is missing", "download that file too")
            self.files[shard] = SafetensorsFile(self.path / shard)
        for name, shard in shards.items():
            if name not in self.files[shard].entries:
                raise CheckpointError(f"{index} places {name} in {shard}, which does not hold it", DOWNLOAD)
        return {name: self.files[shard] for name, shard in shards.items()}

    def quantization(self, module: str) -> tuple[int, int]:
        """Return the group size and bits of a quantised module; config.json may give some modules their own.

        Raises
        ------
        CheckpointError
            config.json does not say, or the layout is not the affine one.
        """
        section, where = self.section, self.settings.where
        if not section:
            raise CheckpointError(f"{where} has no quantization section, but {module} has scales", DOWNLOAD)
        own = section.get(module)
        if isinstance(own, dict):
            section = {**section, **own}
        method = section.get("quant_method", section.get("mode", "affine"))
        if method != "affine":
            raise CheckpointError(f"{where}: quantization {method!r} is not supported, only MLX's affine", CONVERT)
        group_size, bits = section.get("group_size"), section.get("bits")
        if group_size not in GROUP_SIZES or bits not in AFFINE_BITS:
            cause = f"{where}: {bits} bits in groups of {group_size} are not supported"
            raise CheckpointError(cause, f"bits may be {listed(AFFINE_BITS)} and groups {listed(GROUP_SIZES)}")
        return group_size, bits

    @property
    def section(self) -> dict[str, Any]:
        """What config.json says about quantisation; empty for plain weights."""
        values = self.settings.values
        section = values.get("quantization", values.get("quantization_config"))
        return section if isinstance(section, dict) else {}

    def tensor(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return a read-only view of a tensor, and note that it was asked for.

        Raises
        ------
        CheckpointError
            It is missing, or has another shape or dtype than these.
        """
        file = self.file_of(name)
        entry = file.entries[name]
        if entry.shape != shape:
            cause = f"{file.path}: {name} has shape {list(entry.shape)}, config.json asks for {list(shape)}"
            raise CheckpointError(cause, "take config.json and weights from the same model")
        if entry.dtype != dtype:
            cause = f"{file.path}: {name} has dtype {entry.dtype}, expected {dtype}"
            raise CheckpointError(cause, CONVERT)
        self.used.add(name)
        return file[name]

    def matrix(self, module: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Matrix:
        """Return a matrix or a stack of matrices: quantised where the module has scales, otherwise plain.

        Parameters
        ----------
        module : str
            The name of the module, without ``.weight``.
        shape : tuple of int, (..., rows, columns)
            The shape of the plain matrix, as config.json says.
        dtype : numpy.dtype
            The dtype of the plain weights, or of scales and biases.

        Raises
        ------
        CheckpointError
            It is missing, or has another shape, dtype or layout.
        """
        if not self.is_quantized(module):
            return self.tensor(f"{module}.weight", shape, dtype)
        group_size, bits = self.quantization(module)
        *rows, columns = shape
        if columns % group_size:
            cause = f"{module} has {columns} columns, which are no whole groups of {group_size}"
            raise CheckpointError(f"{self.settings.where}: {cause}", CONVERT)
        groups = (*rows, columns // group_size)
        return Quantized(
            self.tensor(f"{module}.weight", (*rows, columns * bits // 32), np.dtype(np.uint32)),
            self.tensor(f"{module}.scales", groups, dtype),
            self.tensor(f"{module}.biases", groups, dtype),
            group_size,
            bits,
        )

    def dtype_of(self, module: str) -> np.dtype[Any]:
        """Return the dtype of a module's scales, or of its plain weights: float16, bfloat16 or float32."""
        is_quantized = self.is_quantized(module)
        if self.section or is_quantized:
            self.quantization(module)
        return self.floating(f"{module}.scales" if is_quantized else f"{module}.weight")

    def floating(self, name: str) -> np.dtype[Any]:
        """Return the dtype of a tensor, which must be float16, bfloat16 or float32.

        Raises
        ------
        CheckpointError
            It is missing, or has another dtype.
        """
        file = self.file_of(name)
        dtype = file.entries[name].dtype
        if dtype not in FLOATS:
            cause = f"{file.path}: {name} has dtype {dtype}, expected float16, bfloat16 or float32"
            raise CheckpointError(cause, CONVERT)
        return dtype

    def is_quantized(self, module: str) -> bool:
        """Whether a module has scales.

        Raises
        ------
        CheckpointError
            It has none, but its weights are integers.
        """
        name = f"{module}.weight"
        if f"{module}.scales" in self.places:
            return True
        if name in self.places and self.places[name].entries[name].dtype not in FLOATS:
            raise CheckpointError(f"{self.path}: {module} has no scales, and its weights are no floats", CONVERT)
        return False

    def file_of(self, name: str) -> SafetensorsFile:
        """Return the file that holds a tensor; raise CheckpointError where none does."""
        if name not in self.places:
            raise CheckpointError(f"{self.path} holds no tensor {name}", f"{DOWNLOAD}, or check its architecture")
        return self.places[name]

    def warn_unused(self) -> list[str]:
        """Warn about tensors that nobody has asked for; return their names."""
        unused = sorted(set(self.places) - self.used)
        if unused:
            names = ", ".join(unused[:3]) + (", …" if len(unused) > 3 else "")
            message = f"{self.path} holds {len(unused)} tensors that the model does not use: {names}"
            warnings.warn(message, CheckpointWarning, stacklevel=2)
        return unused

    def encode(self, prompt: str) -> list[int]:
        """Return the tokens of a prompt; an empty prompt becomes the token that begins a text.

        Raises
        ------
        CheckpointError
            The prompt has no token, and config.json names none that begins a text.
        """
        return list(self.tokenizer.encode(prompt).ids) or [self.settings.get("bos_token_id", int)]


def listed(values: tuple[int, ...]) -> str:
    """Return numbers as text: ``2, 4 or 8``."""
    return ", ".join(map(str, values[:-1])) + f" or {values[-1]}"
