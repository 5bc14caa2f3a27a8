"""Guesses of the tokens that follow a text, taken from the text itself."""

from __future__ import annotations

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch, Plan
from hiprt.kernels.lang.operands import INT32, buffer
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["draft_ngram"]

OP = "draft_ngram"
THREADS = 1024
KERNEL = Kernel(
    "sampling/draft_ngram",
    inputs={"step": "int", "tokens": "int"},
    outputs={"out": "int"},
    scalars={"capacity": "uint", "drafts": "uint", "longest": "uint"},
    headers=("reduction/largest.h", "sampling/agreement.h"),
    threads=THREADS,
    instances=each(()),
)


@op
def draft_ngram(
    step: Array,
    tokens: Array,
    drafts: int,
    *,
    longest: int = 16,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Guess which tokens follow a text: those that followed its last tokens the last time that these came.

    Parameters
    ----------
    step : Array, [4]
        int32: token, position, prompt length, end, as in `advance`.
    tokens : Array, [capacity]
        int32: the text, up to the position. The capacity is 1 at least.
    drafts : int
        How many tokens are guessed, 1 at least.
    longest : int
        The most of the last tokens that are looked for, 1 at least: the place counts where the most of them agree, of
        such places the latest. Where none does, the guesses are the last token again.

    Returns
    -------
    Array, [2, drafts + 1]
        int32: the token at the position and the guesses, then the position of each. Where guesses reach the end of the
        text, they begin again behind the place.

    Raises
    ------
    TypeError
        A dtype is not int32.
    ValueError
        A shape does not fit, an array is not contiguous, a number is too small, or `out` overlaps an input.

    Notes
    -----
    Saxena, "Prompt Lookup Decoding", 2023.
    """
    stream = stream or current_stream()
    return plan_of(step, tokens, drafts, longest, target_of(stream)).run(stream, out, step=step, tokens=tokens)


@Planned
def plan_of(step: Form, tokens: Form, drafts: int, longest: int, target: Target) -> Plan:
    """Check the operands and return the plan."""
    buffer(OP, "step", step, INT32, (4,))
    buffer(OP, "tokens", tokens, INT32)
    if tokens.ndim != 1 or not tokens.size:
        raise ValueError(f"{OP}: tokens has shape {tokens.shape}; a text of one place at least is needed")
    if drafts < 1 or longest < 1:
        raise ValueError(f"{OP}: drafts={drafts}, longest={longest}: both are 1 at least")
    threads = 1 if target.takes_loops else THREADS
    launch = Launch(KERNEL, (1, 1, 1), (threads, 1, 1), capacity=tokens.size, drafts=drafts, longest=longest)
    return Plan(OP, (2, drafts + 1), INT32, launch)
