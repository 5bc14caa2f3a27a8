"""Arrays in the affine quantised format: codes of 4 or 8 bits, a scale and a bias for each group of a row."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.kernels.checks import UINT32, buffer, floating

__all__ = ["BITS", "GROUP_SIZES", "check_quantized"]

BITS = (4, 8)
GROUP_SIZES = (32, 64, 128)


def check_quantized(
    op: str, weight: Array, scales: Array, biases: Array, group_size: int, bits: int
) -> tuple[int, int]:
    """Return the rows and the unpacked width of a quantised matrix.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        Bits or group size are not supported, or the shapes do not fit each other.
    """
    if bits not in BITS:
        raise ValueError(f"{op}: bits={bits} is not one of {BITS}")
    if group_size not in GROUP_SIZES:
        raise ValueError(f"{op}: group_size={group_size} is not one of {GROUP_SIZES}")
    buffer(op, "weight", weight, UINT32)
    if weight.ndim != 2:
        raise ValueError(f"{op}: weight has shape {weight.shape}; 2 axes are needed")
    rows, words = weight.shape
    width = words * 32 // bits
    if width % group_size:
        raise ValueError(f"{op}: weight rows hold {width} values, which are not whole groups of {group_size}")
    floating(op, "scales", scales)
    buffer(op, "biases", biases, scales.dtype)
    shape = (rows, width // group_size)
    for name, value in (("scales", scales), ("biases", biases)):
        if value.shape != shape:
            raise ValueError(f"{op}: {name} has shape {value.shape}; {shape} fits weight {weight.shape}")
    return rows, width
