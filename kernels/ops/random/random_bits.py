"""Random bits from a key."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch, Plan
from hiprt.kernels.lang.operands import LARGEST, UINT32, buffer
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["random_bits"]

KERNEL = Kernel(
    "random/random_bits",
    inputs={"key": "uint"},
    outputs={"out": "uint"},
    scalars={"size": "uint"},
    instances=each(()),
)
THREADS = 256


@op
def random_bits(key: Array, shape: Sequence[int], *, stream: Stream | None = None, out: Array | None = None) -> Array:
    """Return random words: the same for the same key and number of words.

    Parameters
    ----------
    key : Array, [2]
        uint32, on the device.
    shape : sequence of int

    Returns
    -------
    Array
        uint32, of the shape.

    Raises
    ------
    TypeError
        The key is not uint32.
    ValueError
        The key is not [2] or not contiguous, a length is negative, there are more than 2**31 - 1 words, or `out`
        overlaps the key.

    Notes
    -----
    Threefry 2x32 with 20 rounds (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011),
    with the counters of MLX 0.32 (``RandomBits::eval_cpu``): word i of the first half is made together with
    word i of the second.
    """
    stream = stream or current_stream()
    return plan_of(key, tuple(shape)).run(stream, out, key=key)


@Planned
def plan_of(key: Form, shape: tuple[int, ...]) -> Plan:
    """Check the operands and return the plan."""
    op = "random_bits"
    buffer(op, "key", key, UINT32, (2,))
    size = math.prod(shape)
    if any(length < 0 for length in shape) or size > LARGEST:
        raise ValueError(f"{op}: the shape is {shape}; lengths of 0 and more, and at most {LARGEST} words, are needed")
    pairs = size - size // 2
    return Plan(op, shape, UINT32, Launch(KERNEL, (-(-pairs // THREADS), 1, 1), (THREADS, 1, 1), size=size))
