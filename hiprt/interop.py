"""Memory that somebody else owns, as arrays: by its address, and by DLPack.

The memory stays alive until the last launch that used it is done.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from hiprt import dlpack, library
from hiprt.array import Array, row_strides
from hiprt.buffer import adopt
from hiprt.dtype import dtype_of
from hiprt.stream import Stream, current_stream

__all__ = ["from_dlpack", "wrap"]

LEGACY = 1  # the number of CUDA's null stream in DLPack


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
        The address of element (0, …, 0).
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
        Has ``__dlpack__`` and ``__dlpack_device__``: an array of numpy, torch, CuPy or JAX.
    stream : Stream, optional
        The stream that uses it; this thread's by default. It is made to wait for the source's work.

    Raises
    ------
    BufferError
        The memory lies where kernels cannot use it, or the elements are of a type that hiprt lacks.
    """
    stream, provider = stream or current_stream(), library.current().provider
    device, index = (int(n) for n in source.__dlpack_device__())
    is_elsewhere = device == provider.dlpack_device != dlpack.CPU and index != stream.device.index
    if device not in provider.dlpack_usable or is_elsewhere:
        raise BufferError(f"memory on DLPack device ({device}, {index}) cannot be used on {stream.device.name}")
    with ExitStack() as outside:
        if device == dlpack.CPU:
            capsule = source.__dlpack__()
        else:
            # The source records an event on our stream or makes it wait: not while the stream records.
            outside.enter_context(stream.outside("DLPack import"))
            capsule = source.__dlpack__(stream=stream.raw or (LEGACY if device == dlpack.CUDA else 0))
    owner = dlpack.Imported(capsule)
    return wrap(owner.address, owner.shape, owner.dtype, owner=owner, strides=owner.strides, stream=stream)
