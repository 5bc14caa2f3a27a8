"""Memory shared with others: pointers that somebody else owns, and DLPack in both directions.

What is imported stays alive until the last launch that used it is done. What is exported stays allocated until the
consumer lets go of it, which it does when it has no work left on it.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from hiprt import library, provider
from hiprt.array import Array, array as array_of, bfloat16, dtype_of, row_strides
from hiprt.buffer import adopt
from hiprt.event import Event
from hiprt.stream import Stream, current_stream

__all__ = ["from_dlpack", "wrap"]

CPU, CUDA = provider.DLPACK_CPU, provider.DLPACK_CUDA
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
BFLOAT = 4
NO_WAIT, LEGACY = -1, 1
UNUSED, USED = b"dltensor", b"used_dltensor"


class Tensor(ctypes.Structure):
    """DLManagedTensor, with DLTensor's fields in place."""

    _fields_: ClassVar = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


def capsule_call(name: str, result: Any, *arguments: Any) -> Any:
    """Return a function of Python's own about capsules."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


new_capsule = capsule_call("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
set_name = capsule_call("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
is_valid = capsule_call("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
get_pointer = capsule_call("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
# The same of a capsule that is being destroyed, of which no reference may be taken.
is_dying_valid = capsule_call("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
get_dying_pointer = capsule_call("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)

# What consumers hold, by the number in `context`: the tensor, its shape and strides, and the array.
exports: dict[int, tuple[Any, ...]] = {}
numbers = itertools.count(1)


def let_go(pointer: int) -> None:
    """Forget an export: the consumer is done with it."""
    exports.pop(Tensor.from_address(pointer).context, None)


def end_of_capsule(capsule: int) -> None:
    """Forget an export that nobody took out of its capsule."""
    if is_dying_valid(capsule, UNUSED):
        let_go(get_dying_pointer(capsule, UNUSED))


# As C calls them; never collected.
deleter, destructor = Deleter(let_go), Destructor(end_of_capsule)


class Imported:
    """A tensor of somebody else's, given back when this goes.

    Parameters
    ----------
    pointer : int
        Its DLManagedTensor.
    """

    def __init__(self, pointer: int) -> None:
        self.tensor = Tensor.from_address(pointer)
        self.pointer = pointer

    def __del__(self) -> None:
        if self.tensor.deleter:
            Deleter(self.tensor.deleter)(self.pointer)


def dlpack_device(array: Array) -> tuple[int, int]:
    """Return DLPack's type and number of an array's device."""
    return library.current().provider.dlpack_device, array.buffer.device


def to_dlpack(array: Array, stream: int | None, device: tuple[int, int] | None, copy: bool | None) -> Any:
    """Return a capsule with an array's memory; see `Array.__dlpack__`."""
    here = dlpack_device(array)
    if device is not None and tuple(device) != here:
        if tuple(device) != (CPU, 0) or copy is False:
            raise BufferError(f"an array on DLPack device {here} cannot be shared with device {tuple(device)}")
        return array.numpy().__dlpack__()
    if copy:
        array = array_of(array.numpy())
    order(here[0], stream)
    array.settled_extent()
    shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    strides = (ctypes.c_int64 * max(array.ndim, 1))(*array.strides)
    code = BFLOAT if array.dtype == bfloat16 else CODES.get(array.dtype.kind)
    if code is None:
        raise BufferError(f"DLPack has no type for {array.dtype}")
    number = next(numbers)
    tensor = Tensor(
        array.address, *here, array.ndim, code, 8 * array.dtype.itemsize, 1, shape, strides, 0, number,
        ctypes.cast(deleter, ctypes.c_void_p),
    )  # fmt: skip
    exports[number] = (tensor, shape, strides, array)
    return new_capsule(ctypes.addressof(tensor), UNUSED, ctypes.cast(destructor, ctypes.c_void_p))


