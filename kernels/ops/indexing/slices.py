"""Slices: parts of an array whose first element is named by numbers on the device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from hiprt.array import Array, Form, row_strides
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.lang.operands import INT32, buffer, result
from hiprt.kernels.ops.elementwise.copies import astype, axis_of, copy_into
from hiprt.kernels.ops.indexing.indexing import MOVED
from hiprt.kernels.ops.promotion import WORDS, strided
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["slice", "slice_update"]

THREADS = 256


@cache
def kernel_of(word: str, places: tuple[int, ...], is_update: bool) -> Kernel:
    """Return the kernel for elements of a width.

    Parameters
    ----------
    word : str
    places : tuple of int
        The number of each axis's start among the starts; -1 for an axis without one.
    is_update : bool
        Whether the part is written into the array instead of read from it.
    """
    lines = ["uint i = thread_position_in_grid.x;", "if (i >= size) return;", "uint rest = i;"]
    lines.append("long whole_at = 0, part_at = 0;")
    for axis in reversed(range(len(places))):
        lines.append(f"long c{axis} = long(rest % part_n{axis});")
        lines.append(f"rest /= part_n{axis};")
        lines.append(f"part_at += c{axis} * part_step{axis};")
        if places[axis] >= 0:
            last = f"int(whole_n{axis} - part_n{axis})"
            lines.append(f"c{axis} += clamp(starts[{places[axis]}], 0, {last});")
        lines.append(f"whole_at += c{axis} * whole_step{axis};")
    lines.append("whole[whole_at] = part[part_at];" if is_update else "part[part_at] = whole[whole_at];")
    scalars = {"size": "uint"}
    for axis in range(len(places)):
        scalars |= {f"part_n{axis}": "uint", f"whole_n{axis}": "uint"}
        scalars |= {f"part_step{axis}": "int", f"whole_step{axis}": "int"}
    name = "_".join(["slice_update" if is_update else "slice", word, *(str(p).replace("-1", "x") for p in places)])
    given, written = ("part", "whole") if is_update else ("whole", "part")
    changed = {written: word}
    return Kernel(
        name,
        inputs={given: word, "starts": "int"},
        updates=changed if is_update else None,
        outputs=None if is_update else changed,
        scalars=scalars,
        source="\n".join(lines),
    )


def move(whole: Array, part: Array, starts: Array, axes: tuple[int, ...], stream: Stream, is_update: bool) -> None:
    """Copy a part out of the array, or into it."""
    if part.size:
        moved = MOVED[whole.dtype.itemsize]
        launch = launch_of(whole, part, axes, is_update)
        launch(stream, whole=whole.view(moved), part=part.view(moved), starts=starts)


@Planned
def launch_of(whole: Form, part: Form, axes: tuple[int, ...], is_update: bool) -> Launch:
    """Return the launch that copies a part."""
    places = tuple(axes.index(axis) if axis in axes else -1 for axis in range(whole.ndim))
    scalars = {"size": part.size}
    for name, form in (("part", part), ("whole", whole)):
        strides = row_strides(form.shape) if form.strides is None else form.strides
        scalars |= {f"{name}_n{axis}": n for axis, n in enumerate(form.shape)}
        scalars |= {f"{name}_step{axis}": step for axis, step in enumerate(strides)}
    kernel = kernel_of(WORDS[MOVED[whole.dtype.itemsize]], places, is_update)
    return Launch(kernel, (-(-part.size // THREADS), 1, 1), (THREADS, 1, 1), **scalars)


def checked_axes(op: str, a: Array, starts: Array, axes: Sequence[int], part: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes counted from the front, after checking the arguments against the array."""
    strided(op, "a", a)
    found = tuple(axis_of(op, axis, a.ndim) for axis in axes)
    if len(set(found)) < len(found):
        raise ValueError(f"[{op}] An axis of {tuple(axes)} is named twice.")
    buffer(op, "start_indices", starts, INT32, (len(found),))
    if len(part) != a.ndim or any(n > m for n, m in zip(part, a.shape)):
        raise ValueError(f"[{op}] A slice of shape {part} does not fit an array of shape {a.shape}.")
    return found


@op
def slice(  # noqa: A001
    a: Array,
    start_indices: Array,
    axes: Sequence[int],
    slice_size: Sequence[int],
    *,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return a part of an array that begins at indices on the device.

    Parameters
    ----------
    a : Array
        An array of any strides and dtype.
    start_indices : Array, [n]
        int32, on the device: one for each of `axes`. They are held to where the whole part lies in the array.
    axes : sequence of int
        The others begin at 0.
    slice_size : sequence of int
        The part's shape.

    Returns
    -------
    Array, slice_size

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        An axis or a shape does not fit, or `out` overlaps an input.
    """
    shape = tuple(int(n) for n in slice_size)
    found = checked_axes("slice", a, start_indices, axes, shape)
    stream = stream or current_stream()
    out = result("slice", out, shape, a.dtype, stream, {"a": a, "start_indices": start_indices})
    move(a, out, start_indices, found, stream, False)
    return out


@op
def slice_update(
    a: Array,
    update: Array,
    start_indices: Array,
    axes: Sequence[int],
    *,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return an array in which the part that begins at indices on the device is replaced.

    Parameters
    ----------
    a : Array
        An array of any dtype, and of any strides unless it is `out`.
    update : Array
        The new part, with as many axes as `a`. It is converted to the dtype of `a`.
    start_indices : Array, [n]
        int32, on the device: one for each of `axes`. They are held to where the whole part lies in the array.
    axes : sequence of int
        The others begin at 0.

    Returns
    -------
    Array
        The shape and dtype of `a`. `out` may be `a`, of which only the part is then written.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        An axis or a shape does not fit, or `out` overlaps an input that it is not.
    """
    op = "slice_update"
    found = checked_axes(op, a, start_indices, axes, strided(op, "update", update).shape)
    stream = stream or current_stream()
    part = update if update.dtype == a.dtype else astype(update, a.dtype, stream=stream)
    apart = {"update": part, "start_indices": start_indices} | ({} if out is a else {"a": a})
    into = result(op, out, a.shape, a.dtype, stream, apart)
    if out is not a:
        copy_into(into, a, stream, is_whole=True)
    move(into, part, start_indices, found, stream, True)
    return into
