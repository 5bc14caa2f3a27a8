"""Memory that somebody else owns, as arrays: by its address, by DLPack, by the CUDA array interface.

The memory stays alive until the last launch that used it is done. The functions below `asarray` are what DLPack's table
for extension modules calls (``hiprt/native/dlpack.c``).
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from hiprt import core, dlpack, library
from hiprt.array import Array, array, empty, row_strides
from hiprt.buffer import adopt
from hiprt.dtype import dtype_of
from hiprt.event import Event
from hiprt.stream import Stream, current_stream

__all__ = ["asarray", "from_dlpack", "wrap"]


def wrap(
    address: int,
    shape: int | Iterable[int],
    dtype: DTypeLike = np.float32,
    *,
    owner: Any = None,
    strides: Sequence[int] | None = None,
    readonly: bool = False,
    stream: Stream | None = None,
) -> Array:
    """Return device memory that somebody else owns as an array.

    Parameters
    ----------
    address : int
        The address of element (0, …, 0).
    shape : int or iterable of int
    dtype : dtype
    owner : object, optional
        Kept alive until the array, its views and the steps that recorded it are gone, and what was launched on the
        stream by then has run.
    strides : sequence of int, optional
        In elements; row order by default.
    readonly : bool
        Whether launches and copies that write to the memory are refused.
    stream : Stream, optional
        The stream that uses it; this thread's by default.

    Raises
    ------
    ValueError
        The elements do not lie within an address space.
    """
    stream, kind = stream or current_stream(), dtype_of(dtype)
    sizes = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(int(n) for n in shape)
    steps = row_strides(sizes) if strides is None else tuple(int(n) for n in strides)
    if min(sizes, default=0) < 0 or len(steps) != len(sizes):
        raise ValueError(f"shape {sizes} with strides {steps}")
    reach = [(n - 1) * step * kind.itemsize for n, step in zip(sizes, steps)] if math.prod(sizes) else []
    low = address + sum(r for r in reach if r < 0)
    high = address + sum(r for r in reach if r > 0) + (kind.itemsize if math.prod(sizes) else 0)
    if not 0 <= low <= high < 1 << 63:
        raise ValueError(f"an array of shape {sizes} and strides {steps} at {address:#x} leaves the address space")
    buffer = adopt(low, high - low, owner, stream)
    buffer.is_readonly = readonly
    return Array(buffer, sizes, kind, address, None if strides is None else steps)


def from_dlpack(source: Any, stream: Stream | None = None, *, copy: bool | None = None) -> Array:
    """Share the memory of another library's array.

    Parameters
    ----------
    source : object
        Has ``__dlpack__`` and ``__dlpack_device__``: an array of numpy, torch, CuPy or JAX.
    stream : Stream, optional
        The stream that uses it; this thread's by default. It is made to wait for the source's work.
    copy : bool, optional
        True copies the elements, also from a device whose memory kernels cannot use, which is the host's. Otherwise
        memory is shared or refused.

    Raises
    ------
    BufferError
        The memory lies where kernels cannot use it, or the elements are of a type that hiprt lacks.
    """
    stream, provider = stream or current_stream(), library.current().provider
    device, index = (int(n) for n in source.__dlpack_device__())
    if copy and device == dlpack.CPU != provider.dlpack_device:
        return array(host_view(dlpack.Imported.from_capsule(capsule_of(source))), stream=stream)
    is_elsewhere = device == provider.dlpack_device != dlpack.CPU and index != stream.device.index
    if device not in provider.dlpack_usable or is_elsewhere:
        raise BufferError(f"memory on DLPack device ({device}, {index}) cannot be used on {stream.device.name}")
    with ExitStack() as outside:
        if device == dlpack.CPU:
            capsule = capsule_of(source)
        else:
            # The source records an event on our stream or makes it wait: not while the stream records.
            outside.enter_context(stream.outside("DLPack import"))
            legacy = dlpack.LEGACY_STREAM if device == dlpack.CUDA else 0
            capsule = capsule_of(source, stream=stream.raw or legacy)
    imported = dlpack.Imported.from_capsule(capsule)
    if imported.device[0] != device:
        raise BufferError(f"the source is on DLPack device {device}, and its capsule on {imported.device[0]}")
    shared = shared_of(imported, stream)
    return shared.copy(stream=stream) if copy else shared


def capsule_of(source: Any, **wanted: Any) -> Any:
    """Ask a source for its capsule. Sources older than DLPack 1.0 do not know of versions."""
    try:
        return source.__dlpack__(max_version=dlpack.VERSION, **wanted)
    except TypeError:
        return source.__dlpack__(**wanted)


def shared_of(imported: dlpack.Imported, stream: Stream) -> Array:
    """Return a tensor of another library as an array, which keeps it."""
    return wrap(
        imported.address,
        imported.shape,
        imported.dtype,
        owner=imported,
        strides=imported.strides,
        readonly=bool(imported.flags & dlpack.READ_ONLY),
        stream=stream,
    )


def host_view(imported: dlpack.Imported) -> np.ndarray[Any, np.dtype[Any]]:
    """Return a tensor in the host's memory as an array of numpy, which keeps it."""
    item = imported.dtype.itemsize
    steps = row_strides(imported.shape) if imported.strides is None else imported.strides
    reach = [(n - 1) * step * item for n, step in zip(imported.shape, steps)] if math.prod(imported.shape) else []
    low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0) + (item if reach or not steps else 0)
    memory = (ctypes.c_char * (high - low)).from_address(imported.address + low if high > low else 0)
    memory.owner = imported
    strides = tuple(step * item for step in steps)
    return np.ndarray(imported.shape, imported.dtype, memory, offset=-low, strides=strides)


