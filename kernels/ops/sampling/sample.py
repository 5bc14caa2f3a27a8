"""Drawing a token from logits."""

from __future__ import annotations

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each, runs
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.operands import FLOAT32, INT32, UINT32, buffer, floating
from hiprt.kernels.ops.reduction.argmax import LargestPlan, largest_plan
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["sample"]

KERNEL = Kernel(
    "sampling/sample",
    inputs={"logits": "T", "temperature": "float", "seed": "uint", "position": "int"},
    outputs={"out": "int"},
    scalars={"width": "uint", "share": "uint", "groups": "uint"},
    template={"T": "dtype", "RUN": "int"},
    headers=("reduction/largest.h", "sampling/noise.h"),
    threads=1024,
    ahead=(),
    instances=each(RUN=runs),
)


@op
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
        int32, on the device. The number of the draw.

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
    The index is ``argmax(logits / temperature - log(-log(u)))`` (Gumbel, 1954), where u has 23 bits of a hash of seed,
    position and index. An index of probability below 1e-7 relative to the most likely one is drawn less often than it
    should be.
    """
    stream = stream or current_stream()
    plan = plan_of(logits, temperature, seed, position, target_of(stream))
    return plan.run(stream, out, logits=logits, temperature=temperature, seed=seed, position=position)


@Planned
def plan_of(logits: Form, temperature: Form, seed: Form, position: Form, target: Target) -> LargestPlan:
    """Check the operands and return the plan."""
    op = "sample"
    floating(op, "logits", logits)
    if logits.ndim not in (1, 2) or not logits.shape[-1]:
        raise ValueError(f"{op}: logits has shape {logits.shape}; [V] or [rows, V] is needed")
    rows, width = (1, *logits.shape)[-2:]
    buffer(op, "temperature", temperature, FLOAT32, (rows,))
    buffer(op, "seed", seed, UINT32, (rows,))
    buffer(op, "position", position, INT32, (rows,))
    return largest_plan(op, KERNEL, logits, (rows,), width, target)
