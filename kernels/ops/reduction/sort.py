"""Sorting, and the ops that follow from the order of elements."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from hiprt.array import Array, Form, empty
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.lang.operands import UINT32
from hiprt.kernels.ops.elementwise.copies import along, axis_of
from hiprt.kernels.ops.indexing.indexing import take_along_axis
from hiprt.kernels.ops.promotion import WORDS, strided
from hiprt.kernels.ops.reduction.argmax import order_headers
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["argpartition", "argsort", "partition", "sort", "topk"]

RUN = 1024  # elements that one threadgroup sorts
THREADS = 256
# A bitonic network sorts pairs of key and place. All places differ, so elements with equal keys stay in their order.
BLOCK = f"""
threadgroup long keys[{RUN}];
threadgroup uint places[{RUN}];
uint runs = (width + {RUN - 1}) / {RUN};
uint row = threadgroup_position_in_grid.x / runs;
uint first = threadgroup_position_in_grid.x % runs * {RUN};
uint count = min(uint({RUN}), width - first);
uint step = threads_per_threadgroup.x;
for (uint i = thread_index_in_threadgroup; i < padded; i += step) {{
  keys[i] = i < count ? sort_key(x[size_t(row) * width + first + i]) : 0x7fffffffffffffffl;
  places[i] = i < count ? first + i : 0xffffffffu;
}}
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint size = 2; size <= padded; size *= 2) {{
  for (uint far = size / 2; far > 0; far /= 2) {{
    for (uint i = thread_index_in_threadgroup; i < padded / 2; i += step) {{
      uint low = 2 * i - (i & (far - 1));
      uint high = low + far;
      bool is_after = keys[low] > keys[high] || (keys[low] == keys[high] && places[low] > places[high]);
      if (is_after == ((low & size) == 0)) {{
        long key = keys[low];
        uint place = places[low];
        keys[low] = keys[high];
        places[low] = places[high];
        keys[high] = key;
        places[high] = place;
      }}
    }}
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }}
}}
for (uint i = thread_index_in_threadgroup; i < count; i += step) out[size_t(row) * width + first + i] = places[i];
"""
# Each element finds its place in the merged run: its place in its own run plus the elements of the other before it.
MERGE = """
uint i = thread_position_in_grid.x;
if (i >= size) return;
size_t base = size_t(i / width) * width;
uint at = i % width;
uint start = at / (2 * run) * (2 * run);
bool is_second = at - start >= run;
uint other = is_second ? start : min(width, start + run);
uint low = other;
uint high = is_second ? start + run : min(width, start + 2 * run);
long key = sort_key(x[base + order[i]]);
while (low < high) {
  uint middle = low + (high - low) / 2;
  long theirs = sort_key(x[base + order[base + middle]]);
  if (theirs < key || (is_second && theirs == key)) {
    low = middle + 1;
  } else {
    high = middle;
  }
}
uint own = at - start - (is_second ? run : 0u);
out[base + start + own + (low - other)] = order[i];
"""


@cache
def sorter(word: str) -> Kernel:
    """Return the kernel that sorts runs of a dtype."""
    return Kernel(
        f"sort_runs_{word}",
        inputs={"x": word},
        outputs={"out": "uint"},
        scalars={"width": "uint", "padded": "uint"},
        headers=order_headers(word),
        is_varied=True,
        source=BLOCK,
    )


@cache
def merger(word: str) -> Kernel:
    """Return the kernel that merges pairs of runs of a dtype."""
    return Kernel(
        f"merge_runs_{word}",
        inputs={"x": word, "order": "uint"},
        outputs={"out": "uint"},
        scalars={"size": "uint", "width": "uint", "run": "uint"},
        headers=order_headers(word),
        source=MERGE,
    )


def order_of(x: Array, stream: Stream) -> Array:
    """Return the places (uint32) of each row's elements from the smallest on; equal ones stay in order."""
    order = empty(x.shape, UINT32, stream)
    if not x.size:
        return order
    sort_runs, *merges = launches_of(x, target_of(stream))
    sort_runs(stream, x=x, out=order)
    for merge in merges:
        merged = empty(x.shape, UINT32, stream)
        merge(stream, x=x, order=order, out=merged)
        order = merged
    return order


