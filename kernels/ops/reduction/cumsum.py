"""Running sums along an axis."""

from __future__ import annotations

from functools import cache

from hiprt.array import Array, Form, empty
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.ops.elementwise.copies import along
from hiprt.kernels.ops.promotion import BOOL, INT32, WORDS
from hiprt.kernels.ops.row_launch import row_launch
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["cumsum"]

# A threadgroup takes one row. A thread sums a run of neighbours, then begins its run with the sums of the threads
# before it.
BODY = """
threadgroup {wide} parts[256];
const uint index = thread_index_in_threadgroup;
const uint count = threads_per_threadgroup.x;
const uint run = (width + count - 1) / count;
const uint first = min(width, index * run), end = min(width, first + run);
const size_t base = size_t(threadgroup_position_in_grid.x) * width;
{wide} sum = {wide}(0);
for (uint i = first; i < end; i++) sum = {wide}(sum + {wide}(x[base + (backwards ? width - 1 - i : i)]));
parts[index] = sum;
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint far = 1; far < count; far *= 2) {{
  {wide} before = index >= far ? parts[index - far] : {wide}(0);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  parts[index] = {wide}(parts[index] + before);
  threadgroup_barrier(mem_flags::mem_threadgroup);
}}
sum = index ? parts[index - 1] : {wide}(0);
for (uint i = first; i < end; i++) {{
  const size_t at = base + (backwards ? width - 1 - i : i);
  const {wide} more = {wide}(sum + {wide}(x[at]));
  out[at] = {out}(inclusive ? more : sum);
  sum = more;
}}
"""


@cache
def kernel_of(given: str, out: str) -> Kernel:
    """Return the kernel of a dtype."""
    wide = "float" if out in ("half", "bfloat16_t") else out
    return Kernel(
        f"cumsum_{given}",
        inputs={"x": given},
        outputs={"out": out},
        scalars={"width": "uint", "backwards": "uint", "inclusive": "uint"},
        is_varied=True,
        source=BODY.format(given=given, wide=wide, out=out),
    )


@op
def cumsum(
    a: Array,
    axis: int | None = None,
    *,
    reverse: bool = False,
    inclusive: bool = True,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return the sums of the elements up to each one along an axis.

    Parameters
    ----------
    a : Array
        An array of any strides and dtype.
    axis : int, optional
        The axis; None takes `a` as one row.
    reverse : bool
        Whether sums begin at the end.
    inclusive : bool
        Whether an element's own value is in its sum.

    Returns
    -------
    Array
        The sums, of the dtype of `a`, or int32 for bool. 16-bit floating dtypes are summed in float32 and rounded once.

    Raises
    ------
    TypeError
        The dtype has no kernels.
    ValueError
        There is no such axis, or `out` does not fit.
    """
    stream = stream or current_stream()

    def sums(rows: Array) -> Array:
        dtype = INT32 if rows.dtype == BOOL else rows.dtype
        result = empty(rows.shape, dtype, stream)
        if rows.size:
            launch_of(rows, bool(reverse), bool(inclusive), target_of(stream))(stream, x=rows, out=result)
        return result

    return along("cumsum", a, axis, sums, stream, out)


@Planned
def launch_of(x: Form, backwards: bool, inclusive: bool, target: Target) -> Launch:
    """Return the launch over contiguous rows."""
    width = x.shape[-1]
    kernel = kernel_of(WORDS[x.dtype], WORDS[INT32 if x.dtype == BOOL else x.dtype])
    shape = row_launch(target, x.size // width, width)
    return Launch(kernel, *shape, width=width, backwards=backwards, inclusive=inclusive)
