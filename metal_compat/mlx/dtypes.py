"""Dtypes of ``mlx.core``: their names, categories, limits and promotion."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from hiprt.dtype import bfloat16 as BFLOAT16, dtype_of  # noqa: N812

__all__ = [
    "Dtype",
    "DtypeCategory",
    "bfloat16",
    "bool_",
    "can_cast",
    "complex64",
    "complexfloating",
    "finfo",
    "float16",
    "float32",
    "float64",
    "floating",
    "generic",
    "given",
    "iinfo",
    "inexact",
    "int8",
    "int16",
    "int32",
    "int64",
    "integer",
    "isdtype",
    "issubdtype",
    "number",
    "of",
    "result_type",
    "signedinteger",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unsignedinteger",
]


class DtypeCategory:
    """A group of dtypes, for `issubdtype`; each lies in another one."""

    def __init__(self, name: str, within: DtypeCategory | None = None) -> None:
        self.name, self.within = name, within

    def __repr__(self) -> str:
        return f"mlx.core.{self.name}"

    def lies_in(self, other: DtypeCategory) -> bool:
        """Whether the group is another one, or a part of it."""
        return self is other or (self.within is not None and self.within.lies_in(other))


generic = DtypeCategory("generic")
number = DtypeCategory("number", generic)
integer = DtypeCategory("integer", number)
signedinteger = DtypeCategory("signedinteger", integer)
unsignedinteger = DtypeCategory("unsignedinteger", integer)
inexact = DtypeCategory("inexact", number)
floating = DtypeCategory("floating", inexact)
complexfloating = DtypeCategory("complexfloating", inexact)


class Dtype:
    """A dtype of ``mlx.core``; each exists once.

    Attributes
    ----------
    name : str
    numpy : numpy.dtype
    size : int
        The bytes of an element.
    category : DtypeCategory
    """

    __slots__ = ("category", "name", "numpy", "size")

    def __init__(self, name: str, dtype: Any, category: DtypeCategory) -> None:
        self.name, self.category = name, category
        self.numpy: np.dtype[Any] = np.dtype(dtype)
        self.size = self.numpy.itemsize

    def __repr__(self) -> str:
        return f"mlx.core.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return named, (self.name,)


bool_ = Dtype("bool", np.bool_, generic)
uint8 = Dtype("uint8", np.uint8, unsignedinteger)
uint16 = Dtype("uint16", np.uint16, unsignedinteger)
uint32 = Dtype("uint32", np.uint32, unsignedinteger)
uint64 = Dtype("uint64", np.uint64, unsignedinteger)
int8 = Dtype("int8", np.int8, signedinteger)
int16 = Dtype("int16", np.int16, signedinteger)
int32 = Dtype("int32", np.int32, signedinteger)
int64 = Dtype("int64", np.int64, signedinteger)
float16 = Dtype("float16", np.float16, floating)
bfloat16 = Dtype("bfloat16", BFLOAT16, floating)
float32 = Dtype("float32", np.float32, floating)
float64 = Dtype("float64", np.float64, floating)
complex64 = Dtype("complex64", np.complex64, complexfloating)

ALL = (
    bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64, float16, bfloat16, float32, float64, complex64,
)  # fmt: skip
BY_NUMPY = {each.numpy: each for each in ALL}
BY_NAME = {each.name: each for each in ALL}
# MLX takes Python's own types where it takes a dtype.
BY_TYPE = {bool: bool_, int: int32, float: float32, complex: complex64}


def named(name: str) -> Dtype:
    """Return the dtype of a name."""
    return BY_NAME[name]


def of(dtype: np.dtype[Any]) -> Dtype:
    """Return the dtype that numpy's stands for.

    Raises
    ------
    TypeError
        ``mlx.core`` has none.
    """
    found = BY_NUMPY.get(dtype)
    if found is None:
        raise TypeError(f"{dtype}: mlx.core has no such dtype")
    return found


def given(dtype: Any) -> np.dtype[Any]:
    """Return numpy's dtype for one of ``mlx.core``, a Python type, or a dtype of numpy."""
    if isinstance(dtype, Dtype):
        return dtype.numpy
    found = BY_TYPE.get(dtype)
    return dtype_of(dtype) if found is None else found.numpy


