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

__all__ = ["HEADERS", "HOW", "KEYS", "RULES", "FilterPlan", "filter_logits", "plan_of", "rows_of"]

OP = "filter_logits"
SHARE = 1024  # logits that a threadgroup takes, unless there are very many
MOST_GROUPS = 1024  # threadgroups at most, because each reads what all of them found
# Of each dtype the upper bits of `order_key` in which logits differ, their digits (filter.h), and the bits of a digit.
KEYS = {"bfloat16": (16, 2, 8), "float16": (19, 2, 10), "float32": (32, 3, 11)}
COUNTED = 16  # the bits of keys that are counted one by one, except by plain loops
SUMS, STATES = 4, 8  # words of one value of a digit, and of one level, as in filter.h
SEARCHED = {"top_k": "int", "top_p": "float"}
# What a kernel takes that looks at what the search found, besides the logits and the sizes of a row and of its shares.
RULES = {**SEARCHED, "min_p": "float", "tops": "float", "found": "uint"}
HOW = {"given": "uint", "level": "uint", "grain": "uint"}
SIZES = {"width": "uint", "share": "uint", "groups": "uint", **HOW}
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
    inputs={"logits": "T", **SEARCHED, "tops": "float"},
    updates={"found": "uint"},
    scalars=SIZES,
    template=TEMPLATE,
    headers=HEADERS,
    ahead=(),
    instances=KEYED,
    part_of="filter_logits",
)
KERNEL = Kernel(
    "sampling/filter_logits",
    inputs={"logits": "T", **RULES},
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
    logits : Array, [V] or [rows, V]
        float16, bfloat16 or float32, before the temperature is applied; V at least 1.
    top_k : Array, [rows], optional
        int32, on the device: how many of the largest logits stay; all where it is not positive.
    top_p : Array, [rows], optional
        float32, on the device: as few of the largest logits stay as have this probability together; all from 1 on.
    min_p : Array, [rows], optional
        float32, on the device: the logits stay whose probability is at least this part of the largest one.

    Returns
    -------
    Array
        The shape and dtype of `logits`. A logit stays if every given rule keeps it; each rule looks at all logits
        of the row. Equal logits stay or go together. `out` may be `logits`.

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
    rows : int
    groups : int
        Threadgroups of each row.
    words : int
        The words of what the search finds of a row.
    tops : Launch
        It finds the largest logit of each threadgroup's, and clears what the search adds to.
    levels : tuple of Launch
        Each adds up what the logits that the range still has hold by a digit of their keys, of which the next launch
        takes one. There are none where neither top_k nor top_p is given.
    keep : Launch
        It writes the result.
    """

    rows: int
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
        self.keep(stream, out=out, logits=logits, **self.search(stream, logits, top_k, top_p, min_p))
        return out

    def search(
        self, stream: Stream, logits: Array, top_k: Array | None, top_p: Array | None, min_p: Array | None
    ) -> dict[str, Array]:
        """Launch the search, and return what a kernel takes that looks at what it found (`RULES`)."""
        tops, found = self.find_tops(stream, logits)
        rules = {"top_k": tops if top_k is None else top_k, "top_p": tops if top_p is None else top_p}
        for launch in self.levels:
            launch(stream, logits=logits, **rules, tops=tops, found=found)
        return {**rules, "min_p": tops if min_p is None else min_p, "tops": tops, "found": found}

    def find_tops(self, stream: Stream, logits: Array) -> tuple[Array, Array]:
        """Return the largest logit of each threadgroup, and the zeros that the search adds to."""
        tops = empty(self.rows * self.groups, FLOAT32, stream)
        found = empty(self.rows * self.words, UINT32, stream)
        self.tops(stream, logits=logits, tops=tops, found=found)
        return tops, found


@Planned
def plan_of(logits: Form, top_k: Form | None, top_p: Form | None, min_p: Form | None, target: Target) -> FilterPlan:
    """Check the operands and return the plan."""
    rows, width = rows_of(OP, logits)
    rules = (("top_k", top_k, INT32), ("top_p", top_p, FLOAT32), ("min_p", min_p, FLOAT32))
    for name, value, dtype in rules:
        if value is not None:
            buffer(OP, name, value, dtype, (rows,))
    given = sum((value is not None) << i for i, (_, value, _) in enumerate(rules))
    share = SHARE * max(1, -(-width // (SHARE * MOST_GROUPS)))
    groups = -(-width // share)
    # Sums of a threadgroup's parts of exponentials stay in 32 bits.
    grain = 30 - (share - 1).bit_length()
    grid, threads = row_launch(target, rows * groups, SHARE)
    key, digits, digit = KEYS[logits.dtype.name]
    # Where the logits of each key are counted, one launch finds all.
    is_counted = key == COUNTED and not target.takes_loops
    is_searched = top_k is not None or top_p is not None
    levels = 0 if not is_searched else 1 if is_counted else digits
    words = ((SUMS << digit) + (1 << key) if is_counted else digits * (SUMS << digit)) + digits * STATES
    sizes = {"width": width, "share": share, "groups": groups}
    template, search = {"T": logits.dtype, "KEY": key}, {**sizes, "given": given, "grain": grain}
    return FilterPlan(
        rows,
        groups,
        words if is_searched else 1,
        Launch(TOPS, grid, threads, {"T": logits.dtype}, **sizes, words=words if is_searched else 1),
        tuple(Launch(SEARCH, grid, threads, template, level=level, **search) for level in range(levels)),
        Launch(KERNEL, grid, threads, template, level=levels, **search),
    )


def rows_of(op: str, logits: Form) -> tuple[int, int]:
    """Return the number of rows of logits, and their width.

    Raises
    ------
    TypeError, ValueError
        The logits are of no floating dtype, have more axes or none, are empty rows, or are not contiguous.
    """
    floating(op, "logits", logits)
    if logits.ndim not in (1, 2) or not logits.shape[-1]:
        raise ValueError(f"{op}: logits has shape {logits.shape}; [V] or [rows, V] is needed")
    rows, width = (1, *logits.shape)[-2:]
    return rows, width