def order(device_type: int, consumer: int | None) -> None:
    """Put the consumer's later work behind this thread's stream; the host, as a consumer, waits."""
    ours = current_stream()
    if device_type == CPU:
        ours.synchronize()
        return
    if consumer == NO_WAIT:
        return
    handle = 0 if consumer in (None, LEGACY) else int(consumer or 0)
    event = Event(timing=False)
    with ours.outside("DLPack export"):
        event.record(ours)
        event.wait(Stream.from_handle(handle, ours.device))
    event.close()


def wrap(
    address: int,
    shape: int | Iterable[int],
    dtype: DTypeLike = np.float32,
    *,
    owner: Any = None,
    strides: Sequence[int] | None = None,
    stream: Stream | None = None,
) -> Array:
    """Return device memory that somebody else owns as an array.

    Parameters
    ----------
    address : int
        Of element (0, …, 0).
    shape : int or iterable of int
    dtype : dtype
    owner : object, optional
        Kept alive until the array, its views and the steps that recorded it are gone, and what was launched on the
        stream by then has run.
    strides : sequence of int, optional
        In elements; row order by default.
    stream : Stream, optional
        The stream that uses it; this thread's by default.
    """
    stream, kind = stream or current_stream(), dtype_of(dtype)
    sizes = (int(shape),) if isinstance(shape, int) else tuple(int(n) for n in shape)
    steps = row_strides(sizes) if strides is None else tuple(int(n) for n in strides)
    reach = [(n - 1) * step * kind.itemsize for n, step in zip(sizes, steps)] if math.prod(sizes) else []
    low = address + sum(r for r in reach if r < 0)
    high = address + sum(r for r in reach if r > 0) + (kind.itemsize if math.prod(sizes) else 0)
    buffer = adopt(low, high - low, owner, stream)
    return Array(buffer, sizes, kind, address, None if strides is None else steps)


def from_dlpack(source: Any, stream: Stream | None = None) -> Array:
    """Share the memory of another library's array.

    Parameters
    ----------
    source : object
        Has ``__dlpack__`` and ``__dlpack_device__``: an array of numpy, torch, CuPy, JAX.
    stream : Stream, optional
        The stream that uses it; this thread's by default. It is made to wait for the source's work.

    Raises
    ------
    BufferError
        The memory lies where kernels cannot use it, or the elements are of a type that hiprt lacks.
    """
    stream, ours = stream or current_stream(), library.current().provider
    device, index = (int(n) for n in source.__dlpack_device__())
    if device not in ours.dlpack_usable or (device == ours.dlpack_device != CPU and index != stream.device.index):
        raise BufferError(f"memory on DLPack device ({device}, {index}) cannot be used on {stream.device.name}")
    with ExitStack() as outside:
        if device == CPU:
            capsule = source.__dlpack__()
        else:
            # The source records an event on our stream or makes it wait: not while the stream records.
            outside.enter_context(stream.outside("DLPack import"))
            capsule = source.__dlpack__(stream=stream.handle or (LEGACY if device == CUDA else 0))
    if not is_valid(capsule, UNUSED):
        raise BufferError("the source gave a capsule that has been used, or of another version")
    owner = Imported(get_pointer(capsule, UNUSED))
    set_name(capsule, USED)
    tensor = owner.tensor
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    address = (tensor.data or 0) + tensor.byte_offset
    return wrap(address, shape, type_of(tensor), owner=owner, strides=strides, stream=stream)


def type_of(tensor: Tensor) -> np.dtype[Any]:
    """Return a tensor's dtype."""
    kinds = {code: kind for kind, code in CODES.items()}
    width, rest = divmod(tensor.bits, 8)
    try:
        if rest or tensor.lanes != 1:
            raise TypeError
        return bfloat16 if (tensor.code, width) == (BFLOAT, 2) else np.dtype(f"{kinds[tensor.code]}{width}")
    except (KeyError, TypeError):
        text = f"code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes"
        raise BufferError(f"no dtype for DLPack's {text}") from None
