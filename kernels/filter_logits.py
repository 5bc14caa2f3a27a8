"""What may be drawn: the likely tokens, and less of those that were drawn before."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.kernels.checks import FLOAT32, INT32, buffer, floating, made
from hiprt.kernels.kernel import Kernel, uses_loops
from hiprt.stream import Stream, current_stream

__all__ = ["filter_logits", "repetition_penalty"]

KERNEL = Kernel(
    "filter_logits",
    inputs={"logits": "T", "top_k": "int", "top_p": "float", "min_p": "float"},
    outputs={"out": "T"},
    scalars={"width": "uint", "given": "uint"},
    template={"T": "dtype"},
    headers=("largest.h", "rows.h"),
    threads=1024,
    aliasing={"out": ("logits",)},
)
PENALTY = Kernel(
    "repetition_penalty",
    inputs={"logits": "T", "tokens": "int", "position": "int", "penalty": "float"},
    outputs={"out": "T"},
    scalars={"width": "uint", "capacity": "uint", "window": "uint"},
    template={"T": "dtype"},
    threads=1024,
)
THREADS = 1024


def threads_of(stream: Stream, width: int) -> tuple[int, int, int]:
    """Return the threads of the one threadgroup."""
    return (1 if uses_loops(stream) else min(THREADS, -(-width // 32) * 32), 1, 1)


def check_logits(op: str, logits: Array) -> None:
    """Require one row that is not empty."""
    floating(op, "logits", logits)
    if logits.shape not in ((logits.size,), (1, logits.size)) or not logits.size:
        raise ValueError(f"{op}: logits has shape {logits.shape}; [V] or [1, V] is needed")


def filter_logits(
    logits: Array,
    *,
    top_k: Array | None = None,
    top_p: Array | None = None,
    min_p: Array | None = None,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return logits with those that must not be drawn set to -inf; for `sample` after it.

    Parameters
    ----------
    logits : Array, [V] or [1, V]
        float16, bfloat16 or float32, before the temperature is applied; V at least 1.
    top_k : Array, [1], optional
        int32, on the device: how many of the largest stay; all where it is not positive.
    top_p : Array, [1], optional
        float32, on the device: the fewest of the largest stay whose probabilities reach it; all from 1 on.
    min_p : Array, [1], optional
        float32, on the device: those stay whose probability is at least this part of the largest one.
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result; may be `logits`.

    Returns
    -------
    Array
        The shape and dtype of `logits`. What every given rule keeps stays; each counts over all logits. Equal logits
        stay or go together.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous, or `out` overlaps an input in part.
    """
    op = "filter_logits"
    check_logits(op, logits)
    rules = (("top_k", top_k, INT32), ("top_p", top_p, FLOAT32), ("min_p", min_p, FLOAT32))
    for name, value, dtype in rules:
        if value is not None:
            buffer(op, name, value, dtype, (1,))
    stream = stream or current_stream()
    others = [value for _, value, _ in rules if value is not None]
    # What is not given is not read either; the logits would be, were they passed twice, by declaration.
    spare = others[0] if others else logits
    values = [spare if value is None else value for _, value, _ in rules]
    out = made(op, out, logits.shape, logits.dtype, stream, others)
    out = made(op, out, logits.shape, logits.dtype, stream, (logits,), aliasing=True)
    given = sum((value is not None) << i for i, (_, value, _) in enumerate(rules))
    threads = threads_of(stream, logits.size)
    KERNEL(stream, (1, 1, 1), threads, (logits.dtype,), logits, *values, out, logits.size, given)
    return out


def repetition_penalty(
    logits: Array,
    tokens: Array,
    position: Array,
    penalty: Array,
    *,
    window: int = 20,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return logits in which the tokens of the last positions are less likely.

    Parameters
    ----------
    logits : Array, [V] or [1, V]
        float16, bfloat16 or float32; V at least 1.
    tokens : Array, [capacity]
        int32: the text so far. Tokens that are not in 0..V-1 are passed over.
    position : Array, [1]
        int32, on the device: of the newest token; below 0 there is none.
    penalty : Array, [1]
        float32, on the device: positive logits are divided by it, the others multiplied.
    window : int
        How many of the newest tokens count; a token counts once.
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result.

    Returns
    -------
    Array
        The shape and dtype of `logits`.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, `window` is negative, an array is not contiguous, or `out` overlaps an input.

    Notes
    -----
    Keskar et al., "CTRL", 2019, section 4.1.
    """
    op = "repetition_penalty"
    check_logits(op, logits)
    buffer(op, "tokens", tokens, INT32)
    buffer(op, "position", position, INT32, (1,))
    buffer(op, "penalty", penalty, FLOAT32, (1,))
    if tokens.ndim != 1 or not 0 <= window < 2**31:
        raise ValueError(f"{op}: tokens has shape {tokens.shape} and window is {window}; one axis, from 0 are needed")
    stream = stream or current_stream()
    inputs = logits, tokens, position, penalty
    out = made(op, out, logits.shape, logits.dtype, stream, inputs)
    threads = threads_of(stream, logits.size)
    PENALTY(stream, (1, 1, 1), threads, (logits.dtype,), *inputs, out, logits.size, tokens.size, window)
    return out
