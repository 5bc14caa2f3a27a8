"""A penalty on the logits of tokens that the text already has."""

from __future__ import annotations

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch, Plan
from hiprt.kernels.lang.operands import FLOAT32, INT32, buffer, floating
from hiprt.kernels.ops.row_launch import row_launch
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["repetition_penalty"]

SHARE = 1024  # logits that a threadgroup takes, unless there are very many
MOST_GROUPS = 1024  # threadgroups at most, because each reads the last tokens
KERNEL = Kernel(
    "sampling/repetition_penalty",
    inputs={"logits": "T", "tokens": "int", "position": "int", "penalty": "float"},
    outputs={"out": "T"},
    scalars={"width": "uint", "capacity": "uint", "window": "uint", "share": "uint"},
    template={"T": "dtype"},
    ahead=(),
    is_varied=True,
    instances=each(),
)


@op
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
        int32. The text so far; tokens outside 0..V-1 are ignored.
    position : Array, [1]
        int32, on the device. The place of the newest token; below 0 there is none.
    penalty : Array, [1]
        float32, on the device. Positive logits are divided by it, the others multiplied by it.
    window : int
        How many of the newest tokens count; a token counts once.

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
    stream = stream or current_stream()
    plan = plan_of(logits, tokens, position, penalty, window, target_of(stream))
    return plan.run(stream, out, logits=logits, tokens=tokens, position=position, penalty=penalty)


@Planned
def plan_of(logits: Form, tokens: Form, position: Form, penalty: Form, window: int, target: Target) -> Plan:
    """Check the operands and return the plan."""
    op = "repetition_penalty"
    check_logits(op, logits)
    buffer(op, "tokens", tokens, INT32)
    buffer(op, "position", position, INT32, (1,))
    buffer(op, "penalty", penalty, FLOAT32, (1,))
    if tokens.ndim != 1 or not 0 <= window < 2**31:
        raise ValueError(f"{op}: tokens has shape {tokens.shape} and window is {window}; one axis, from 0 are needed")
    width = logits.size
    share = width if target.takes_loops else SHARE * -(-width // (SHARE * MOST_GROUPS))
    grid, threads = row_launch(target, -(-width // share), min(width, share))
    sizes = {"width": width, "capacity": tokens.size, "window": window, "share": share}
    launch = Launch(KERNEL, grid, threads, {"T": logits.dtype}, **sizes)
    return Plan(op, logits.shape, logits.dtype, launch)


def check_logits(op: str, logits: Form) -> None:
    """Require one row of logits that is not empty.

    Raises
    ------
    TypeError, ValueError
        The logits are of no floating dtype, are several rows or none, or are not contiguous.
    """
    floating(op, "logits", logits)
    if logits.shape not in ((logits.size,), (1, logits.size)) or not logits.size:
        raise ValueError(f"{op}: logits has shape {logits.shape}; [V] or [1, V] is needed")
