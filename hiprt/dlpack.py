"""DLPack's structures and capsules, by which libraries share the memory of arrays.

What is taken from another library stays alive as long as its `Imported`. What is given to one stays alive until that
library lets go of it, which it does when it has no work left on it.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from hiprt.dtype import bfloat16

__all__ = ["CPU", "CUDA", "CUDA_HOST", "CUDA_MANAGED", "METAL", "ROCM", "ROCM_HOST", "Imported", "export"]

# Types of devices.
CPU, CUDA, CUDA_HOST, METAL, ROCM, ROCM_HOST, CUDA_MANAGED = 1, 2, 3, 8, 10, 11, 13
# Types of elements, by numpy's kind.
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
KINDS = {code: kind for kind, code in CODES.items()}
BFLOAT = 4
# Names of a capsule before and after a library has taken the tensor out of it.
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
    """Return one of Python's C functions about capsules."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


new_capsule = capsule_call("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
set_name = capsule_call("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
is_valid = capsule_call("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
get_pointer = capsule_call("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
# The same for a capsule that is being destroyed, to which no reference may be taken.
is_dying_valid = capsule_call("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
get_dying_pointer = capsule_call("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)

# What consumers hold, by the number in their tensor's `context`: the tensor, its shape and strides, and the owner.
exports: dict[int, tuple[Any, ...]] = {}
numbers = itertools.count(1)


def let_go(pointer: int) -> None:
    """Forget an export: the consumer is done with it."""
    exports.pop(Tensor.from_address(pointer).context, None)


def end_of_capsule(capsule: int) -> None:
    """Forget an export that nobody took out of its capsule."""
    if is_dying_valid(capsule, UNUSED):
        let_go(get_dying_pointer(capsule, UNUSED))


# C calls these two, so they are never collected.
deleter, destructor = Deleter(let_go), Destructor(end_of_capsule)


def export(
    address: int,
    device: tuple[int, int],
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype[Any],
    owner: Any,
) -> Any:
    """Return a capsule with memory that another library may use.

    Parameters
    ----------
    address : int
        The address of element (0, …, 0).
    device : tuple of 2 int
        DLPack's type and number of the device.
    shape, strides : tuple of int
        Strides are in elements.
    dtype : numpy.dtype
    owner : object
        Kept alive until the consumer lets go of the memory.

    Raises
    ------
    BufferError
        DLPack has no such elements.
    """
    code = BFLOAT if dtype == bfloat16 else CODES.get(dtype.kind)
    if code is None:
        raise BufferError(f"DLPack has no type for {dtype}")
    ndim, number = len(shape), next(numbers)
    sizes = (ctypes.c_int64 * max(ndim, 1))(*shape)
    steps = (ctypes.c_int64 * max(ndim, 1))(*strides)
    tensor = Tensor(
        address, *device, ndim, code, 8 * dtype.itemsize, 1, sizes, steps, 0, number,
        ctypes.cast(deleter, ctypes.c_void_p),
    )  # fmt: skip
    exports[number] = (tensor, sizes, steps, owner)
    return new_capsule(ctypes.addressof(tensor), UNUSED, ctypes.cast(destructor, ctypes.c_void_p))


class Imported:
    """A tensor taken out of another library's capsule; the library is told when this object goes.

    Parameters
    ----------
    capsule : object
        What the library's ``__dlpack__`` returned.

    Attributes
    ----------
    address : int
        The address of element (0, …, 0).
    shape : tuple of int
    strides : tuple of int or None
        In elements; None for row order.

    Raises
    ------
    BufferError
        The capsule has been used, or is of another version of DLPack.
    """

    def __init__(self, capsule: Any) -> None:
        if not is_valid(capsule, UNUSED):
            raise BufferError("the source gave a capsule that has been used, or of another version")
        self.pointer = get_pointer(capsule, UNUSED)
        self.tensor = Tensor.from_address(self.pointer)
        set_name(capsule, USED)
        ndim = self.tensor.ndim
        self.address = (self.tensor.data or 0) + self.tensor.byte_offset
        self.shape = tuple(self.tensor.shape[:ndim])
        self.strides = tuple(self.tensor.strides[:ndim]) if self.tensor.strides else None

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # At interpreter shutdown modules may be gone, and the process's memory goes anyway.
        if hasattr(self, "tensor") and self.tensor.deleter and not finalizing():
            Deleter(self.tensor.deleter)(self.pointer)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements.

        Raises
        ------
        BufferError
            numpy has none.
        """
        return dtype_of_tensor(self.tensor)


def dtype_of_tensor(tensor: Tensor) -> np.dtype[Any]:
    """Return the dtype of a tensor's elements."""
    width, rest = divmod(tensor.bits, 8)
    try:
        if rest or tensor.lanes != 1:
            raise TypeError
        return bfloat16 if (tensor.code, width) == (BFLOAT, 2) else np.dtype(f"{KINDS[tensor.code]}{width}")
    except (KeyError, TypeError):
        text = f"code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes"
        raise BufferError(f"no dtype for DLPack's {text}") from None
