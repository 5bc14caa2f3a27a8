"""Formats of quantised matrices, and checks of an op's operands, with MLX's messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from hiprt.array import Array, Form
from hiprt.kernels.lang.operands import UINT32

__all__ = [
    "AFFINE_BITS",
    "BITS",
    "GROUP_SIZES",
    "MODES",
    "Format",
    "check_matrix",
    "format_of",
    "listed",
]

BITS = (4, 8)  # affine formats with kernels of their own
AFFINE_BITS = (2, 3, 4, 5, 6, 8)
GROUP_SIZES = (32, 64, 128)
UINT8 = np.dtype(np.uint8)


@dataclass(frozen=True)
class Mode:
    """A family of formats.

    Attributes
    ----------
    number : int
        The family's number in kernels (``formats.h``).
    group_sizes, bits : tuple of int
        The group sizes and the bits that the family has.
    default : tuple of 2 int
        The group size and the bits where they are not given.
    """

    number: int
    group_sizes: tuple[int, ...]
    bits: tuple[int, ...]
    default: tuple[int, int]


MODES = {
    "affine": Mode(0, GROUP_SIZES, AFFINE_BITS, (64, 4)),
    "mxfp4": Mode(1, (32,), (4,), (32, 4)),
    "mxfp8": Mode(2, (32,), (8,), (32, 8)),
    "nvfp4": Mode(3, (16,), (4,), (16, 4)),
}


class Format(NamedTuple):
    """A format in which a row of values is stored.

    Attributes
    ----------
    mode : str
        With ``affine`` codes are integers, and a group has a scale and a bias. With ``mxfp4``, ``mxfp8`` and ``nvfp4``
        codes are floating, and a group has a scale of 8 bits.
    group_size : int
        The number of values that share a scale.
    bits : int
        The bits of a code.
    """

    mode: str
    group_size: int
    bits: int

    @property
    def number(self) -> int:
        """The mode's number in kernels."""
        return MODES[self.mode].number

    @property
    def is_affine(self) -> bool:
        """Whether groups have biases, and scales of a floating dtype."""
        return self.mode == "affine"


def listed(shape: Sequence[int]) -> str:
    """Return a shape as MLX writes it."""
    return f"({','.join(map(str, shape))})"


@cache
def format_of(op: str, group_size: int | None, bits: int | None, mode: str) -> Format:
    """Return a format; the mode's defaults replace values that are None.

    Raises
    ------
    ValueError
        The format does not exist.
    """
    if mode not in MODES:
        raise ValueError(f"[{op}] Invalid quantization mode '{mode}'.")
    family = MODES[mode]
    group_size = family.default[0] if group_size is None else group_size
    bits = family.default[1] if bits is None else bits
    if mode != "affine":
        if group_size not in family.group_sizes:
            needed = family.group_sizes[0]
            raise ValueError(f"[{op}] {mode} quantization requires group size {needed} but got {group_size}.")
        if bits not in family.bits:
            raise ValueError(f"[{op}] {mode} quantization requires bits to be {family.bits[0]} but got {bits}.")
    if group_size not in family.group_sizes:
        raise ValueError(
            f"[{op}] The requested group size {group_size} is not supported. "
            "The supported group sizes are 32, 64, and 128."
        )
    if bits not in family.bits:
        raise ValueError(
            f"[{op}] The requested number of bits {bits} is not supported. The supported bits are 2, 3, 4, 5, 6 and 8."
        )
    return Format(mode, group_size, bits)


def check_matrix(
    op: str, w: Array | Form, scales: Array | Form, biases: Array | Form | None, form: Format
) -> tuple[int, ...]:
    """Return the unpacked shape of a quantised matrix, or of a stack of them.

    Raises
    ------
    ValueError
        A dtype is wrong, biases are missing or do not belong to the mode, or the shapes do not fit each other.
    """
    if w.dtype != UINT32:
        raise ValueError(f"[{op}] The weight matrix should be uint32 but received {w.dtype}")
    if form.is_affine and biases is None:
        raise ValueError(f"[{op}] Biases must be provided for affine quantization.")
    if not form.is_affine and biases is not None:
        raise ValueError(f"[{op}] Biases must be null for quantization mode '{form.mode}'.")
    if not form.is_affine and scales.dtype != UINT8:
        raise ValueError(f"[{op}] Scale type must be uint8 but received type {scales.dtype}.")
    if biases is not None and scales.shape != biases.shape:
        raise ValueError(
            f"[{op}] Scales and biases should have the same shape. "
            f"Received scales with shape {listed(scales.shape)} and biases with {listed(biases.shape)}"
        )
    width = w.shape[-1] * 32 // form.bits if w.ndim >= 2 else 0
    if w.ndim < 2 or scales.shape[:-1] != w.shape[:-1] or scales.shape[-1] * form.group_size != width:
        raise ValueError(
            f"[{op}] The shapes of the weight and scales are incompatible based on bits and group_size. "
            f"w.shape() == {listed(w.shape)} and scales.shape() == {listed(scales.shape)} "
            f"with group_size={form.group_size} and bits={form.bits}"
        )
    return (*w.shape[:-1], width)