@Planned
def launches_of(x: Form, target: Target) -> tuple[Launch, ...]:
    """Return the launch that sorts runs, and then the launches that merge them."""
    word, width = WORDS[x.dtype], x.shape[-1]
    padded = min(RUN, 1 << (width - 1).bit_length())
    threads = 1 if target.takes_loops else min(THREADS, max(32, padded // 2))
    grid = (x.size // width * -(-width // RUN), 1, 1)
    launches = [Launch(sorter(word), grid, (threads, 1, 1), width=width, padded=padded)]
    run = RUN
    while run < width:
        grid = (-(-x.size // THREADS), 1, 1)
        launches.append(Launch(merger(word), grid, (THREADS, 1, 1), size=x.size, width=width, run=run))
        run *= 2
    return tuple(launches)


def ordered(
    op: str,
    a: Array,
    axis: int | None,
    choose: Callable[[Array, Array, Stream], Array],
    stream: Stream | None,
    out: Array | None,
) -> Array:
    """Call `choose` with the rows along an axis and their order, and return its result."""
    stream = stream or current_stream()
    return along(op, a, axis, lambda rows: choose(rows, order_of(rows, stream), stream), stream, out)


def places(_: Array, order: Array, __: Stream) -> Array:
    """Return the order."""
    return order


def elements(rows: Array, order: Array, stream: Stream) -> Array:
    """Return the rows in order."""
    return take_along_axis(rows, order, -1, stream=stream)


@op
def argsort(a: Array, axis: int | None = -1, *, stream: Stream | None = None, out: Array | None = None) -> Array:
    """Return the places of elements from the smallest to the largest.

    Parameters
    ----------
    a : Array
        An array of any strides and dtype. NaN comes last, 0 and -0 are equal, and equal elements stay in order.
    axis : int, optional
        The axis, the last one by default; None takes `a` as one row.

    Returns
    -------
    Array
        uint32.

    Raises
    ------
    TypeError
        The dtype has no kernels.
    ValueError
        There is no such axis, or `out` does not fit.

    Notes
    -----
    A bitonic network (Batcher, 1968) sorts runs of 1024 elements. They are then merged pair by pair, with one kernel
    for each doubling.
    """
    return ordered("argsort", a, axis, places, stream, out)


@op
def sort(a: Array, axis: int | None = -1, *, stream: Stream | None = None, out: Array | None = None) -> Array:
    """Return the elements from the smallest to the largest. The arguments and the order are those of `argsort`."""
    return ordered("sort", a, axis, elements, stream, out)


def kth_of(op: str, a: Array, kth: int, axis: int | None) -> None:
    """Refuse a place that the axis does not have."""
    strided(op, "a", a)
    length = a.size if axis is None else a.shape[axis_of(op, axis, a.ndim)]
    if not -length <= kth < length:
        raise ValueError(f"[{op}] Received invalid kth {kth} along axis {axis} for array with shape: {a.shape}")


@op
def argpartition(
    a: Array, kth: int, axis: int | None = -1, *, stream: Stream | None = None, out: Array | None = None
) -> Array:
    """Return places such that elements before the `kth` are not larger, and elements after it are not smaller.

    The op finds the whole order, as `argsort` does, whose arguments it takes.
    """
    kth_of("argpartition", a, kth, axis)
    return ordered("argpartition", a, axis, places, stream, out)


@op
def partition(
    a: Array, kth: int, axis: int | None = -1, *, stream: Stream | None = None, out: Array | None = None
) -> Array:
    """Return the elements in the order that `argpartition` finds."""
    kth_of("partition", a, kth, axis)
    return ordered("partition", a, axis, elements, stream, out)


@op
def topk(a: Array, k: int, axis: int | None = -1, *, stream: Stream | None = None, out: Array | None = None) -> Array:
    """Return the `k` largest elements along an axis, the largest last. Arguments and order are those of `argsort`."""
    strided("topk", "a", a)
    length = a.size if axis is None else a.shape[axis_of("topk", axis, a.ndim)]
    if not 0 <= k <= length:
        raise ValueError(f"[topk] Received invalid k={k} along axis {axis} for array with shape: {a.shape}")

    def largest(rows: Array, order: Array, stream: Stream) -> Array:
        return take_along_axis(rows, order[..., length - k :], -1, stream=stream)

    return ordered("topk", a, axis, largest, stream, out)
