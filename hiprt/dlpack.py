"""DLPack: the exchange of arrays with other libraries, which share memory. Version 1.3, and the capsules before 1.0.

What is given to another library stays alive until that library lets go of it, which it does when it has no work left on
it (``hiprt/native/dlpack.c``). What is taken from one stays alive as long as its `Imported`.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import ml_dtypes
import numpy as np

from hiprt import objects

__all__ = [
    "COPIED",
    "CPU",
    "CUDA",
    "CUDA_HOST",
    "CUDA_MANAGED",
    "LEGACY_STREAM",
    "METAL",
    "READ_ONLY",
    "ROCM",
    "ROCM_HOST",
    "VERSION",
    "Imported",
    "dtype_of",
    "export",
    "type_of",
]

VERSION = (1, 3)
# Types of devices.
CPU: int = 1
CUDA: int = 2
CUDA_HOST: int = 3
METAL: int = 8
ROCM: int = 10
ROCM_HOST: int = 11
CUDA_MANAGED: int = 13
# Flags of a tensor.
READ_ONLY, COPIED = 1, 2
LEGACY_STREAM = 1  # the number of CUDA's null stream, here and in the CUDA array interface
MOST_AXES = 64  # numpy's
# Codes of types of elements: by numpy's kind, and of the types that numpy lacks.
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
NAMES = {
    4: "bfloat16",
    7: "float8_e3m4",
    8: "float8_e4m3",
    9: "float8_e4m3b11fnuz",
    10: "float8_e4m3fn",
    11: "float8_e4m3fnuz",
    12: "float8_e5m2",
    13: "float8_e5m2fnuz",
    14: "float8_e8m0fnu",
}
# Each dtype's code and width in bits, and the other way round.
TYPES: dict[np.dtype[Any], tuple[int, int]] = {
    np.dtype(kind): (CODES[np.dtype(kind).kind], 8 * np.dtype(kind).itemsize)
    for kind in ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
} | {
    np.dtype(getattr(ml_dtypes, name)): (code, 8 * np.dtype(getattr(ml_dtypes, name)).itemsize)
    for code, name in NAMES.items()
}
DTYPES = {code: dtype for dtype, code in TYPES.items()}
# Names of capsules before and after a library has taken the tensor out of them.
LEGACY, VERSIONED = b"dltensor", b"dltensor_versioned"
USED = {LEGACY: b"used_dltensor", VERSIONED: b"used_dltensor_versioned"}


class Tensor(ctypes.Structure):
    """DLTensor."""

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
    ]


class Legacy(ctypes.Structure):
    """DLManagedTensor, which capsules hold that were made for consumers of versions before 1.0."""

    _fields_: ClassVar = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned. Where the major version is another one, nothing behind `deleter` may be read."""

    _fields_: ClassVar = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def capsule_call(name: str, result: Any, *arguments: Any) -> Any:
    """Return one of Python's C functions about capsules."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


set_name = capsule_call("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
is_valid = capsule_call("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
get_pointer = capsule_call("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)


def type_of(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return DLPack's code of a dtype, and the width in bits.

    Raises
    ------
    BufferError
        DLPack has no such elements.
    """
    found = TYPES.get(dtype)
    if found is None:
        raise BufferError(f"DLPack has no type for {dtype}")
    return found


