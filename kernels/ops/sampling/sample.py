"""Drawing a token from logits."""

from __future__ import annotations

from typing import Any, NamedTuple

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each, runs
from hiprt.kernels.lang.kernel import Kernel, uses_loops
from hiprt.kernels.lang.operands import FLOAT32, INT32, UINT32, buffer, floating, made
from hiprt.kernels.ops.reduction.argmax import threads_of
from hiprt.objects import Planned
from hiprt.stream import Stream, current_stream

__all__ = ["sample"]

KERNEL = Kernel(
    "sampling/sample",
    inputs={"logits": "T", "temperature": "float", "seed": "uint", "position": "int"},
    outputs={"out": "int"},
    scalars={"width": "uint"},
    template={"T": "dtype", "RUN": "int"},
    headers=("reduction/largest.h", "sampling/noise.h"),
    threads=1024,
    instances=each(RUN=runs),
)


def sample(
    logits: Array,
    temperature: Array,
    seed: Array,
    position: Array,
    *,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Draw an index from ``softmax(logits / temperature)``, for each row.

    Parameters
    ----------
    logits : Array, [V] or [rows, V]
        float16, bfloat16 or float32; V at least 1.
    temperature : Array, [rows]
        float32, on the device. 0 or less (or NaN) takes the largest logit, by the rules of `argmax`.
    seed : Array, [rows]
        uint32, on the device.
    position : Array, [rows]
        int32, on the device: the number of the draw.
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result.

    Returns
    -------
    Array, [rows]
        int32. Equal logits, temperature, seed and position give the same index.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous, or `out` overlaps an input.

    Notes
    -----
    ``argmax(logits / temperature - log(-log(u)))`` (Gumbel, 1954) with 23 bits of u from a hash of seed, position and
    index: an index of probability below 1e-7 relative to the most likely one is drawn less often than it should be.
    """
    stream = stream or current_stream()
    inputs = logits, temperature, seed, position
    plan = plan_of(*inputs, uses_loops(stream))
    out = made("sample", out, (plan.grid[0],), INT32, stream, inputs)
    KERNEL(stream, plan.grid, plan.threads, plan.template, *inputs, out, plan.width)
    return out


class Plan(NamedTuple):
    """A launch."""

    grid: tuple[int, int, int]
    threads: tuple[int, int, int]
    template: tuple[Any, ...]
    width: int


@Planned
def plan_of(logits: Form, temperature: Form, seed: Form, position: Form, loops: bool) -> Plan:
    """Check the operands and return the launch."""
    floating("sample", "logits", logits)
    if logits.ndim not in (1, 2) or not logits.shape[-1]:
        raise ValueError(f"sample: logits has shape {logits.shape}; [V] or [rows, V] is needed")
    rows, width = (1, *logits.shape)[-2:]
    buffer("sample", "temperature", temperature, FLOAT32, (rows,))
    buffer("sample", "seed", seed, UINT32, (rows,))
    buffer("sample", "position", position, INT32, (rows,))
    threads, run = threads_of(logits, width, loops)
    return Plan((rows, 1, 1), (threads, 1, 1), (logits.dtype, run), width)
