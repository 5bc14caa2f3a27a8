"""Values: the arrays of a traced function, which have no contents yet."""

from __future__ import annotations

import sys
from functools import reduce
from operator import mul
from typing import Any, NoReturn

from hiprt import objects
from hiprt.array import Array
from hiprt.graphs.trace.core import Trace
from hiprt.graphs.trace.integer import current_recording
from hiprt.graphs.trace.size import Size
from hiprt.op import Op

__all__ = ["ShapelessValue", "Value", "VaryingValue"]

# Where a read of contents is made on behalf of the line that is to be named.
OURS = ("hiprt.array", "hiprt.operators", "hiprt.graphs.", "hiprt.kernels.", "hiprt.metal_compat.")


def copied_from(array: Array, source: Array, *, stream: Any = None) -> Array:
    """Copy from another array, as `Array.copy_from` does, and return the array."""
    Array.copy_from(array, source, stream)
    return array


def filled(array: Array, value: int, *, stream: Any = None) -> Array:
    """Set every byte, as `Array.fill_bytes` does, and return the array."""
    Array.fill_bytes(array, value, stream)
    return array


def reshaped(array: Array, shape: Any) -> Array:
    """Return a view of another shape."""
    return Array.reshape(array, shape)


def transposed(array: Array, axes: Any) -> Array:
    """Return a view with the axes in another order."""
    return Array.transpose(array, *axes)


GETITEM = Op(Array.__getitem__, "getitem")
RESHAPE = Op(reshaped, "reshape")
TRANSPOSE = Op(transposed, "transpose")
VIEW = Op(Array.view, "view")
COPY_FROM = Op(copied_from, "copy_from")
FILL_BYTES = Op(filled, "fill_bytes")


class Value(Array):
    """An array of a traced function: a shape, strides and a dtype, and the primitive that makes it; no contents.

    Attributes
    ----------
    primitive : Primitive
        The call that makes it; its op is None for a value that stands for an argument.
    number : int
        The number of the value, which no other has: its primitive's number, and which of the results it is.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Value(shape={self.shape}, dtype={self.dtype}, %{self.number})"

    def __getitem__(self, index: Any) -> Array:
        """Add a primitive that returns the view."""
        found: Array = GETITEM(self, index)
        return found

    def reshape(self, *shape: Any) -> Array:
        """Add a primitive that returns a view of another shape."""
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        found: Array = RESHAPE(self, tuple(wanted))
        return found

    def transpose(self, *axes: int) -> Array:
        """Add a primitive that returns a view with the axes in another order."""
        found: Array = TRANSPOSE(self, axes)
        return found

    def view(self, dtype: Any) -> Array:
        """Add a primitive that returns the same bytes as another dtype."""
        found: Array = VIEW(self, dtype)
        return found

    def copy_from(self, source: Array, stream: Any = None) -> None:
        """Add a primitive that copies from another array."""
        COPY_FROM(self, source, stream=stream)

    def fill_bytes(self, value: int, stream: Any = None) -> None:
        """Add a primitive that sets every byte."""
        FILL_BYTES(self, value, stream=stream)

    def refuse(self, what: str) -> NoReturn:
        """Raise the error of a read of contents that do not exist, with the line of the program."""
        frame = sys._getframe(2)
        while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(OURS):
            frame = frame.f_back
        line = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
        if Trace.current() is None:
            raise ValueError(
                f"[eval] {line}: {what} needs the contents of a value that a traced function has left behind, which "
                "has none. Return it, or name the dictionary or list that it is in: compile(function, outputs=...)."
            )
        raise ValueError(
            "[eval] Attempting to eval an array during function transformations like compile or vmap is not allowed. "
            f"{line}: {what} needs the contents of an array, which do not exist while the function is traced. Return "
            "the array and read it outside, or keep the decision on the device (where, take, slice)."
        )

    @property
    def address(self) -> int:
        """Not there: a value has no memory."""
        return self.refuse("address")

    def numpy(self, stream: Any = None, *, after: Any = None) -> Any:
        """Refuse; see `refuse`."""
        self.refuse("numpy()")

    def item(self) -> Any:
        """Refuse; see `refuse`."""
        self.refuse("item()")

    def set(self, values: Any, stream: Any = None) -> None:
        """Refuse; see `refuse`."""
        self.refuse("set(), a write by the host,")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        self.refuse("conversion to numpy")

    def __bool__(self) -> bool:
        return self.refuse("bool()")

    def __float__(self) -> float:
        return self.refuse("float()")

    def __int__(self) -> int:
        return self.refuse("int()")

    def __index__(self) -> int:
        return self.refuse("use as an index")

    def __dlpack__(self, **_: Any) -> Any:
        self.refuse("DLPack export")


class ShapelessValue(Value):
    """A value in a trace whose program is given arrays of other shapes: its sizes know which axis they are."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes, which stand for the value's axes."""
        number = self.number
        return tuple(Size.axis(number, axis, n) for axis, n in enumerate(self.form.shape))

    @property
    def size(self) -> Any:
        """The product of the sizes."""
        sizes = self.shape
        return reduce(mul, sizes) if sizes else 1

    @property
    def nbytes(self) -> Any:
        """The size in bytes."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return int(self.shape[0])


class VaryingValue(Value):
    """A value with integers among its sizes, while its thread records what depends on them (`Recording`).

    Whoever asks for more than the shape and the dtype ties the recording to the sizes as they are.
    """

    __slots__ = ()

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes."""
        recording = current_recording()
        plain: tuple[int, ...] = objects.Array.shape.__get__(self)
        return plain if recording is None else recording.shapes.get(self.number, plain)

    def pin(self) -> None:
        """Tie the recording to the sizes as they are."""
        recording = current_recording()
        if recording is not None and recording.is_general and self.number in recording.caches:
            return
        for n in self.shape:
            int(n)
        maker = self.primitive
        if maker is not None and maker.prefix and type(maker.arguments[0]) is VaryingValue:
            maker.arguments[0].pin()  # its strides depend on what it is a view of


def pinned(name: str) -> property:
    """Return an attribute that ties the recording to the sizes as they are."""

    def found(self: VaryingValue) -> Any:
        self.pin()
        return getattr(objects.Array, name).__get__(self)

    return property(found)


for name in ("form", "is_contiguous", "nbytes", "size", "strides"):
    setattr(VaryingValue, name, pinned(name))
