"""The bytes of MLX's files: numbers in little endian, texts and lists behind their length, and each primitive's state.

MLX writes a primitive's state without its length, so that a reader must know it for every primitive. The layouts are
those of MLX 0.30 to 0.32, whose version the file begins with.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["DTYPES", "MODES", "Source", "Target", "Version", "layout_of", "version_of"]

Version = tuple[int, ...]
OLDEST, NEWEST = (0, 30), (0, 33)
# MLX numbers dtypes in this order.
DTYPES = [
    np.dtype(each)
    for each in (
        *(np.bool_, np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int16, np.int32, np.int64),
        *(np.float16, np.float32, np.float64, ml_dtypes.bfloat16, np.complex64),
    )
]
MODES = ("affine", "mxfp4", "mxfp8", "nvfp4")
MOST_AXES = 64
# A state's parts: i int32, b bool, f float32, d float64, z uint64, D dtype, s text; I, L and Z are lists of int32,
# int64 and uint64; t is three int32; T a list of three bools each, F an optional float32, V a list of numbers with
# their types. Primitives that are not here have none.
STATES = {
    "AddMM": "ff",
    "Arange": "ddd",
    "ArgPartition": "ii",
    "ArgReduce": "ii",
    "ArgSort": "i",
    "AsStrided": "ILz",
    "AsType": "D",
    "BitwiseBinary": "i",
    "BlockMaskedMM": "i",
    "Broadcast": "I",
    "BroadcastAxes": "I",
    "Cholesky": "b",
    "Concatenate": "i",
    "Convolution": "IIIIIib",
    "CustomKernel": "ssttTbFVbi",
    "DynamicSlice": "II",
    "DynamicSliceUpdate": "I",
    "Eig": "b",
    "Eigh": "sb",
    "Equal": "b",
    "ExpandDims": "I",
    "FFT": "Zbb",
    "Flatten": "ii",
    "Gather": "II",
    "GatherAxis": "i",
    "GatherMM": "bb",
    "GatherQMM": "iiibbb",
    "Hadamard": "f",
    "Inverse": "bb",
    "LayerNorm": "f",
    "LayerNormVJP": "f",
    "Log": "i",
    "NumberOfElements": "IbD",
    "Pad": "III",
    "Partition": "ii",
    "Quantize": "iiib",
    "QuantizedMatmul": "iiib",
    "RMSNorm": "f",
    "RMSNormVJP": "f",
    "RandomBits": "Ii",
    "Reduce": "iI",
    "Reshape": "I",
    "RoPE": "ibffb",
    "SVD": "b",
    "ScaledDotProductAttention": "fbbb",
    "Scan": "iibb",
    "Scatter": "iI",
    "ScatterAxis": "ii",
    "SearchSorted": "b",
    "Slice": "III",
    "SliceUpdate": "III",
    "Softmax": "b",
    "Sort": "i",
    "Split": "Ii",
    "Sqrt": "b",
    "Squeeze": "I",
    "Transpose": "I",
    "Unflatten": "iI",
    "View": "D",
}
STATELESS = {
    *("Abs", "Add", "ArcCos", "ArcCosh", "ArcSin", "ArcSinh", "ArcTan", "ArcTan2", "ArcTanh", "Ceil", "Conjugate"),
    *("Copy", "Cos", "Cosh", "Depends", "DivMod", "Divide", "Erf", "ErfInv", "Exp", "Expm1", "Floor"),
    *("FloorDivide", "Full"),
    *("Greater", "GreaterEqual", "Imag", "Less", "LessEqual", "Log1p", "LogAddExp", "LogSumExp", "LogicalAnd"),
    *("LogicalNot", "LogicalOr", "MaskedScatter", "Matmul", "Maximum", "Minimum", "Multiply", "Negative", "NotEqual"),
    *("Power", "QRF", "Real", "Remainder", "Round", "Select", "Sigmoid", "Sign", "Sin", "Sinh", "Square"),
    *("StopGradient", "Subtract", "Tan", "Tanh"),
}
# What later versions have put before a state, and behind it.
CHANGES = {
    "SliceUpdate": ((0, 31, 2), "i", ""),
    "CustomKernel": ((0, 32), "", "i"),
    "ScaledDotProductAttention": ((0, 32, 2), "", "b"),
}
METADATA = (0, 32, 1)  # the first version whose files have a text of the exporter's


def version_of(text: str) -> Version:
    """Return the version that a file names.

    Raises
    ------
    ValueError
        It is none whose layouts are known.
    """
    match = re.match(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?", text)
    version = tuple(int(n) for n in match.groups(default="0")) if match else ()
    if not OLDEST <= version < NEWEST:
        raise ValueError(f"it is of MLX {text!r:.40}; files of MLX 0.30 to 0.32 are read")
    return version


def layout_of(name: str, version: Version) -> str:
    """Return the layout of a primitive's state.

    Raises
    ------
    ValueError
        MLX has no such primitive, or writes none to files.
    """
    if name not in STATES and name not in STATELESS:
        raise ValueError(f"a primitive {name!r:.40} that this hiprt does not know")
    since, before, behind = CHANGES.get(name, (NEWEST, "", ""))
    known = STATES.get(name, "")
    return before + known + behind if version >= since else known


NUMBERS = {kind: struct.Struct("<" + kind) for kind in "iqQfdB"}


class Source:
    """Reads a file's bytes, which may be anything; nothing is made that is larger than what is left of them."""

    def __init__(self, content: memoryview) -> None:
        self.content, self.at = content, 0

    def take(self, nbytes: int) -> memoryview:
        """Return the next bytes."""
        if nbytes > len(self.content) - self.at:
            raise ValueError(f"[read] Unable to read {nbytes} bytes from file.")
        self.at += nbytes
        return self.content[self.at - nbytes : self.at]

    def number(self, kind: str) -> Any:
        """Return a number of a kind of `struct`."""
        return NUMBERS[kind].unpack(self.take(NUMBERS[kind].size))[0]

    def bool(self) -> bool:
        """Return a bool."""
        return bool(self.number("B"))

    def count(self, least: int) -> int:
        """Return how many parts a list has, each of which takes some bytes at least."""
        count: int = self.number("Q")
        if count * least > len(self.content) - self.at:
            raise ValueError(f"a list of {count}, for which the file is too short")
        return count

    def text(self) -> str:
        """Return a text."""
        raw = bytes(self.take(self.count(1)))
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise ValueError("a text that is not UTF-8") from None

    def numbers(self, kind: str) -> list[Any]:
        """Return a list of numbers."""
        one = NUMBERS[kind]
        return [each for (each,) in one.iter_unpack(self.take(self.count(one.size) * one.size))]

    def listed(self, read: Callable[[], Any], least: int) -> list[Any]:
        """Return a list of parts."""
        return [read() for _ in range(self.count(least))]

    def dtype(self) -> np.dtype[Any]:
        """Return a dtype."""
        number: int = self.number("i")
        size: int = self.number("B")
        if not 0 <= number < len(DTYPES) or DTYPES[number].itemsize != size:
            raise ValueError(f"a dtype of the number {number} and {size} bytes")
        return DTYPES[number]

    def shape(self) -> tuple[int, ...]:
        """Return a shape."""
        sizes = self.numbers("i")
        if len(sizes) > MOST_AXES or any(n < 0 for n in sizes):
            raise ValueError(f"a shape {sizes!r:.60}")
        return tuple(sizes)

    def part(self, kind: str) -> Any:
        """Return a part of a state."""
        if kind in "ifd":
            return self.number(kind)
        if kind in "ILZ":
            return self.numbers({"I": "i", "L": "q", "Z": "Q"}[kind])
        if kind == "t":
            return tuple(self.number("i") for _ in range(3))
        if kind == "T":
            return self.listed(lambda: (self.bool(), self.bool(), self.bool()), 3)
        if kind == "F":
            return self.number("f") if self.bool() else None
        if kind == "V":
            return self.listed(self.variant, 5)
        return {"b": self.bool, "z": lambda: self.number("Q"), "D": self.dtype, "s": self.text}[kind]()

    def variant(self) -> Any:
        """Return a number behind the number of its type."""
        kind = self.number("i")
        if kind not in (0, 1, 2):
            raise ValueError(f"a number of the type {kind}")
        return self.bool() if kind == 2 else self.number("if"[kind])


