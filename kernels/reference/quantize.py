"""Group quantisation in numpy: the bit-exact meaning of MLX's ``quantize`` and ``dequantize`` on the CPU.

A row of K values becomes K/group_size groups; value i of a row sits in bits [i*bits, (i+1)*bits) of the row's
little-endian bit stream. It stands for ``code * scale + bias`` of its group, or for ``code * scale`` where codes are
floating.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

BITS = (2, 3, 4, 5, 6, 8)
GROUP_SIZES = (32, 64, 128)
FLOATING = {"mxfp4": (32, 4), "mxfp8": (32, 8), "nvfp4": (16, 4)}  # the group size and the bits of floating codes

_FLOATS = tuple(np.dtype(t) for t in (np.float32, np.float16, ml_dtypes.bfloat16))
_SMALLEST_SCALE = np.float32(1e-7)


def quantize(
    w: NDArray[Any], group_size: int = 64, bits: int = 4
) -> tuple[NDArray[np.uint32], NDArray[Any], NDArray[Any]]:
    """Quantise the last axis of a matrix, or of a stack of matrices.

    Parameters
    ----------
    w : ndarray
        float32, float16 or bfloat16 weights of shape [..., N, K].
    group_size : int
        Values that share a scale and a bias: 32, 64 or 128.
    bits : int
        Width of a code: 2, 3, 4, 5, 6 or 8.

    Returns
    -------
    packed : ndarray of uint32, [..., N, K * bits / 32]
    scales, biases : ndarray of w's dtype, [..., N, K / group_size]
    """
    _check(group_size, bits, w.dtype)
    if w.ndim < 2 or w.shape[-1] % group_size:
        raise ValueError(f"weights of shape {w.shape} are not matrices whose rows are whole groups of {group_size}")
    groups = w.astype(np.float32).reshape(*w.shape[:-1], -1, group_size)
    scales, biases = _range(groups, np.float32(2**bits - 1))
    # The codes are taken with the float32 scale and bias; only what is stored is rounded to w's dtype.
    codes = np.rint((groups - biases[..., None]) / scales[..., None])
    codes = np.clip(codes, 0, 2**bits - 1).astype(np.uint8).reshape(w.shape)
    return pack(codes, bits), scales.astype(w.dtype), biases.astype(w.dtype)


def dequantize(
    packed: NDArray[np.uint32], scales: NDArray[Any], biases: NDArray[Any], group_size: int = 64, bits: int = 4
) -> NDArray[Any]:
    """Return the weights that codes, scales and biases stand for, in the scales' dtype.

    The product is rounded to that dtype before the bias is added, and the sum again.
    """
    _check(group_size, bits, scales.dtype)
    codes = unpack(packed, bits)
    expected = (*codes.shape[:-1], codes.shape[-1] // group_size)
    if scales.shape != expected or biases.shape != expected or biases.dtype != scales.dtype:
        raise ValueError(
            f"scales {scales.dtype}{scales.shape} and biases {biases.dtype}{biases.shape} "
            f"do not fit the {expected} groups of {codes.shape} codes"
        )
    groups = codes.reshape(*expected, group_size).astype(np.float32)
    products = (groups * scales[..., None].astype(np.float32)).astype(scales.dtype)
    sums = products.astype(np.float32) + biases[..., None].astype(np.float32)
    return sums.astype(scales.dtype).reshape(codes.shape)


def pack(codes: NDArray[np.uint8], bits: int) -> NDArray[np.uint32]:
    """Pack codes [..., K] of the given width into words [..., K * bits / 32]."""
    stream = np.unpackbits(codes[..., None], axis=-1, bitorder="little")[..., :bits]
    octets = np.packbits(stream.reshape(*codes.shape[:-1], -1), axis=-1, bitorder="little")
    return octets.view("<u4").astype(np.uint32, copy=False)


def unpack(packed: NDArray[np.uint32], bits: int) -> NDArray[np.uint8]:
    """Undo `pack`."""
    octets = np.ascontiguousarray(packed, "<u4").view(np.uint8)
    stream = np.unpackbits(octets, axis=-1, bitorder="little")
    return np.packbits(stream.reshape(*packed.shape[:-1], -1, bits), axis=-1, bitorder="little")[..., 0]


def _range(groups: NDArray[np.float32], top: np.float32) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Scale and bias of each group: the end farther from zero is met exactly, and so is zero where in reach."""
    low, high = groups.min(axis=-1), groups.max(axis=-1)
    low_is_edge = np.abs(low) > np.abs(high)
    scale = np.maximum((high - low) / top, _SMALLEST_SCALE)
    scale = np.where(low_is_edge, scale, -scale)
    edge = np.where(low_is_edge, low, high)
    code_of_zero = np.rint(edge / scale)
    reached = code_of_zero != 0
    scale = np.where(reached, edge / np.where(reached, code_of_zero, np.float32(1)), scale)
    return scale, np.where(reached, edge, np.float32(0))


