"""Arrays: device memory with a shape, strides and a dtype."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from hiprt import core, dlpack, library, objects
from hiprt.buffer import allocate
from hiprt.dtype import bfloat16, dtype_of
from hiprt.event import Event
from hiprt.op import op
from hiprt.operators import Operators, ops
from hiprt.stream import Stream, apart, current_stream

# The dtypes of Python's floats and complex numbers on the device.
NARROWER = {np.dtype(np.float64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.complex64)}
__all__ = ["Array", "Form", "array", "bfloat16", "dtype_of", "empty", "full", "zeros"]


@dataclass(frozen=True, eq=False)
class Form:
    """The properties of an array on which the checks and sizes of a launch depend; equal arrays share one object.

    Attributes
    ----------
    shape : tuple of int
    strides : tuple of int or None
        Counted in elements; None for a contiguous array.
    dtype : numpy.dtype
    is_aligned : bool
        Whether the address is a multiple of 16, which loads of 128 bits need.
    size : int
        The number of elements.
    is_readonly : bool
        Whether launches that write to the array are refused.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: np.dtype[Any]
    is_aligned: bool
    size: int
    is_readonly: bool = False

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in row order without gaps."""
        return self.strides is None

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def span(self) -> int:
        """The number of places from the first element in memory to the last, both included."""
        if self.strides is None or not self.size:
            return self.size
        return 1 + sum((n - 1) * abs(step) for n, step in zip(self.shape, self.strides))


class Array(Operators):
    """An n-dimensional array in device memory; slices and reshapes are views of it.

    Attributes
    ----------
    shape : tuple of int
    strides : tuple of int
        Counted in elements: 0 for a broadcast axis, negative for a reversed one.
    dtype : numpy.dtype
        Any numeric numpy dtype, or `bfloat16`.
    buffer : Buffer
        The memory, which all views share.
    address : int
        The device address of element (0, …, 0).
    extent : tuple of 2 int
        The first byte, and one past the last byte, that the array can touch. Edges are derived from it.
    is_contiguous : bool
        Whether the elements lie in row order without gaps.
    size : int
        The number of elements.
    form : Form
        The properties that plans of launches depend on.
    """

    __slots__ = ("__weakref__",)
    __dlpack_c_exchange_api__ = objects.exchange_api

    @staticmethod
    def make_form(
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None,
        dtype: np.dtype[Any],
        is_aligned: bool,
        is_readonly: bool = False,
    ) -> Form:
        """Return a new form. The C core calls this once for all arrays that are equal in this respect."""
        return Form(shape, strides, dtype, is_aligned, math.prod(shape), is_readonly)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d array")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Array(shape={self.shape}, dtype={self.dtype}, device {self.buffer.device})"

    def __getitem__(self, index: Any) -> Array:
        """Return a view; integers, slices, None and ``...`` are understood.

        An array of integers gives a copy of the rows that it names (`hiprt.kernels.take`).
        """
        if isinstance(index, Array):
            taken: Array = ops().rows(self, index)
            return taken
        items = expand_ellipsis(index if isinstance(index, tuple) else (index,), self.ndim)
        mine, steps = self.shape, self.strides
        shape: list[int] = []
        strides: list[int] = []
        offset, axis = 0, 0
        for item in items:
            if item is None:
                shape.append(1)
                strides.append(0)
                continue
            n, step = mine[axis], steps[axis]
            if isinstance(item, slice):
                start, stop, stride = item.indices(n)
                count = len(range(start, stop, stride))
                shape.append(count)
                strides.append(step * stride)
                offset += start * step if count else 0
            else:
                at = operator.index(item)
                if not -n <= at < n:
                    raise IndexError(f"index {at} is out of bounds for axis {axis} with size {n}")
                offset += (at % n) * step
            axis += 1
        whole = (*shape, *mine[axis:]), (*strides, *steps[axis:])
        return Array(self.buffer, whole[0], self.dtype, self.address + offset * self.dtype.itemsize, whole[1])

    def reshape(self, *shape: int | Iterable[int]) -> Array:
        """Return a view of another shape; one axis may be -1.

        Raises
        ------
        ValueError
            The sizes differ, or the array is not contiguous (copy it first).
        """
        wanted = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Iterable) else shape
        new = [int(n) for n in wanted]  # type: ignore[arg-type]
        if new.count(-1) == 1:
            rest = math.prod(n for n in new if n != -1)
            new[new.index(-1)] = self.size // rest if rest else 0
        if math.prod(new) != self.size or -1 in new:
            raise ValueError(f"cannot reshape {self.shape} into {tuple(wanted)}")
        if not self.is_contiguous:
            raise ValueError("reshape needs a contiguous array: call contiguous() first")
        return Array(self.buffer, tuple(new), self.dtype, self.address)

    def view(self, dtype: DTypeLike) -> Array:
        """Return the same bytes as another dtype of the same width."""
        new = dtype_of(dtype)
        if new.itemsize != self.dtype.itemsize:
            raise ValueError(f"view: {self.dtype} and {new} differ in width")
        return Array(self.buffer, self.shape, new, self.address, self.strides)

    def transpose(self, *axes: int) -> Array:
        """Return a view with the axes in another order; reversed by default."""
        order = axes or tuple(reversed(range(self.ndim)))
        if sorted(order) != list(range(self.ndim)):
            raise ValueError(f"transpose: {axes} is not an order of {self.ndim} axes")
        shape = tuple(self.shape[a] for a in order)
        return Array(self.buffer, shape, self.dtype, self.address, tuple(self.strides[a] for a in order))

    @property
    def T(self) -> Array:  # noqa: N802
        """The transposed view."""
        return self.transpose()

    def numpy(self, stream: Stream | None = None, *, after: Event | None = None) -> np.ndarray[Any, np.dtype[Any]]:
        """Copy to the host, once everything that was launched on the stream has run.

        Parameters
        ----------
        stream : Stream, optional
            The stream that copies; this thread's by default. It waits for what other streams write there.
        after : Event, optional
            What it waits for instead: the elements were written before the event, and no work in flight changes them.

        Returns
        -------
        ndarray
            Same shape and dtype, contiguous.
        """
        return np.ascontiguousarray(self.mirror(stream, after=after)).reshape(self.shape)

    def mirror(self, stream: Stream | None = None, *, after: Event | None = None) -> np.ndarray[Any, np.dtype[Any]]:
        """Copy to the host as `numpy` does, with the strides that the array has on the device.

        Parameters
        ----------
        stream : Stream, optional
        after : Event, optional

        Returns
        -------
        ndarray
            Same shape, dtype and strides.
        """
        stream = stream or current_stream()
        if not self.size:
            return np.empty(self.shape, self.dtype)
        with stream.outside("host read of an array", self), nullcontext() if after is None else apart():
            if after is not None:
                after.wait(stream)
            # Where a step's intermediates lie is decided when its recording ends, which `outside` has brought about.
            first, last = self.settled_extent()
            raw = np.empty(last - first, np.uint8)
            target = int(raw.ctypes.data)
            stream.copy(target, first, raw.nbytes, core.lib.hipMemcpyDeviceToHost, of=self.buffer)
            stream.synchronize()
        item = self.dtype.itemsize
        strides = tuple(step * item for step in self.strides)
        return np.ndarray(self.shape, self.dtype, raw.data, offset=self.address - first, strides=strides)

    def settled_extent(self) -> tuple[int, int]:
        """Return the extent of the array, which must lie in memory by now.

        Raises
        ------
        RuntimeError
            The array belongs to a step that another thread is still recording.
        """
        if self.buffer.views is not None:
            raise RuntimeError(
                "the array belongs to a step that another thread is still recording: wait until that call returns"
            )
        return self.extent

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray[Any, np.dtype[Any]]:
        """Copy to the host for numpy, as `numpy` does, which makes ``np.asarray(array)`` work.

        Raises
        ------
        ValueError
            `copy` is False: numpy sees memory of the device by a copy. ``np.from_dlpack`` shares it on the CPU device.
        """
        if copy is False:
            raise ValueError("an array of hiprt is copied to the host; np.from_dlpack shares memory where it can be")
        host = self.numpy()
        return host if dtype is None else host.astype(dtype, copy=False)

    def item(self) -> Any:
        """Return the only element as a Python number.

        Raises
        ------
        ValueError
            There are more, or none.
        """
        if self.size != 1:
            raise ValueError(f"an array of shape {self.shape} is no single number")
        return self.numpy().item()

    def tolist(self) -> Any:
        """Return the elements as Python numbers, in nested lists."""
        return self.numpy().tolist()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def set(self, values: ArrayLike, stream: Stream | None = None) -> None:
        """Overwrite the elements from the host, in stream order.

        Raises
        ------
        ValueError
            The values do not have the array's shape, the array is not contiguous, or its memory is read-only.
        """
        stream = stream or current_stream()
        self.check_writable("set")
        host = np.ascontiguousarray(values, self.dtype)
        if host.size != self.size or not self.is_contiguous:
            raise ValueError(f"set: values of shape {np.shape(values)} for a contiguous array of shape {self.shape}")
        if host.size:
            with stream.outside("host write of an array", self):
                source, (target, _) = int(host.ctypes.data), self.settled_extent()
                stream.copy(target, source, host.nbytes, core.lib.hipMemcpyHostToDevice, to=self.buffer)
                # HIP may read pageable host memory after an asynchronous copy has returned.
                stream.synchronize()

    def copy_from(self, source: Array, stream: Stream | None = None) -> None:
        """Copy from another contiguous array of the same size and dtype, on the device."""
        stream = stream or current_stream()
        self.check_writable("copy_from")
        if source.nbytes != self.nbytes or source.dtype != self.dtype:
            raise ValueError(f"copy_from: {source} into {self}")
        if not (self.is_contiguous and source.is_contiguous):
            raise ValueError("copy_from: both arrays must be contiguous")
        if self.size:
            kind = core.lib.hipMemcpyDeviceToDevice
            stream.copy(self.address, source.address, self.nbytes, kind, to=self.buffer, of=source.buffer)

    def fill_bytes(self, value: int, stream: Stream | None = None) -> None:
        """Set every byte of a contiguous array."""
        stream = stream or current_stream()
        self.check_writable("fill_bytes")
        if not self.is_contiguous:
            raise ValueError("fill_bytes: the array must be contiguous")
        if self.size:
            stream.fill(self.address, value, 1, self.nbytes, to=self.buffer)

    def check_writable(self, op: str) -> None:
        """Refuse to write to memory that belongs to another library, which shared it for reading."""
        if self.buffer.is_readonly:
            raise ValueError(f"{op}: the array's memory is read-only; copy() it")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA array interface, version 3, by which CuPy, Numba and torch take arrays of a GPU.

        ``stream`` is this thread's, which waits for the work of other streams on the array (G13): all that was launched
        on it by now is done when that stream is.

        Raises
        ------
        AttributeError
            The memory is not that of a GPU, or the interface has no such elements.
        """
        if not library.current().provider.has_cuda_interface:
            raise AttributeError("the array is not on a GPU: use np.asarray or np.from_dlpack")
        if self.dtype.isbuiltin != 1:
            raise AttributeError(f"the CUDA array interface has no type for {self.dtype}: use DLPack")
        stream = current_stream()
        with stream.outside("CUDA array interface"):
            stream.wait_for(self.buffer, core.lib.HIPRT_READ_WRITE)
            self.settled_extent()
        item = self.dtype.itemsize
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address if self.size else 0, self.buffer.is_readonly),
            "strides": None if self.is_contiguous else tuple(step * item for step in self.strides),
            "stream": stream.raw or dlpack.LEGACY_STREAM,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's type and number of the device."""
        return library.current().provider.dlpack_device, self.buffer.device

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Share the memory with another library, which gets it as this thread's stream leaves it.

        Parameters
        ----------
        stream : int, optional
            The consumer's stream, which is made to wait; -1 means that it need not wait.
        max_version : tuple of 2 int, optional
            The consumer's version of DLPack.
        dl_device : tuple of 2 int, optional
            Where the consumer wants the memory: on this device, or on the host, which gets a copy.
        copy : bool, optional
            Whether it must be a copy (True) or must not be one (False).

        Returns
        -------
        PyCapsule

        Raises
        ------
        BufferError
            The memory cannot be shared like that.
        """
        here = self.__dlpack_device__()
        if dl_device is not None and tuple(dl_device) != here:
            if tuple(dl_device) != (dlpack.CPU, 0) or copy is False:
                raise BufferError(f"an array on DLPack device {here} cannot be shared with device {tuple(dl_device)}")
            host = self.numpy()
            strides, address = row_strides(host.shape), int(host.ctypes.data)
            return dlpack.export(
                address, (dlpack.CPU, 0), host.shape, strides, host.dtype, host,
                flags=dlpack.COPIED, max_version=max_version,
            )  # fmt: skip
        dlpack.type_of(self.dtype)  # raises before anything is copied
        shared = self.copy() if copy else self
        put_behind_current_stream(shared, here[0], stream)
        shared.settled_extent()
        flags = dlpack.COPIED if copy else dlpack.READ_ONLY if self.buffer.is_readonly else 0
        return dlpack.export(
            shared.address, here, shared.shape, shared.strides, shared.dtype, shared,
            flags=flags, max_version=max_version,
        )  # fmt: skip


def put_behind_current_stream(shared: Array, device_type: int, consumer: int | None) -> None:
    """Make a consumer's later work wait for this thread's stream, and that for all work on an array.

    Parameters
    ----------
    shared : Array
        What the consumer may read and write.
    device_type : int
        DLPack's type of the device; the host, as a consumer, waits here and now.
    consumer : int or None
        The consumer's stream as DLPack passes it: None and 1 are the null stream, -1 asks for no wait.
    """
    ours = current_stream()
    if consumer != -1 or device_type == dlpack.CPU:
        with ours.outside("DLPack export"):
            ours.wait_for(shared.buffer, core.lib.HIPRT_READ_WRITE)
    if device_type == dlpack.CPU:
        ours.synchronize()
    elif consumer != -1:
        event = Event(timing=False)
        with ours.outside("DLPack export"):
            event.record(ours)
            event.wait(Stream.from_handle(0 if consumer in (None, 1) else int(consumer or 0), ours.device))
        event.close()


def row_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a contiguous array, in elements."""
    strides: list[int] = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def expand_ellipsis(items: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    """Replace ``...`` by full slices and check the number of indices."""
    used, at = 0, -1
    for i, item in enumerate(items):
        if item is Ellipsis:
            at = i if at < 0 else at
        elif item is not None:
            used += 1
    if used > ndim:
        raise IndexError(f"too many indices: {used} for {ndim} axes")
    return items if at < 0 else (*items[:at], *[slice(None)] * (ndim - used), *items[at + 1 :])


@op
def empty(shape: int | Iterable[int], dtype: DTypeLike = np.float32, stream: Stream | None = None) -> Array:
    """Return an array with undefined contents.

    Parameters
    ----------
    shape : int or iterable of int
    dtype : dtype
    stream : Stream, optional
        The first stream that may use it; this thread's by default.
    """
    sizes = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(int(n) for n in shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"shape {sizes}: sizes must not be negative")
    return make(sizes, dtype_of(dtype), stream or current_stream())


def make(shape: tuple[int, ...], dtype: np.dtype[Any], stream: Stream) -> Array:
    """Return an array with undefined contents, of a shape and dtype that have been checked."""
    buffer = allocate(math.prod(shape) * dtype.itemsize, stream)
    return Array(buffer, shape, dtype, buffer.address)


@op
def zeros(shape: int | Iterable[int], dtype: DTypeLike = np.float32, stream: Stream | None = None) -> Array:
    """Return an array of zeros."""
    made = empty(shape, dtype, stream)
    made.fill_bytes(0, stream)
    return made


@op
def full(shape: int | Iterable[int], value: Any, dtype: DTypeLike = np.float32, stream: Stream | None = None) -> Array:
    """Return an array with every element set to `value`."""
    made = empty(shape, dtype, stream)
    element = np.asarray(value, made.dtype)
    stream = stream or current_stream()
    if element.ndim or element.dtype.itemsize > 4:
        if stream.written is None:  # else nothing runs on the stream, and the host needs no such array either
            made.set(np.full(made.shape, element), stream)
    elif made.size:
        bits = int.from_bytes(element.tobytes(), "little")
        stream.fill(made.address, bits, element.dtype.itemsize, made.size, to=made.buffer)
    return made


def array(values: ArrayLike | Array, dtype: DTypeLike | None = None, stream: Stream | None = None) -> Array:
    """Copy values to the device.

    Parameters
    ----------
    values : array_like or Array
        Anything numpy accepts, or an array on the device, which is copied there.
    dtype : dtype, optional
        That of the values by default. Python floats become float32, which is what kernels have; integers become int64.
    stream : Stream, optional
        The stream that copies; this thread's by default.

    Raises
    ------
    TypeError
        The values are no numbers.
    """
    if isinstance(values, Array):
        copied: Array = ops().astype(values, values.dtype if dtype is None else dtype, True, stream)
        return copied
    host = np.asarray(values, None if dtype is None else dtype_of(dtype))
    if dtype is None and not hasattr(values, "dtype"):
        host = host.astype(NARROWER.get(host.dtype, host.dtype), copy=False)
    made = make(host.shape, dtype_of(host.dtype), stream or current_stream())
    made.set(host, stream)
    return made
