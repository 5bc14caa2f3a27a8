"""Reductions over axes, whose kernels are generated from the C++ expression that joins two values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from hiprt.array import Array
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.lang.operands import result
from hiprt.kernels.ops.elementwise.copies import astype, axis_of, contiguous
from hiprt.kernels.ops.elementwise.headers import headers_of
from hiprt.kernels.ops.elementwise.result_dtypes import real
from hiprt.kernels.ops.norm.softmax import row_softmax
from hiprt.kernels.ops.promotion import BOOL, INT32, WORDS, at_least_float, is_float, strided
from hiprt.kernels.ops.row_launch import row_launch
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["Reduction", "all", "any", "logsumexp", "max", "mean", "min", "prod", "rows_of", "sum"]

DType = np.dtype[Any]
Axis = int | Sequence[int] | None
BODY = """
const device {given}* from = x + size_t(threadgroup_position_in_grid.x) * width;
const uint index = thread_index_in_threadgroup;
#if HIPRT_CPU_LOOPS
{wide} lanes[8];
for (uint j = 0; j < 8; j++) lanes[j] = {identity};
uint whole = width / 8 * 8;
for (uint i = 0; i < whole; i += 8) {{
  for (uint j = 0; j < 8; j++) {{
    {wide} a = lanes[j], b = {wide}(from[i + j]);
    lanes[j] = {text};
  }}
}}
{wide} total = {identity};
for (uint i = whole; i < width; i++) {{
  {wide} a = total, b = {wide}(from[i]);
  total = {text};
}}
for (uint j = 0; j < 8; j++) {{
  {wide} a = total, b = lanes[j];
  total = {text};
}}
#else
threadgroup {wide} parts[256];
{wide} total = {identity};
for (uint i = index; i < width; i += threads_per_threadgroup.x) {{
  {wide} a = total, b = {wide}(from[i]);
  total = {text};
}}
parts[index] = total;
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint half_way = 128; half_way > 0; half_way /= 2) {{
  if (index < half_way && index + half_way < threads_per_threadgroup.x) {{
    {wide} a = parts[index], b = parts[index + half_way];
    parts[index] = {text};
  }}
  threadgroup_barrier(mem_flags::mem_threadgroup);
}}
total = parts[0];
#endif
if (index == 0) out[threadgroup_position_in_grid.x] = {out}({final});
"""


@cache
def kernel_of(name: str, text: str, identity: str, final: str, given: str, out: str) -> Kernel:
    """Return the kernel that joins a row."""
    wide = "float" if out in ("half", "bfloat16_t") else out
    source = BODY.format(given=given, wide=wide, identity=identity, text=text, out=out, final=final)
    return Kernel(
        f"{name}_{given}_{out}",
        inputs={"x": given},
        outputs={"out": out},
        scalars={"width": "uint"},
        headers=headers_of((given, out)),
        is_varied=True,
        source=source,
    )


def rows_of(op: str, x: Array, axis: Axis, keepdims: bool, stream: Stream) -> tuple[Array, int, tuple[int, ...]]:
    """Return an array with the reduced axes last and contiguous, their size, and the result's shape.

    Raises
    ------
    TypeError
        The value is not an array, or its dtype has no kernels.
    ValueError
        There is no such axis, or one is named twice.
    """
    strided(op, "x", x)
    given = range(x.ndim) if axis is None else (axis,) if isinstance(axis, (int, np.integer)) else axis
    axes = [axis_of(op, each, x.ndim) for each in given]
    if len(set(axes)) < len(axes):
        raise ValueError(f"[{op}] An axis of {tuple(given)} is named twice.")
    kept = [each for each in range(x.ndim) if each not in axes]
    width = int(np.prod([x.shape[each] for each in axes], dtype=np.int64))
    shape = tuple(1 if each in axes else n for each, n in enumerate(x.shape) if keepdims or each not in axes)
    turned = x.transpose(*kept, *sorted(axes)) if x.ndim else x
    return contiguous(turned, stream=stream), width, shape


class Reduction:
    """A reduction of several axes; called as ``op(x, axis=None, keepdims=False, stream=None, out=None)``.

    `axis` is an axis, several, or None for all. The array may have any strides and dtype. Floating dtypes are joined in
    float32.

    Parameters
    ----------
    name : str
    rule : callable
        A function of the dtype of `x` that returns the result's.
    text : str
        The C++ expression that joins ``a`` and ``b``.
    identity : str
        The value that changes no other when joined with it. ``from[0]``, the first element, stands for an op that has
        none; the array must not be empty then.
    meaning : str
        The description of the result, for the op's documentation.
    final : str
        The C++ expression of the result from ``total``.
    """

    def __init__(
        self, name: str, rule: Callable[[DType], DType], text: str, identity: str, meaning: str, final: str = "total"
    ) -> None:
        self.name = name
        self.rule = rule
        self.text, self.identity, self.final = text, identity, final
        self.__name__ = name
        self.__doc__ = f"Return {meaning} over axes."

    def __call__(
        self,
        x: Array,
        axis: Axis = None,
        keepdims: bool = False,
        *,
        stream: Stream | None = None,
        out: Array | None = None,
    ) -> Array:
        """Reduce `axis` of `x`; see the class."""
        stream = stream or current_stream()
        rows, width, shape = rows_of(self.name, x, axis, keepdims, stream)
        dtype = self.rule(x.dtype)
        out = result(self.name, out, shape, dtype, stream, {"x": rows})
        if not width and self.identity == "from[0]":
            raise ValueError(f"[{self.name}] Cannot {self.name} reduce zero size array.")
        launch_of(self, x.dtype, dtype, out.size, width, target_of(stream))(stream, x=rows, out=out)
        return out


@Planned
def launch_of(op: Reduction, given: DType, dtype: DType, rows: int, width: int, target: Target) -> Launch:
    """Return the launch over contiguous rows."""
    wide = WORDS[at_least_float(dtype)] if is_float(dtype) else WORDS[dtype]
    identity = "{}({})".format("float" if is_float(dtype) else wide, op.identity)
    kernel = kernel_of(op.name, op.text, identity, op.final, WORDS[given], WORDS[dtype])
    return Launch(kernel, *row_launch(target, rows, width), width=width)


def same(dtype: DType) -> DType:
    """Return the dtype."""
    return dtype


def summed(dtype: DType) -> DType:
    """Return the dtype of sums: small integers become integers of 32 bits, bool becomes int32."""
    if dtype == BOOL:
        return INT32
    if is_float(dtype) or dtype.itemsize >= 4:
        return dtype
    return np.dtype(np.uint32) if dtype.kind == "u" else INT32


def truth(_: DType) -> DType:
    """Return bool."""
    return BOOL


all = op(Reduction("all", truth, "a && b", "true", "whether none is zero"))  # noqa: A001
any = op(Reduction("any", truth, "a || b", "false", "whether one is not zero"))  # noqa: A001
max = op(Reduction("max", same, "larger(a, b)", "from[0]", "the largest, or NaN where one is"))  # noqa: A001
mean = op(Reduction("mean", at_least_float, "a + b", "0", "the mean", "divided(total, float(width))"))
min = op(Reduction("min", same, "smaller(a, b)", "from[0]", "the smallest, or NaN where one is"))  # noqa: A001
prod = op(Reduction("prod", summed, "a * b", "1", "the product"))
sum = op(Reduction("sum", summed, "a + b", "0", "the sum"))  # noqa: A001


@op
def logsumexp(
    x: Array, axis: Axis = None, keepdims: bool = False, *, stream: Stream | None = None, out: Array | None = None
) -> Array:
    """Return ``log(sum(exp(x)))`` over axes, without overflow.

    Parameters
    ----------
    x : Array
        An array of any strides; integers become float32.
    axis : int or sequence of int, optional
        The axes; all of them by default.
    keepdims : bool
        Whether reduced axes stay, with size 1.

    Returns
    -------
    Array
        The result, of the dtype of `x`, or float32; it is computed in float32. No elements give -inf.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        There is no such axis.
    """
    stream = stream or current_stream()
    rows, width, shape = rows_of("logsumexp", x, axis, keepdims, stream)
    rows = astype(rows, at_least_float(real(x.dtype)), stream=stream)
    out = result("logsumexp", out, shape, rows.dtype, stream, {"x": rows})
    row_softmax(rows.dtype, True, out.size, width, target_of(stream))(stream, x=rows, out=out)
    return out
