"""Filters of logits, which leave the likely tokens to be drawn."""

from __future__ import annotations

from typing import NamedTuple

from hiprt.array import Array, Form, empty
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.lang.operands import FLOAT32, INT32, buffer, floating, result
from hiprt.kernels.ops.row_launch import row_launch
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["FilterPlan", "check_logits", "filter_logits", "plan_of"]

OP = "filter_logits"
SHARE = 2048  # logits that a threadgroup takes, unless there are very many
MOST_GROUPS = 1024  # threadgroups at most, because each reads what all of them found
PARTS = 16  # that each launch of the search divides a range into, as in filter.h
# Launches of the search: each settles four bits of those in which keys of the dtype differ.
LEVELS = {"bfloat16": 4, "float16": 5, "float32": 8}
RULES = {"top_k": "int", "top_p": "float"}
FOUND = {"tops": "float", "before": "float", "low": "int", "above": "float"}
SIZES = {"width": "uint", "share": "uint", "groups": "uint", "given": "uint", "level": "uint"}
HEADERS = ("reduction/largest.h", "norm/row_sums.h", "sampling/filter.h")
TOPS = Kernel(
    "sampling/filter_tops",
    inputs={"logits": "T"},
    outputs={"tops": "float"},
    scalars={"width": "uint", "share": "uint"},
    template={"T": "dtype"},
    headers=("norm/row_sums.h",),
    instances=each(),
    part_of="filter_logits",
)
SEARCH = Kernel(
    "sampling/filter_search",
    inputs={"logits": "T", **RULES, **FOUND},
    outputs={"after": "float", "new_low": "int", "new_above": "float"},
    scalars=SIZES,
    template={"T": "dtype"},
    headers=HEADERS,
    instances=each(),
    part_of="filter_logits",
)
KERNEL = Kernel(
    "sampling/filter_logits",
    inputs={"logits": "T", **RULES, **FOUND, "min_p": "float"},
    outputs={"out": "T"},
    scalars=SIZES,
    template={"T": "dtype"},
    headers=HEADERS,
    aliasing={"out": ("logits",)},
    instances=each(),
)


@op
def filter_logits(
    logits: Array,
    *,
    top_k: Array | None = None,
    top_p: Array | None = None,
    min_p: Array | None = None,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return logits in which those that `sample` must not draw are -inf.

    Parameters
    ----------
    logits : Array, [V] or [1, V]
        float16, bfloat16 or float32, before the temperature is applied; V at least 1.
    top_k : Array, [1], optional
        int32, on the device: how many of the largest logits stay; all where it is not positive.
    top_p : Array, [1], optional
        float32, on the device: as few of the largest logits stay as have this probability together; all from 1 on.
    min_p : Array, [1], optional
        float32, on the device: the logits stay whose probability is at least this part of the largest one.

    Returns
    -------
    Array
        The shape and dtype of `logits`. A logit stays if every given rule keeps it; each rule looks at all logits.
        Equal logits stay or go together. `out` may be `logits`.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous, or `out` overlaps an input in part.
    """
    stream = stream or current_stream()
    return plan_of(logits, top_k, top_p, min_p, target_of(stream)).run(stream, out, logits, top_k, top_p, min_p)


class FilterPlan(NamedTuple):
    """The launches of `filter_logits`: the largest logits, the search for the least likely one that stays, the filter.

    Attributes
    ----------
    groups : int
        Threadgroups of each launch.
    tops : Launch
        It finds, for each threadgroup's logits, the largest and the sum of the exponentials of what they are below it.
    levels : tuple of Launch
        Each finds what the parts of a range hold, of which the next launch takes one. There are none where neither
        top_k nor top_p is given.
    keep : Launch
        It writes the result.
    """

    groups: int
    tops: Launch
    levels: tuple[Launch, ...]
    keep: Launch

    def run(
        self,
        stream: Stream,
        out: Array | None,
        logits: Array,
        top_k: Array | None,
        top_p: Array | None,
        min_p: Array | None,
    ) -> Array:
        """Launch on a stream, and return the result; a rule that is None is not read."""
        given = {"logits": logits, "top_k": top_k, "top_p": top_p, "min_p": min_p}
        out = result(OP, out, logits.shape, logits.dtype, stream, given, KERNEL.aliasing["out"])
        tops = self.find_tops(stream, logits)
        rules = {"top_k": tops if top_k is None else top_k, "top_p": tops if top_p is None else top_p}
        # Before the first launch of the search nothing is found but the tops, and nothing else is read.
        found = {"tops": tops, "before": tops, "low": tops, "above": tops}
        for launch in self.levels:
            found = self.narrow(stream, launch, logits=logits, **rules, **found)
        self.keep(stream, logits=logits, **rules, **found, min_p=tops if min_p is None else min_p, out=out)
        return out

    def find_tops(self, stream: Stream, logits: Array) -> Array:
        """Return the largest logit of each threadgroup, and the sum of the exponentials relative to it."""
        tops = empty((self.groups, 2), FLOAT32, stream)
        self.tops(stream, logits=logits, tops=tops)
        return tops

    def narrow(self, stream: Stream, launch: Launch, /, *, tops: Array, **operands: Array) -> dict[str, Array]:
        """Launch one level of the search, and return what has been found by then, by name."""
        after = empty((self.groups, 2 * PARTS), FLOAT32, stream)
        low, above = empty(1, INT32, stream), empty(2, FLOAT32, stream)
        launch(stream, tops=tops, **operands, after=after, new_low=low, new_above=above)
        return {"tops": tops, "before": after, "low": low, "above": above}


@Planned
def plan_of(logits: Form, top_k: Form | None, top_p: Form | None, min_p: Form | None, target: Target) -> FilterPlan:
    """Check the operands and return the plan."""
    check_logits(OP, logits)
    rules = (("top_k", top_k, INT32), ("top_p", top_p, FLOAT32), ("min_p", min_p, FLOAT32))
    for name, value, dtype in rules:
        if value is not None:
            buffer(OP, name, value, dtype, (1,))
    given = sum((value is not None) << i for i, (_, value, _) in enumerate(rules))
    is_searched = top_k is not None or top_p is not None
    width = logits.size
    share = SHARE * max(1, -(-width // (SHARE * MOST_GROUPS)))
    groups = -(-width // share)
    grid, threads = row_launch(target, groups, SHARE)
    template, sizes = {"T": logits.dtype}, {"width": width, "share": share}
    search = {**sizes, "groups": groups, "given": given}
    levels = LEVELS[logits.dtype.name] if is_searched else 0
    return FilterPlan(
        groups,
        Launch(TOPS, grid, threads, template, **sizes),
        tuple(Launch(SEARCH, grid, threads, template, level=level, **search) for level in range(levels)),
        Launch(KERNEL, grid, threads, template, level=levels, **search),
    )


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