def export(
    address: int,
    device: tuple[int, int],
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype[Any],
    owner: Any,
    *,
    flags: int = 0,
    max_version: tuple[int, int] | None = None,
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
    flags : int
        `READ_ONLY` and `COPIED`, or 0.
    max_version : tuple of 2 int, optional
        The newest version that the consumer takes. Without one, and before 1.0, the capsule is of the old kind.

    Raises
    ------
    BufferError
        DLPack has no such elements, or the memory is read-only, which capsules of the old kind cannot say.
    """
    is_versioned = max_version is not None and max_version[0] >= 1
    if flags & READ_ONLY and not is_versioned:
        raise BufferError("the memory is read-only, which capsules before DLPack 1.0 cannot say: ask for a copy")
    return objects.lend(owner, address, shape, strides, device, type_of(dtype), flags, is_versioned)


class Imported:
    """A tensor taken from another library, which is told when this object goes.

    Parameters
    ----------
    pointer : int
        The address of a ``DLManagedTensor`` or of a ``DLManagedTensorVersioned``, which is the object's from now on.
    is_versioned : bool
        Which of the two it is.

    Attributes
    ----------
    address : int
        The address of element (0, …, 0).
    shape : tuple of int
    strides : tuple of int or None
        In elements; None for row order.
    dtype : numpy.dtype
    device : tuple of 2 int
        DLPack's type and number of the device.
    flags : int
        `READ_ONLY` and `COPIED`, or 0.

    Raises
    ------
    BufferError
        The tensor is of another major version of DLPack, its elements have no dtype, or its fields contradict one
        another.
    """

    def __init__(self, pointer: int, is_versioned: bool) -> None:
        self.pointer = pointer
        held = (Versioned if is_versioned else Legacy).from_address(pointer)
        self.deleter = held.deleter
        if is_versioned and held.major != VERSION[0]:
            raise BufferError(f"the source gave a tensor of DLPack {held.major}.{held.minor}; version 1 is taken")
        self.flags: int = held.flags if is_versioned else 0
        self.take(held.tensor)

    @classmethod
    def from_capsule(cls, capsule: Any) -> Imported:
        """Take the tensor out of what a library's ``__dlpack__`` returned."""
        for name, used in USED.items():
            if is_valid(capsule, name):
                pointer = get_pointer(capsule, name)
                set_name(capsule, used)
                return cls(pointer, name == VERSIONED)
        if any(is_valid(capsule, used) for used in USED.values()):
            raise BufferError("the source gave a capsule that has been used already")
        raise BufferError(f"the source gave no capsule of DLPack but {capsule!r}")

    def take(self, tensor: Tensor) -> None:
        """Read a tensor's fields, after checking that they describe an array."""
        ndim = tensor.ndim
        self.dtype = dtype_of(tensor.code, tensor.bits, tensor.lanes)
        self.device = tensor.device_type, tensor.device
        if not 0 <= ndim <= MOST_AXES or (ndim and not tensor.shape):
            raise BufferError(f"the source gave a tensor of {ndim} axes{'' if tensor.shape else ' without a shape'}")
        self.shape = tuple(tensor.shape[:ndim])
        self.strides = tuple(tensor.strides[:ndim]) if tensor.strides and ndim else None
        self.address = (tensor.data or 0) + tensor.byte_offset
        count, item = math.prod(self.shape), self.dtype.itemsize
        # One that is negative is refused with those that are too large.
        if min(self.shape, default=0) < 0 or count * item >= 1 << 63:
            raise BufferError(f"the source gave a tensor of shape {self.shape}")
        if count and (not tensor.data or self.address % self.dtype.alignment):
            raise BufferError(f"the source gave a tensor at address {self.address:#x}, where no {self.dtype} can be")
        reach = [(n - 1) * step * item for n, step in zip(self.shape, self.strides or ())] if count else []
        first, last = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
        if self.address + first < 0 or self.address + last + item >= 1 << 63:
            raise BufferError(f"the source gave a tensor of shape {self.shape} with strides {self.strides}")

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # At interpreter shutdown modules may be gone, and the process's memory goes anyway.
        if getattr(self, "deleter", None) and not finalizing():
            Deleter(self.deleter)(self.pointer)


def dtype_of(code: int, bits: int, lanes: int) -> np.dtype[Any]:
    """Return the dtype of a tensor's elements.

    Raises
    ------
    BufferError
        There is none.
    """
    found = DTYPES.get((code, bits)) if lanes == 1 else None
    if found is None:
        raise BufferError(f"no dtype for DLPack's code {code}, {bits} bits, {lanes} lanes")
    return found
