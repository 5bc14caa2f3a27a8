"""The ops that find the place of the largest value, and of the smallest."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from hiprt.array import Array, Form, make
from hiprt.kernels.lang.instances import each, runs
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch, Plan
from hiprt.kernels.lang.operands import FLOATS, INT32, result
from hiprt.kernels.ops.arrivals import COUNTERS, arrivals
from hiprt.kernels.ops.elementwise.copies import axis_of, contiguous
from hiprt.kernels.ops.promotion import WORDS, strided
from hiprt.kernels.ops.row_launch import row_launch
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = [
    "LARGEST_SIZES",
    "LARGEST_UPDATES",
    "LargestPlan",
    "argmax",
    "argmin",
    "largest_plan",
    "order_headers",
]

# What the kernels have in common that find the place of the largest of some values (LargestShare in largest.h).
LARGEST_UPDATES = {"parts": "int", "arrived": "uint"}
LARGEST_SIZES = {"width": "uint", "share": "uint", "groups": "uint", "is_counted": "uint"}
KERNEL = Kernel(
    "reduction/argmax",
    inputs={"x": "T"},
    updates=LARGEST_UPDATES,
    outputs={"out": "int"},
    scalars=LARGEST_SIZES,
    template={"T": "dtype", "RUN": "int"},
    headers=("reduction/largest.h",),
    threads=1024,
    is_varied=True,
    ahead=(),
    instances=each(RUN=runs),
)
PART = Kernel(
    "reduction/largest_part",
    inputs={"parts": "int"},
    outputs={"out": "int"},
    scalars={"groups": "uint"},
    headers=("reduction/largest.h",),
    is_varied=True,
    ahead=(),
    instances=each(()),
    part_of="argmax",
)
THREADS = 1024
SHARE = 1024  # values that a threadgroup takes at least where several take a row
SHARED_THREADS = 256  # of each of them
MOST_GROUPS = 1024  # of a row


# This body takes any dtype. It compares the keys that sorting uses, and of equal ones keeps the first.
BODY = """
threadgroup long keys[256];
threadgroup uint places[256];
const uint index = thread_index_in_threadgroup;
const size_t base = size_t(threadgroup_position_in_grid.x) * width;
long best = 0;
uint place = 0xffffffffu;
for (uint i = index; i < width; i += threads_per_threadgroup.x) {{
  long key = {key}(x[base + i]);
  if (place == 0xffffffffu || key > best) {{
    best = key;
    place = i;
  }}
}}
keys[index] = best;
places[index] = place;
threadgroup_barrier(mem_flags::mem_threadgroup);
if (index != 0) return;
for (uint i = 1; i < threads_per_threadgroup.x && i < width; i++) {{
  if (keys[i] > best || (keys[i] == best && places[i] < place)) {{
    best = keys[i];
    place = places[i];
  }}
}}
out[threadgroup_position_in_grid.x] = int(place);
"""


def order_headers(word: str) -> tuple[str, ...]:
    """Return the headers that have the order of a dtype's values."""
    complex_order = ("reduction/complex_order.h",) if word == "complex64_t" else ()
    return ("reduction/largest.h", "reduction/order.h", *complex_order)


@cache
def kernel_of(name: str, key: str, word: str) -> Kernel:
    """Return the kernel for a dtype."""
    return Kernel(
        f"{name}_{word}",
        inputs={"x": word},
        outputs={"out": "int"},
        scalars={"width": "uint"},
        headers=order_headers(word),
        is_varied=True,
        source=BODY.format(key=key),
    )


@op
def argmax(
    x: Array, axis: int | None = -1, keepdims: bool = False, *, stream: Stream | None = None, out: Array | None = None
) -> Array:
    """Return the index of the largest value along an axis.

    Of equal values (0 and -0 are equal) the lowest index wins. The first NaN wins over every number, as in numpy.

    Parameters
    ----------
    x : Array
        An array of any strides and dtype, which is not empty along the axis.
    axis : int, optional
        The axis, the last one by default; None takes `x` as one row.
    keepdims : bool
        Whether the axis stays, with size 1.

    Returns
    -------
    Array
        int32, the dtype of a step block's numbers (MLX returns uint32).

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        There is no such axis, it is empty, or `out` overlaps `x`.
    """
    return place_of("argmax", x, axis, keepdims, stream, out)


@op
def argmin(
    x: Array, axis: int | None = -1, keepdims: bool = False, *, stream: Stream | None = None, out: Array | None = None
) -> Array:
    """Return the index of the smallest value along an axis. The arguments and the rules are those of `argmax`."""
    return place_of("argmin", x, axis, keepdims, stream, out)


def place_of(op: str, x: Array, axis: int | None, keepdims: bool, stream: Stream | None, out: Array | None) -> Array:
    """Check the operand, put the axis last, launch, and return the result."""
    stream = stream or current_stream()
    order, shape, width = rows_of(op, x, axis, keepdims)
    if order is not None or not x.is_contiguous:
        x = contiguous(x if order is None else x.transpose(*order), stream=stream)
    return plan_of(op, x, shape, width, target_of(stream)).run(stream, out, x=x)


