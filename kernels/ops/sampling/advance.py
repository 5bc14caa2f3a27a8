"""The step block, which says on the device which token comes next, and where."""

from __future__ import annotations

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.lang.operands import INT32, buffer, disjoint
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["advance"]

THREADS = 32
KERNEL = Kernel(
    "sampling/advance",
    inputs={"sampled": "int"},
    updates={"step": "int", "tokens": "int"},
    scalars={"capacity": "int", "rows": "uint"},
    threads=THREADS,
    instances=each(()),
)


@op
def advance(step: Array, tokens: Array, sampled: Array, *, stream: Stream | None = None) -> Array:
    """Move the step block of a text, or of several, to the next position, in place.

    Parameters
    ----------
    step : Array, [4] or [4, rows]
        int32: token, position, prompt length, end. Written in place.
    tokens : Array, [capacity] or [rows, capacity]
        int32: the prompt, then the tokens that were generated. Written in place.
    sampled : Array, [1] or [rows]
        int32: the token that was drawn for the next position.

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
    launch = launch_of(step, tokens, sampled)
    disjoint("advance", {"step": step, "tokens": tokens}, (sampled,))
    launch(stream or current_stream(), sampled=sampled, step=step, tokens=tokens)
    return step


@Planned
def launch_of(step: Form, tokens: Form, sampled: Form) -> Launch:
    """Check the operands and return the launch."""
    op = "advance"
    rows = step.shape[1] if step.ndim == 2 else 1
    buffer(op, "step", step, INT32, (4, rows)[: step.ndim])
    buffer(op, "tokens", tokens, INT32)
    if tokens.ndim != step.ndim or (tokens.ndim == 2 and tokens.shape[0] != rows):
        raise ValueError(f"{op}: tokens has shape {tokens.shape} for a step of shape {step.shape}")
    buffer(op, "sampled", sampled, INT32, (rows,))
    grid = (-(-rows // THREADS), 1, 1)
    return Launch(KERNEL, grid, (THREADS, 1, 1), capacity=tokens.shape[-1], rows=rows)