class Target:
    """Writes the same bytes."""

    def __init__(self) -> None:
        self.content = bytearray()

    def number(self, kind: str, value: Any) -> None:
        """Append a number of a kind of `struct`."""
        self.content += struct.pack("<" + kind, value)

    def text(self, text: str) -> None:
        """Append a text."""
        raw = text.encode()
        self.number("Q", len(raw))
        self.content += raw

    def numbers(self, kind: str, values: Any, count: int | None = None) -> None:
        """Append a list of numbers; `count` is how many parts it has, where a part is several numbers."""
        self.number("Q", len(values) if count is None else count)
        self.content += struct.pack(f"<{len(values)}{kind}", *values)

    def dtype(self, dtype: np.dtype[Any]) -> None:
        """Append a dtype."""
        self.number("i", DTYPES.index(dtype))
        self.number("B", dtype.itemsize)

    def form(self, shape: Any, dtype: np.dtype[Any]) -> None:
        """Append a shape and a dtype."""
        self.numbers("i", shape)
        self.dtype(dtype)

    def part(self, kind: str, value: Any) -> None:
        """Append a part of a state."""
        if kind in "ifd":
            self.number(kind, value)
        elif kind in "ILZ":
            self.numbers({"I": "i", "L": "q", "Z": "Q"}[kind], value)
        elif kind == "b":
            self.number("B", bool(value))
        elif kind == "s":
            self.text(value)
        elif kind == "t":
            for each in value:
                self.number("i", each)
        elif kind == "T":
            self.numbers("B", [flag for three in value for flag in three], len(value))
        elif kind == "F":
            self.number("B", value is not None)
            if value is not None:
                self.number("f", value)
        elif kind == "V":
            assert not value, "ours have no single values"
            self.number("Q", 0)
        else:
            assert kind == "D", kind
            self.dtype(value)
