"""The device-side step block: which token comes next, and where."""

from __future__ import annotations

from itertools import pairwise

from hiprt.array import Array
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.operands import INT32, buffer
from hiprt.stream import Stream, current_stream

__all__ = ["advance"]

THREADS = 32
KERNEL = Kernel(
    "sampling/advance",
    inputs={"sampled": "int"},
    updates={"step": "int", "tokens": "int"},
    scalars={"capacity": "int", "rows": "uint"},
    instances=each(()),
)


def advance(step: Array, tokens: Array, sampled: Array, *, stream: Stream | None = None) -> Array:
    """Move the step block of a text, or of several, to the next position, in place.

    Parameters
    ----------
    step : Array, [4] or [4, rows]
        int32: token, position, prompt length, end.
    tokens : Array, [capacity] or [rows, capacity]
        int32: the prompt, then what was generated.
    sampled : Array, [1] or [rows]
        int32: what the model proposes for the next position.
    stream : Stream, optional
        This thread's by default.

    Returns
    -------
    Array
        `step`. With ``p = position + 1``: the token becomes ``tokens[p]`` while p is within the prompt, else `sampled`,
        which is also written to ``tokens[p]``; the position becomes p. Once p reaches capacity nothing is written.

    Raises
    ------
    TypeError
        A dtype is not int32.
    ValueError
        A shape does not fit, an array is not contiguous, or the arrays overlap.
    """
    rows = step.shape[1] if step.ndim == 2 else 1
    buffer("advance", "step", step, INT32, (4, rows)[: step.ndim])
    buffer("advance", "tokens", tokens, INT32)
    if tokens.ndim != step.ndim or (tokens.ndim == 2 and len(tokens) != rows):
        raise ValueError(f"advance: tokens has shape {tokens.shape} for a step of shape {step.shape}")
    buffer("advance", "sampled", sampled, INT32, (rows,))
    arrays = sorted((step, tokens, sampled), key=lambda a: a.address)
    if any(low.extent[1] > high.extent[0] for low, high in pairwise(arrays)):
        raise ValueError("advance: step, tokens and sampled overlap")
    grid = (-(-rows // THREADS), 1, 1)
    KERNEL(stream or current_stream(), grid, (THREADS, 1, 1), (), sampled, step, tokens, tokens.shape[-1], rows)
    return step
