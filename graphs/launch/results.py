"""Results of a step's function: the arrays in them, and copies that the next launch does not overwrite."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hiprt import core
from hiprt.array import Array
from hiprt.buffer import Buffer, allocate
from hiprt.stream import Stream

__all__ = ["arrays_in", "copied"]

DEVICE_TO_DEVICE = core.lib.hipMemcpyDeviceToDevice


def arrays_in(result: Any) -> list[Array] | None:
    """Return the arrays in a structure of tuples, lists and dictionaries; None if there may be others inside."""
    if isinstance(result, Array):
        return [result]
    if isinstance(result, dict):
        result = list(result.values())
    if not isinstance(result, (tuple, list)):
        return [] if result is None or isinstance(result, (bool, int, float, complex, str, bytes)) else None
    found: list[Array] = []
    for item in result:
        inside = arrays_in(item)
        if inside is None:
            return None
        found += inside
    return found


def copied(result: Any, own: Collection[int], stream: Stream) -> Any:
    """Return a structure like `result` whose arrays in some buffers show copies, made in stream order.

    Parameters
    ----------
    result : object
    own : collection of int
        The ids of the buffers that are copied. Arrays in other buffers are returned as they are.
    stream : Stream
    """
    return copied_array(result, own, {}, stream) if isinstance(result, Array) else copied_once(result, own, {}, stream)


def copied_array(array: Array, own: Collection[int], copies: dict[int, Buffer], stream: Stream) -> Array:
    """Return an array, or its copy; arrays that share a buffer share its copy."""
    buffer = array.buffer
    number = id(buffer)
    if number not in own:
        return array
    copy = copies.get(number)
    start = buffer.address
    if copy is None:
        copy = copies[number] = allocate(buffer.nbytes, stream)
        stream.copy(copy.address, start, buffer.nbytes, DEVICE_TO_DEVICE, to=copy, of=buffer)
    strides = None if array.is_contiguous else array.strides
    return Array(copy, array.shape, array.dtype, array.address - start + copy.address, strides)


def copied_once(value: Any, own: Collection[int], copies: dict[int, Buffer], stream: Stream) -> Any:
    """Do the work of `copied`."""
    if isinstance(value, Array):
        return copied_array(value, own, copies, stream)
    if isinstance(value, dict):
        return {key: copied_once(item, own, copies, stream) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        items = [copied_once(item, own, copies, stream) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value
