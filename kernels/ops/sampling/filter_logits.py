"""Filters of logits, which leave the likely tokens to be drawn."""

from __future__ import annotations

from typing import NamedTuple

from hiprt.array import Array, Form, empty
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.lang.operands import FLOAT32, INT32, UINT32, buffer, floating, result
from hiprt.kernels.ops.row_launch import row_launch
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["FilterPlan", "check_logits", "filter_logits", "plan_of"]

OP = "filter_logits"
SHARE = 1024  # logits that a threadgroup takes, unless there are very many
MOST_GROUPS = 1024  # threadgroups at most, because each reads what all of them found
# Of each dtype the upper bits of `order_key` in which logits differ, their digits (filter.h), and the bits of a digit.
KEYS = {"bfloat16": (16, 2, 8), "float16": (19, 2, 10), "float32": (32, 3, 11)}
SUMS, STATES = 4, 5  # words of one value of a digit, and of one level, as in filter.h
RULES = {"top_k": "int", "top_p": "float"}
FOUND = {"tops": "float", "found": "uint"}
SIZES = {"width": "uint", "share": "uint", "groups": "uint", "given": "uint", "level": "uint"}
HEADERS = ("reduction/largest.h", "sampling/filter.h")
TEMPLATE = {"T": "dtype", "KEY": "int"}
KEYED = each(KEY=lambda dtype, _: KEYS[dtype.name][:1])
TOPS = Kernel(
    "sampling/filter_tops",
    inputs={"logits": "T"},
    outputs={"tops": "float", "found": "uint"},
    scalars={"width": "uint", "share": "uint", "groups": "uint", "words": "uint"},
    template={"T": "dtype"},
    headers=("norm/row_sums.h",),
    ahead=(),
    instances=each(),
    part_of="filter_logits",
)
SEARCH = Kernel(
    "sampling/filter_search",
    inputs={"logits": "T", **RULES, "tops": "float"},
    updates={"found": "uint"},
    scalars={**SIZES, "grain": "uint"},
    template=TEMPLATE,
    headers=HEADERS,
    ahead=(),
    instances=KEYED,
    part_of="filter_logits",
)
KERNEL = Kernel(
    "sampling/filter_logits",
    inputs={"logits": "T", **RULES, **FOUND, "min_p": "float"},
    outputs={"out": "T"},
    scalars=SIZES,
    template=TEMPLATE,
    headers=HEADERS,
    aliasing={"out": ("logits",)},
    ahead=(),
    instances=KEYED,
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
    """The launches of `filter_logits`: the largest logit, the search for the least likely one that stays, the filter.

    Attributes
    ----------
    groups : int
        Threadgroups of each launch.
    words : int
        The words of what the search finds.
    tops : Launch
        It finds the largest logit of each threadgroup's, and clears what the search adds to.
    levels : tuple of Launch
        Each adds up what the logits that the range still has hold by a digit of their keys, of which the next launch
        takes one. There are none where neither top_k nor top_p is given.
    keep : Launch
        It writes the result.
    """

    groups: int
    words: int
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
        tops, found = self.find_tops(stream, logits)
        rules = {"top_k": tops if top_k is None else top_k, "top_p": tops if top_p is None else top_p}
        for launch in self.levels:
            launch(stream, logits=logits, **rules, tops=tops, found=found)
        least = tops if min_p is None else min_p
        self.keep(stream, logits=logits, **rules, tops=tops, found=found, min_p=least, out=out)
        return out

    def find_tops(self, stream: Stream, logits: Array) -> tuple[Array, Array]:
        """Return the largest logit of each threadgroup, and the zeros that the search adds to."""
        tops, found = empty(self.groups, FLOAT32, stream), empty(self.words, UINT32, stream)
        self.tops(stream, logits=logits, tops=tops, found=found)
        return tops, found


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
    # Sums of a threadgroup's parts of exponentials stay in 32 bits.
    grain = 30 - (share - 1).bit_length()
    grid, threads = row_launch(target, groups, SHARE)
    sizes = {"width": width, "share": share, "groups": groups}
    key, levels, digit = KEYS[logits.dtype.name]
    template, search = {"T": logits.dtype, "KEY": key}, {**sizes, "given": given}
    words = levels * ((SUMS << digit) + STATES) if is_searched else 1
    launches = range(levels if is_searched else 0)
    return FilterPlan(
        groups,
        words,
        Launch(TOPS, grid, threads, {"T": logits.dtype}, **sizes, words=words),
        tuple(Launch(SEARCH, grid, threads, template, level=level, grain=grain, **search) for level in launches),
        Launch(KERNEL, grid, threads, template, level=len(launches), **search),
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
