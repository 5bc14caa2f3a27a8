"""Checkpoints: Hugging Face directories whose weights are plain, or quantised in MLX's affine layout.

A `Checkpoint` reads config.json and tokenizer.json and maps the safetensors files. Weights are views of the mapped
files, checked against the shape and dtype that the model asks for. Whatever is wrong is a `CheckpointError` that says
what it is and what to do about it.
"""

from __future__ import annotations

import os
import re
import warnings
from functools import cached_property
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from hiprt import bfloat16
from hiprt.bench.engine.errors import CONVERT, DOWNLOAD, CheckpointError, summary
from hiprt.bench.engine.files import read_json, require_file
from hiprt.bench.engine.matrix import Matrix, Quantized
from hiprt.bench.engine.safetensors_file import SafetensorsFile
from hiprt.bench.engine.settings import Settings, short
from hiprt.kernels.ops.quantized.formats import MODES, Format

__all__ = ["FLOATS", "Checkpoint", "CheckpointWarning"]

FLOATS = (np.dtype(np.float16), bfloat16, np.dtype(np.float32))
SAMPLE, SAMPLES = 4096, 256  # the bytes that tell files apart: how many together, and how often in a file
MOST_NAME = 255  # characters of a file's name


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
        self.files: dict[str, SafetensorsFile] = {}
        self.places = self.find_tensors()
        self.used: set[str] = set()

    def json(self, name: str) -> dict[str, Any]:
        """Read a JSON object of the directory."""
        return read_json(self.path / name)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of tokenizer.json."""
        path = self.path / "tokenizer.json"
        require_file(path)
        try:
            return Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception
            raise CheckpointError(f"{path} cannot be read ({summary(error)})", DOWNLOAD) from None

    @cached_property
    def stops(self) -> frozenset[int]:
        """The tokens that end a text.

        They stand in generation_config.json, else in config.json, else in tokenizer_config.json as the text of one.
        """
        stops = self.settings.values.get("eos_token_id")
        if (self.path / "generation_config.json").exists():
            stops = self.json("generation_config.json").get("eos_token_id", stops)
        if stops is None and (self.path / "tokenizer_config.json").exists():
            end = self.json("tokenizer_config.json").get("eos_token")
            content = end.get("content") if isinstance(end, dict) else end
            stops = self.tokenizer.token_to_id(content) if isinstance(content, str) else None
        listed = stops if isinstance(stops, list) else [] if stops is None else [stops]
        if not all(type(stop) is int for stop in listed):
            cause = f"{self.path}: eos_token_id is {short(stops)}, neither a token nor a list of tokens"
            raise CheckpointError(cause, DOWNLOAD)
        return frozenset(listed)

    @property
    def sampling(self) -> dict[str, Any]:
        """How generation_config.json says that tokens are drawn, by the names of `Sampling`; empty without the file.

        Raises
        ------
        CheckpointError
            A value is of another type or not finite.
        """
        name = "generation_config.json"
        if not (self.path / name).exists():
            return {}
        values = Settings(self.json(name), str(self.path / name))
        if not values.get("do_sample", bool, False):
            return {}
        kinds: dict[str, type] = {"temperature": float, "top_p": float, "top_k": int, "repetition_penalty": float}
        return {key: values.get(key, kind) for key, kind in kinds.items() if values.values.get(key) is not None}

    def check_text(self) -> None:
        """Read the tokenizer and the stop tokens, which are otherwise read when they are first asked for.

        Raises
        ------
        CheckpointError
            They cannot be read.
        """
        _ = self.tokenizer, self.stops

    def find_tensors(self) -> dict[str, SafetensorsFile]:
        """Open the weights; return the file that holds each tensor.

        They lie in one file, in shards that an index names, or in shards without an index.
        """
        index = self.path / "model.safetensors.index.json"
        if index.exists():
            return self.find_by_index(index)
        whole = self.path / "model.safetensors"
        shards = [whole] if whole.exists() else sorted(self.path.glob("model-*-of-*.safetensors"))
        if not shards:
            cause = f"{self.path} holds neither model.safetensors nor model.safetensors.index.json"
            raise CheckpointError(cause, "give a model with safetensors weights")
        count = re.search(r"-of-(\d+)\.", shards[0].name)
        if count and int(count[1]) != len(shards):
            cause = f"{self.path} holds {len(shards)} of {int(count[1])} shards"
            raise CheckpointError(cause, "download the others too")
        places: dict[str, SafetensorsFile] = {}
        for shard in shards:
            file = self.files[shard.name] = SafetensorsFile(shard)
            twice = next((name for name in file.entries if name in places), None)
            if twice is not None:
                raise CheckpointError(f"{twice} is in {places[twice].path.name} and in {shard.name}", DOWNLOAD)
            places |= dict.fromkeys(file.entries, file)
        return places

    def find_by_index(self, index: Path) -> dict[str, SafetensorsFile]:
        """Open the shards that an index names; return the file that holds each tensor."""
        shards = self.json(index.name).get("weight_map")
        if not isinstance(shards, dict) or not all(isinstance(shard, str) for shard in shards.values()):
            raise CheckpointError(f"{index} has no weight_map of names to files", DOWNLOAD)
        for shard in sorted(set(shards.values())):
            if not is_inside(shard):
                raise CheckpointError(f"{index} names {short(shard)}, which is no file of the folder", DOWNLOAD)
            if not (self.path / shard).exists():
                raise CheckpointError(f"{index} names {shard}, which is missing", "download that file too")
            self.files[shard] = SafetensorsFile(self.path / shard)
        for name, shard in shards.items():
            if name not in self.files[shard].entries:
                raise CheckpointError(f"{index} places {name} in {shard}, which does not hold it", DOWNLOAD)
        return {name: self.files[shard] for name, shard in shards.items()}

    @property
    def layers(self) -> int:
        """The number of layers that the names of the tensors count, the parts for pictures included."""
        found = (re.search(r"(?:^|\.)layers\.(\d{1,9})\.", name) for name in self.places)
        return max((int(match[1]) + 1 for match in found if match), default=0)

    def quantization(self, module: str) -> Format:
        """Return the format of a quantised module; config.json may give some modules their own.

        Raises
        ------
        CheckpointError
            config.json does not say, or no kernel reads the format.
        """
        section, where = self.section, self.settings.where
        if not section:
            raise CheckpointError(f"{where} has no quantization section, but {module} has scales", DOWNLOAD)
        own = section.get(module)
        if isinstance(own, dict):
            section = own  # what it leaves out is the default of its mode, as in mlx-lm, not the section's value
        method = section.get("quant_method") or section.get("mode") or "affine"
        if not isinstance(method, str) or method not in MODES:
            raise CheckpointError(f"{where}: quantization {short(method)} is not supported, only MLX's", CONVERT)
        mode = MODES[method]
        sizes = section.get("group_size"), section.get("bits")
        # As in mlx-lm, null means what the mode has by default.
        group_size, bits = (usual if size is None else size for size, usual in zip(sizes, mode.default))
        if group_size not in mode.group_sizes or bits not in mode.bits:
            cause = f"{where}: {method} with {short(bits)} bits in groups of {short(group_size)} is not supported"
            raise CheckpointError(cause, f"bits may be {listed(mode.bits)} and groups {listed(mode.group_sizes)}")
        return Format(method, group_size, bits)

    def group_size(self, form: Format | None) -> int:
        """Return the largest group of columns that share a scale, where plain weights become this form; 1 without one.

        Raises
        ------
        CheckpointError
            config.json has a format that no kernel reads.
        """
        if not self.section:
            return 1 if form is None else form.group_size
        names = [name for name, own in self.section.items() if isinstance(own, dict)]
        return max(self.quantization(name).group_size for name in ("", *names))

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
        form = self.quantization(module)
        *rows, columns = shape
        if columns % form.group_size:
            cause = f"{module} has {columns} columns, which are no whole groups of {form.group_size}"
            raise CheckpointError(f"{self.settings.where}: {cause}", CONVERT)
        groups = (*rows, columns // form.group_size)
        return Quantized(
            self.tensor(f"{module}.weight", (*rows, columns * form.bits // 32), np.dtype(np.uint32)),
            self.tensor(f"{module}.scales", groups, dtype if form.is_affine else np.dtype(np.uint8)),
            self.tensor(f"{module}.biases", groups, dtype) if form.is_affine else None,
            form.group_size,
            form.bits,
            form.mode,
        )

    def dtype_of(self, module: str, norm: str) -> np.dtype[Any]:
        """Return the dtype in which a model computes: float16, bfloat16 or float32.

        Parameters
        ----------
        module : str
            The module whose scales or plain weights have that dtype.
        norm : str
            The tensor that has it where the module's codes are floating, whose scales are bytes.
        """
        is_quantized = self.is_quantized(module)
        form = self.quantization(module) if self.section or is_quantized else None
        if not is_quantized or form is None:
            return self.floating(f"{module}.weight")
        return self.floating(f"{module}.scales" if form.is_affine else norm)

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

    @property
    def nbytes(self) -> int:
        """The bytes of the files that hold the weights."""
        return sum(file.bytes.size for file in self.files.values())

    @property
    def fingerprint(self) -> str:
        """A digest of all names, shapes and places of tensors and of some bytes, which nearly surely no other has."""
        found = sha256()
        for file in self.files.values():
            found.update(repr(sorted(file.entries.items())).encode())
            last = max(0, file.bytes.size - SAMPLE)
            for i in range(SAMPLES):
                at = last * i // (SAMPLES - 1)
                found.update(os.pread(file.descriptor, SAMPLE, at))  # which maps no pages
        return found.hexdigest()

    def release(self) -> None:
        """Give back the memory of what has been read of the mapped files."""
        for file in self.files.values():
            file.release()

    def warn_unused(self) -> list[str]:
        """Warn about tensors that nobody has asked for; return their names."""
        unused = sorted(set(self.places) - self.used)
        if unused:
            names = ", ".join(unused[:3]) + (", …" if len(unused) > 3 else "")
            message = f"{self.path} holds {len(unused)} tensors that the model does not use: {names}"
            warnings.warn(message, CheckpointWarning, stacklevel=2)
        return unused

    def encode(self, prompt: str, *, special: bool = True) -> list[int]:
        """Return the tokens of a prompt; an empty prompt becomes the token that begins a text.

        Parameters
        ----------
        prompt : str
        special : bool
            Whether the tokenizer adds the special tokens of a text's beginning and end, which a chat template writes
            itself.

        Raises
        ------
        CheckpointError
            The prompt has no token, and config.json names none that begins a text.
        """
        return list(self.tokenizer.encode(prompt, add_special_tokens=special).ids) or [
            self.settings.get("bos_token_id", int)
        ]


def is_inside(name: str) -> bool:
    """Whether a name is one of a file in the folder. The file may be a link elsewhere, as in the hub's cache."""
    path = PurePath(name)
    is_name = bool(path.parts) and len(name) <= MOST_NAME and name.isprintable()
    return is_name and not path.is_absolute() and ".." not in path.parts


def listed(values: tuple[int, ...]) -> str:
    """Return numbers as text: ``2, 4 or 8``."""
    return " or ".join(filter(None, (", ".join(map(str, values[:-1])), str(values[-1]))))
