"""Drawing a token from logits."""

from __future__ import annotations

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each, runs
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.operands import FLOAT32, INT32, UINT32, buffer
from hiprt.kernels.ops.reduction.argmax import LARGEST_SIZES, LARGEST_UPDATES, LargestPlan, largest_plan
from hiprt.kernels.ops.sampling.filter_logits import (
    HEADERS,
    HOW,
    KEYS,
    RULES,
    FilterPlan,
    plan_of as filter_plan,
    rows_of,
)
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["sample"]

OP = "sample"
KERNEL = Kernel(
    "sampling/sample",
    inputs={"logits": "T", "temperature": "float", "seed": "uint", "position": "int", **RULES},
    updates=LARGEST_UPDATES,
    outputs={"out": "int"},
    scalars={**LARGEST_SIZES, **HOW},
    template={"T": "dtype", "RUN": "int", "KEY": "int"},
    headers=(*HEADERS, "sampling/noise.h"),
    threads=1024,
    ahead=(),
    is_varied=True,
    instances=each(RUN=runs, KEY=lambda dtype, loops: (0,) if loops else (0, *KEYS[dtype.name][:1])),
)


@op
def sample(
    logits: Array,
    temperature: Array,
    seed: Array,
    position: Array,
    *,
    top_k: Array | None = None,
    top_p: Array | None = None,
    min_p: Array | None = None,
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
    top_k, top_p, min_p : Array, [rows], optional
        The draw is from the logits that `filter_logits` keeps by these rules.

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
    target, filters = target_of(stream), None
    if top_k is not None or top_p is not None or min_p is not None:
        filters = filter_plan(logits, top_k, top_p, min_p, target)
        if target.takes_loops:
            logits, filters = filters.run(stream, None, logits, top_k, top_p, min_p), None
    plan = plan_of(logits, temperature, seed, position, filters, target)
    rules = dict.fromkeys(RULES, logits) if filters is None else filters.search(stream, logits, top_k, top_p, min_p)
    return plan.run(stream, out, logits=logits, temperature=temperature, seed=seed, position=position, **rules)


@Planned
def plan_of(
    logits: Form, temperature: Form, seed: Form, position: Form, filters: FilterPlan | None, target: Target
) -> LargestPlan:
    """Check the operands and return the plan, which takes what the search of `filters` found."""
    rows, width = rows_of(OP, logits)
    buffer(OP, "temperature", temperature, FLOAT32, (rows,))
    buffer(OP, "seed", seed, UINT32, (rows,))
    buffer(OP, "position", position, INT32, (rows,))
    if filters is None:
        how = dict.fromkeys(HOW, 0)
        return largest_plan(OP, KERNEL, logits, (rows,), width, target, {"KEY": 0}, **how)
    keep = filters.keep
    scalars = {name: keep.scalars[name] for name in ("share", *HOW)}
    template = {"KEY": KEYS[logits.dtype.name][0]}
    return largest_plan(OP, KERNEL, logits, (rows,), width, target, template, **scalars)
