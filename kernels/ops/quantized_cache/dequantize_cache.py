"""A cache of 8 bits as numbers, for attention that reads each position many times."""

from __future__ import annotations

from typing import Any

import numpy as np

from hiprt.array import Array, Form, dtype_of
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch, Plan
from hiprt.kernels.lang.operands import FLOATS, INT32, aligned, buffer
from hiprt.kernels.ops.quantized_cache.coded_heads import values_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["dequantize_cache"]

OP = "dequantize_cache"
THREADS = 256
RUN_BYTES = 16  # that a thread writes
KERNEL = Kernel(
    "quantized_cache/dequantize_cache",
    inputs={"codes": "int8_t", "scales": "float", "position": "int"},
    outputs={"out": "T"},
    scalars={"runs": "uint", "width": "uint", "capacity": "uint"},
    template={"T": "dtype"},
    instances=each(),
)


@op
def dequantize_cache(
    codes: Array,
    scales: Array,
    position: Array,
    dtype: Any = np.float32,
    *,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return the keys or the values that codes of 8 bits and their scales stand for, of positions 0 to ``position``.

    Parameters
    ----------
    codes : Array, [..., capacity, D]
        int8; D is 64, 128 or 256.
    scales : Array, [..., capacity, D / 64]
        float32.
    position : Array, [1]
        int32, on the device: the last position that is wanted, in every cache.
    dtype : dtype
        That of the result: float16, bfloat16 or float32.

    Returns
    -------
    Array, of the shape of `codes`
        The products, each rounded once. What is behind `position` is not defined.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous, or an address is no multiple of 16 bytes.
    """
    stream = stream or current_stream()
    if out is not None:
        aligned(OP, "out", out)
    plan = plan_of(codes, scales, position, dtype_of(dtype))
    return plan.run(stream, out, codes=codes, scales=scales, position=position)


@Planned
def plan_of(codes: Form, scales: Form, position: Form, dtype: np.dtype[Any]) -> Plan:
    """Check the operands and return the plan."""
    if dtype not in FLOATS:
        raise TypeError(f"{OP}: the result cannot be {dtype}; float16, bfloat16 or float32 is needed")
    values = values_of(OP, "codes", codes, scales, dtype)
    buffer(OP, "position", position, INT32, (1,))
    if values.ndim < 2:
        raise ValueError(f"{OP}: codes has shape {values.shape}; [..., capacity, D] is needed")
    capacity, width = values.shape[-2:]
    runs = values.size * dtype.itemsize // RUN_BYTES
    launch = Launch(
        KERNEL,
        (-(-runs // THREADS), 1, 1),
        (THREADS, 1, 1),
        {"T": dtype},
        runs=runs,
        width=width,
        capacity=capacity,
    )
    return Plan(OP, values.shape, dtype, launch)
