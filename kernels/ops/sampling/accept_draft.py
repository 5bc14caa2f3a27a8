"""The guesses of a step that turn out right, and the step block behind them."""

from __future__ import annotations

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.lang.operands import INT32, buffer, disjoint
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["accept_draft"]

OP = "accept_draft"
KERNEL = Kernel(
    "sampling/accept_draft",
    inputs={"draft": "int", "chosen": "int"},
    updates={"step": "int", "tokens": "int", "taken": "int", "steps": "int"},
    scalars={"capacity": "uint", "drafts": "uint", "slots": "uint"},
    threads=1,
    instances=each(()),
)


@op
def accept_draft(
    step: Array,
    tokens: Array,
    draft: Array,
    chosen: Array,
    taken: Array,
    steps: Array,
    *,
    stream: Stream | None = None,
) -> Array:
    """Take the tokens of a draft that are the chosen ones, and the one that was chosen behind them, in place.

    Parameters
    ----------
    step : Array, [4]
        int32: token, position, prompt length, end. Written in place: the last token that is taken, and its position.
    tokens : Array, [capacity]
        int32: the text. Written in place, behind the position.
    draft : Array, [2, K + 1]
        int32, as `draft_ngram` returns it.
    chosen : Array, [K + 1]
        int32: the token that follows each token of the draft. As long as ``chosen[i] == draft[0, i + 1]`` the draft is
        right; ``chosen[0]`` is taken in any case, and no token behind the capacity.
    taken : Array, [slots, K + 2]
        int32. Written in place: row ``steps % slots`` says how many tokens were taken, then which.
    steps : Array, [1]
        int32: how often this was done. Written in place.

    Returns
    -------
    Array
        `step`.

    Raises
    ------
    TypeError
        A dtype is not int32.
    ValueError
        A shape does not fit, an array is not contiguous, or the arrays overlap.
    """
    launch = launch_of(step, tokens, draft, chosen, taken, steps)
    written = {"step": step, "tokens": tokens, "taken": taken, "steps": steps}
    disjoint(OP, written, (draft, chosen))
    launch(stream or current_stream(), draft=draft, chosen=chosen, **written)
    return step


@Planned
def launch_of(step: Form, tokens: Form, draft: Form, chosen: Form, taken: Form, steps: Form) -> Launch:
    """Check the operands and return the launch."""
    buffer(OP, "step", step, INT32, (4,))
    buffer(OP, "tokens", tokens, INT32)
    buffer(OP, "draft", draft, INT32)
    if tokens.ndim != 1 or draft.ndim != 2 or draft.shape[0] != 2 or draft.shape[1] < 2:
        shapes = f"tokens has shape {tokens.shape}, draft {draft.shape}"
        raise ValueError(f"{OP}: {shapes}; [capacity] and [2, K + 1] are needed")
    count = draft.shape[1]
    buffer(OP, "chosen", chosen, INT32, (count,))
    buffer(OP, "taken", taken, INT32)
    if taken.ndim != 2 or not taken.shape[0] or taken.shape[1] != count + 1:
        raise ValueError(f"{OP}: taken has shape {taken.shape}; [slots, {count + 1}] is needed")
    buffer(OP, "steps", steps, INT32, (1,))
    return Launch(KERNEL, (1, 1, 1), (1, 1, 1), capacity=tokens.size, drafts=count - 1, slots=taken.shape[0])