def _check(group_size: int, bits: int, dtype: np.dtype[Any]) -> None:
    if group_size not in GROUP_SIZES:
        raise ValueError(f"group size {group_size} is not one of {GROUP_SIZES}")
    if bits not in BITS:
        raise ValueError(f"{bits} bits are not one of {BITS}")
    if dtype not in _FLOATS:
        raise ValueError(f"dtype {dtype} is not one of float32, float16, bfloat16")


def e2m1(codes: NDArray[Any]) -> NDArray[np.float64]:
    """Return floating codes of 4 bits: sign, 2 bits of exponent, 1 of mantissa."""
    return np.asarray(np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])[codes])


def e4m3(codes: NDArray[Any]) -> NDArray[np.float64]:
    """Return floating codes of 8 bits: sign, 4 bits of exponent, 3 of mantissa; NaN and no infinity."""
    return np.asarray(codes.astype(np.uint8).view(ml_dtypes.float8_e4m3fn), np.float64)


def e8m0(codes: NDArray[Any]) -> NDArray[np.float64]:
    """Return powers of two; 255 is infinite, as in MLX."""
    return np.where(codes == 255, np.inf, 2.0 ** (codes.astype(np.float64) - 127))


def quantize_floating(w: NDArray[Any], mode: str) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Quantise the last axis to floating codes.

    Parameters
    ----------
    w : ndarray
        float32, float16 or bfloat16 weights of shape [..., N, K]; they are finite.
    mode : str
        ``mxfp4``, ``mxfp8`` or ``nvfp4``.

    Returns
    -------
    packed : ndarray of uint32, [..., N, K * bits / 32]
    scales : ndarray of uint8, [..., N, K / group_size]
        E8M0 for ``mxfp4`` and ``mxfp8``; exponents below -127 wrap around, as in MLX. E4M3 for ``nvfp4``.
    """
    group, bits = FLOATING[mode]
    groups = w.reshape(*w.shape[:-1], -1, group)
    steps = np.abs(groups).max(axis=-1) / w.dtype.type(448 if bits == 8 else 6)
    # A group of zeros in nvfp4 is divided by its scale of 0; whatever that gives is as far from every code.
    with np.errstate(divide="ignore", invalid="ignore"):
        if mode == "nvfp4":
            scales = to_e4m3(steps)
            ratios = (groups / e4m3(scales).astype(w.dtype)[..., None]).astype(np.float32)
        else:
            # The least power of two that is not below the step; that of 0 is 1.
            fractions, exponents = np.frexp(np.where(steps == 0, 1, steps).astype(np.float32))
            exponents = exponents - (fractions == 0.5)
            scales = (exponents + 127).astype(np.uint8)
            ratios = groups / np.ldexp(np.float32(1), exponents).astype(w.dtype)[..., None]
        codes = to_e4m3(ratios) if bits == 8 else to_e2m1(ratios)
    return pack(codes.reshape(w.shape), bits), scales


def to_e2m1(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the first of the nearest floating codes of 4 bits: ties go to zero, and small negative values to +0."""
    distances = np.abs(values[..., None] - e2m1(np.arange(16)).astype(values.dtype))
    return np.where(np.isnan(distances[..., 0]), 0, distances.argmin(axis=-1)).astype(np.uint8)


def to_e4m3(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the nearest floating codes of 8 bits, ties to even; what is larger than 448, or NaN, becomes 448."""
    sizes = np.abs(values.astype(np.float32))
    sizes = np.where(sizes < 448, sizes, np.float32(448))
    return sizes.astype(ml_dtypes.float8_e4m3fn).view(np.uint8) | np.where(np.signbit(values), 128, 0).astype(np.uint8)


def dequantize_floating(packed: NDArray[np.uint32], scales: NDArray[np.uint8], mode: str) -> NDArray[np.float64]:
    """Return the values of floating codes, exact."""
    group, bits = FLOATING[mode]
    values = (e4m3 if bits == 8 else e2m1)(unpack(packed, bits))
    steps = (e4m3 if mode == "nvfp4" else e8m0)(scales)
    with np.errstate(invalid="ignore"):
        return np.asarray(values * np.repeat(steps, group, axis=-1))