def issubdtype(dtype: Dtype | DtypeCategory, within: Dtype | DtypeCategory) -> bool:
    """Whether a dtype or category lies in another one."""
    if isinstance(within, Dtype):
        return dtype is within
    return (dtype.category if isinstance(dtype, Dtype) else dtype).lies_in(within)


KINDS: dict[str, tuple[DtypeCategory, ...]] = {
    "signed integer": (signedinteger,),
    "unsigned integer": (unsignedinteger,),
    "integral": (integer,),
    "real floating": (floating,),
    "complex floating": (complexfloating,),
    "numeric": (number,),
}


def isdtype(dtype: Dtype, kind: Any) -> bool:
    """Whether a dtype is another one, of a kind of the array API's (``"integral"``), or of one of several."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    if isinstance(kind, Dtype):
        return dtype is kind
    if kind == "bool":
        return dtype is bool_
    if kind not in KINDS:
        raise ValueError(f"[isdtype] {kind!r} is not a kind of dtypes.")
    return any(issubdtype(dtype, each) for each in KINDS[kind])


def can_cast(from_: Any, to: Dtype) -> bool:
    """Whether a dtype, or an array's, promoted together with another one, gives that one."""
    return result_type(getattr(from_, "dtype", from_), to) is to


class finfo:  # noqa: N801
    """The limits of a floating dtype.

    Attributes
    ----------
    min, max, eps : float
    bits : int
    dtype : Dtype
    """

    def __init__(self, dtype: Dtype) -> None:
        if not issubdtype(dtype, inexact):
            raise ValueError(f"[finfo] {dtype} is not a floating point type.")
        kind = np.dtype(np.float32) if dtype is complex64 else dtype.numpy
        limits: Any = ml_dtypes.finfo(kind)
        # The limits of a complex number are those of its parts.
        self.dtype, self.bits = of(kind), kind.itemsize * 8
        self.min, self.max, self.eps = float(limits.min), float(limits.max), float(limits.eps)
        self.smallest_normal = float(limits.smallest_normal)

    def __repr__(self) -> str:
        return f"finfo(min={self.min}, max={self.max}, dtype={self.dtype.name})"


class iinfo:  # noqa: N801
    """The limits of an integer dtype.

    Attributes
    ----------
    min, max : int
    bits : int
    dtype : Dtype
    """

    def __init__(self, dtype: Dtype) -> None:
        if not issubdtype(dtype, integer):
            raise ValueError(f"[iinfo] {dtype} is not an integer type.")
        limits = np.iinfo(dtype.numpy)
        self.dtype, self.bits, self.min, self.max = dtype, dtype.size * 8, int(limits.min), int(limits.max)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype.name})"


def result_type(*arrays: Any) -> Dtype:
    """Return the dtype that arrays, dtypes and Python numbers are promoted to together."""
    from hiprt.kernels.ops.promotion import promote, weak

    dtypes = [getattr(each, "dtype", each) for each in arrays if not isinstance(each, (bool, int, float, complex))]
    numbers = [each for each in arrays if isinstance(each, (bool, int, float))]
    dtypes += [complex64 for each in arrays if isinstance(each, complex)]
    if float64 in dtypes:
        return complex64 if complex64 in dtypes else float64
    if not dtypes and not numbers:
        raise ValueError("[result_type] At least one array or dtype is needed.")
    if not dtypes:
        order = (bool_, int32, float32)
        return order[max((bool, int, float).index(type(each)) for each in numbers)]
    found = promote(*(each.numpy for each in dtypes))
    for each in numbers:
        found = weak(each, found)
    return of(found)