@Planned
def rows_of(op: str, x: Form, axis: int | None, keepdims: bool) -> tuple[tuple[int, ...] | None, tuple[int, ...], int]:
    """Check the operand and return the order of axes in which rows lie, the shape of the result and a row's width."""
    strided(op, "x", x)
    if axis is None:
        order, shape, width = None, (1,) * x.ndim if keepdims else (), x.size
    else:
        axis = axis_of(op, axis, x.ndim)
        shape = (*x.shape[:axis], *((1,) if keepdims else ()), *x.shape[axis + 1 :])
        is_last = axis == x.ndim - 1
        order = None if is_last else (*(each for each in range(x.ndim) if each != axis), axis)
        width = x.shape[axis]
    if not width:
        raise ValueError(f"{op}: x has shape {x.shape}; axis {axis} must not be empty")
    return order, shape, width


@Planned
def plan_of(op: str, x: Form, shape: tuple[int, ...], width: int, target: Target) -> Plan | LargestPlan:
    """Return the plan for contiguous rows."""
    if op == "argmax" and x.dtype in FLOATS:
        return largest_plan(op, KERNEL, x, shape, width, target)
    key = "sort_key" if op == "argmax" else "falling_key"
    launch = Launch(kernel_of(op, key, WORDS[x.dtype]), *row_launch(target, x.size // width, width), width=width)
    return Plan(op, shape, INT32, launch)


class LargestPlan(NamedTuple):
    """How the place of each row's largest value is found.

    Attributes
    ----------
    op : str
        The op's name, used in messages.
    shape : tuple of int
        The shape of the result.
    find : Launch
        It finds the places, or, where `choose` is given, the largest key of each threadgroup and its place.
    parts : tuple of 2 int, or None
        The shape of what the threadgroups leave, where several take a row.
    choose : Launch or None
        It finds the largest of those, where the last threadgroup to finish does not.
    """

    op: str
    shape: tuple[int, ...]
    find: Launch
    parts: tuple[int, int] | None
    choose: Launch | None

    def run(self, stream: Stream, out: Array | None, **operands: Array) -> Array:
        """Launch on a stream, and return the places."""
        out = result(self.op, out, self.shape, INT32, stream, operands)
        parts = out if self.parts is None else make(self.parts, INT32, stream)
        arrived = out if self.parts is None or self.choose is not None else arrivals(stream)
        self.find(stream, parts=parts, arrived=arrived, out=out, **operands)
        if self.choose is not None:
            self.choose(stream, parts=parts, out=out)
        return out


def largest_plan(
    op: str,
    kernel: Kernel,
    x: Form,
    shape: tuple[int, ...],
    width: int,
    target: Target,
    template: Mapping[str, Any] | None = None,
    **scalars: int,
) -> LargestPlan:
    """Return the plan of a kernel that finds the places of the largest of some values in rows of floats.

    Rows are shared by threadgroups where there are fewer rows than processors, and each is long.

    Parameters
    ----------
    op : str
        The op's name, used in messages.
    kernel : Kernel
        It has `LARGEST_UPDATES` and `LARGEST_SIZES`, and the template parameters T and RUN.
    x : Form
        The rows.
    shape : tuple of int
        The shape of the result.
    width : int
        The values of a row.
    target : Target
    template : mapping of str to value, optional
        The kernel's other template parameters.
    **scalars
        The kernel's other scalars; `share` and `groups` say how threadgroups share the rows.
    """
    rows = x.size // width
    values: dict[str, Any] = {"T": x.dtype, "RUN": 1, **(template or {})}
    if target.takes_loops:
        sizes = {"width": width, "share": width, "groups": 1, "is_counted": 0, **scalars}
        return LargestPlan(op, shape, Launch(kernel, (rows, 1, 1), (1, 1, 1), values, **sizes), None, None)
    run = 16 // x.dtype.itemsize
    if width % run == 0 and x.is_aligned:
        values["RUN"] = run
    share, threads = width, min(THREADS, -(-width // (32 * values["RUN"])) * 32)
    if rows < target.compute_units and width >= 4 * SHARE:
        share = SHARE * -(-width // (SHARE * MOST_GROUPS))
    share = scalars.get("share", share)
    groups = -(-width // share)
    if groups > 1 or "share" in scalars:
        threads = SHARED_THREADS
    can_join = "arrivals" in target.features and target.table.joins_largest
    is_counted = groups > 1 and can_join and rows <= COUNTERS
    sizes = {"width": width, "share": share, "groups": groups, "is_counted": is_counted, **scalars}
    find = Launch(kernel, (rows * groups, 1, 1), (threads, 1, 1), values, **sizes)
    parts = (rows * groups, 2) if groups > 1 else None
    if is_counted or groups == 1:
        return LargestPlan(op, shape, find, parts, None)
    threads = min(SHARED_THREADS, -(-groups // 32) * 32)
    choose = Launch(PART, (rows, 1, 1), (threads, 1, 1), groups=groups)
    return LargestPlan(op, shape, find, parts, choose)