def asarray(values: ArrayLike | Any, dtype: DTypeLike | None = None, stream: Stream | None = None) -> Array:
    """Return an array of any library as an array of ours, without a copy if its memory is the device's.

    Parameters
    ----------
    values : Array, array of another library, or array_like
        An array of ours is returned as it is. Memory of the device is shared: by ``__cuda_array_interface__``, or by
        DLPack. Everything else is copied, as by `hiprt.array`.
    dtype : dtype, optional
        The dtype; arrays of another one are converted.
    stream : Stream, optional
        The stream that uses it; this thread's by default.

    Raises
    ------
    TypeError
        The values are no numbers.
    BufferError
        The memory is on another device.
    """
    stream, provider = stream or current_stream(), library.current().provider
    shared: Array | None = values if isinstance(values, Array) else None
    if shared is None and provider.has_cuda_interface and hasattr(values, "__cuda_array_interface__"):
        shared = from_cuda_interface(values, values.__cuda_array_interface__, stream)
    elif shared is None and hasattr(values, "__dlpack_device__") and int(values.__dlpack_device__()[0]) != dlpack.CPU:
        shared = from_dlpack(values, stream)
    if shared is None:
        return array(values, dtype, stream)
    return shared if dtype is None else shared.astype(dtype, copy=False, stream=stream)


def from_cuda_interface(owner: Any, interface: Mapping[str, Any], stream: Stream) -> Array:
    """Return what a ``__cuda_array_interface__`` describes, up to version 3, after making a stream wait for its own.

    Raises
    ------
    BufferError
        It has a mask, or elements that no dtype describes.
    """
    kind = np.dtype(interface["typestr"])
    if interface.get("mask") is not None or kind.kind not in "biufc" or not kind.isnative:
        raise BufferError(f"arrays of {interface['typestr']} are not taken by the CUDA array interface, nor are masks")
    address, readonly = interface["data"]
    steps = interface.get("strides")
    if steps is not None:
        if any(step % kind.itemsize for step in steps):
            raise BufferError(f"strides of {steps} bytes are not whole elements of {kind}")
        steps = tuple(step // kind.itemsize for step in steps)
    theirs = interface.get("stream")
    if theirs is not None:
        event = Event(timing=False)
        with stream.outside("CUDA array interface"):
            event.record(Stream.from_handle(0 if theirs == dlpack.LEGACY_STREAM else int(theirs), stream.device))
            event.wait(stream)
        event.close()
    shape = interface["shape"]
    return wrap(address or 0, shape, kind, owner=owner, strides=steps, readonly=bool(readonly), stream=stream)


def make_ready(shared: Array) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return DLPack's device and dtype of an array that an extension module is about to use on this thread's stream.

    The stream waits for the work of others on the array (G13). Where the device is the host, that is waited for here,
    since its consumers know no streams.
    """
    stream, device = current_stream(), shared.__dlpack_device__()
    with stream.outside("DLPack exchange"):
        stream.wait_for(shared.buffer, core.lib.HIPRT_READ_WRITE)
        if device[0] == dlpack.CPU:
            stream.synchronize()
        shared.settled_extent()
    return device, dlpack.type_of(shared.dtype)


def take_tensor(pointer: int) -> Array:
    """Return the ``DLManagedTensorVersioned`` at an address as an array, whose it is from now on."""
    imported, stream = dlpack.Imported(pointer, True), current_stream()
    if imported.device[0] not in library.current().provider.dlpack_usable:
        raise BufferError(f"memory on DLPack device {imported.device} cannot be used on {stream.device.name}")
    return shared_of(imported, stream)


def allocate_tensor(shape: tuple[int, ...], device: tuple[int, int], kind: tuple[int, int, int]) -> Array:
    """Return a new array for an extension module that describes it in DLPack's words."""
    ours = library.current().provider.dlpack_device, current_stream().device.index
    if device != ours:
        raise BufferError(f"memory is allocated on DLPack device {ours}, this thread's, and not on {device}")
    return empty(shape, dlpack.dtype_of(*kind))


def work_stream(device: tuple[int, int]) -> int:
    """Return the handle of the stream on which this thread works on a device of DLPack's."""
    stream = current_stream()
    ours = library.current().provider.dlpack_device, stream.device.index
    if device != ours:
        raise BufferError(f"this thread works on DLPack device {ours}, not on {device}")
    return 0 if ours[0] == dlpack.CPU else stream.handle
