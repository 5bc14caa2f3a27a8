"""Operators: what Python's operators do on arrays, and the methods of numpy's that compute something.

Each is an op of `hiprt.kernels`, a layer above this one, which is therefore imported by name when the first is used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from numpy.typing import DTypeLike

from hiprt import objects

if TYPE_CHECKING:
    from hiprt.array import Array
    from hiprt.stream import Stream

__all__ = ["Operators", "ops"]

Axis = int | Sequence[int] | None


@cache
def ops() -> Any:
    """Return the module that has what operators do; see `hiprt.kernels.operators`."""
    return importlib.import_module("hiprt.kernels.operators")


def forward(op: str) -> Callable[[Any, Any], Array]:
    """Return the method for ``self + other``."""
    return lambda self, other: ops().binary(op, self, other)


def reflected(op: str) -> Callable[[Any, Any], Array]:
    """Return the method for ``other + self``."""
    return lambda self, other: ops().binary(op, other, self)


def in_place(op: str) -> Callable[[Any, Any], Array]:
    """Return the method for ``self += other``."""
    return lambda self, other: ops().in_place(op, self, other)


def unary(op: str) -> Callable[[Any], Array]:
    """Return the method for ``-self``."""
    return lambda self: ops().unary(op, self)


class Operators(objects.Array):
    """The operators and computing methods of `hiprt.Array`.

    The other operand is an array, a number, or a numpy array, which is copied to the device; shapes broadcast and
    dtypes are promoted as in MLX. An operator in place writes into the array's memory, in its dtype. Comparisons give
    arrays of bool, element by element; arrays are hashed by identity, so that they can be members of sets and keys.
    """

    __slots__ = ()
    # Makes numpy leave an operator with one of its arrays on the left to the reflected method here.
    __array_priority__ = 1000

    __add__, __radd__, __iadd__ = forward("add"), reflected("add"), in_place("add")
    __sub__, __rsub__, __isub__ = forward("subtract"), reflected("subtract"), in_place("subtract")
    __mul__, __rmul__, __imul__ = forward("multiply"), reflected("multiply"), in_place("multiply")
    __truediv__, __rtruediv__, __itruediv__ = forward("divide"), reflected("divide"), in_place("divide")
    __floordiv__, __rfloordiv__ = forward("floor_divide"), reflected("floor_divide")
    __ifloordiv__ = in_place("floor_divide")
    __mod__, __rmod__, __imod__ = forward("remainder"), reflected("remainder"), in_place("remainder")
    __pow__, __rpow__, __ipow__ = forward("power"), reflected("power"), in_place("power")
    __matmul__, __rmatmul__ = forward("matmul"), reflected("matmul")
    __and__, __rand__, __iand__ = forward("bitwise_and"), reflected("bitwise_and"), in_place("bitwise_and")
    __or__, __ror__, __ior__ = forward("bitwise_or"), reflected("bitwise_or"), in_place("bitwise_or")
    __xor__, __rxor__, __ixor__ = forward("bitwise_xor"), reflected("bitwise_xor"), in_place("bitwise_xor")
    __lshift__, __rlshift__, __ilshift__ = forward("left_shift"), reflected("left_shift"), in_place("left_shift")
    __rshift__, __rrshift__, __irshift__ = forward("right_shift"), reflected("right_shift"), in_place("right_shift")
    __gt__, __ge__ = forward("greater"), forward("greater_equal")
    __lt__, __le__ = forward("less"), forward("less_equal")
    __eq__ = forward("equal")  # type: ignore[assignment]
    __ne__ = forward("not_equal")  # type: ignore[assignment]
    __hash__ = object.__hash__
    __neg__, __abs__, __invert__ = unary("negative"), unary("abs"), unary("bitwise_invert")

    def __pos__(self) -> Array:
        """Return a copy."""
        return self.copy()

    def __setitem__(self, index: Any, values: Any) -> None:
        """Overwrite the elements of a view with a number, or with an array that broadcasts to its shape.

        The values are converted to the array's dtype. A number and an array on the device are written by a kernel,
        which a step records; values of the host are copied, around which a step is split.
        """
        ops().assign(self[index], values)

    if TYPE_CHECKING:

        def __getitem__(self, index: Any) -> Array:
            """Return a view, which `hiprt.Array` makes."""

    def __iter__(self) -> Iterator[Array]:
        """Yield the views along the first axis."""
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        """Return whether an element equals a value, which waits for the device."""
        found = ops().binary("equal", self, value)
        return found is not NotImplemented and bool(found.any())

    def astype(self, dtype: DTypeLike, *, copy: bool = True, stream: Stream | None = None) -> Array:
        """Return the values in another dtype; without `copy` the array itself where it has that dtype.

        See `hiprt.kernels.astype` for how values are converted.
        """
        made: Array = ops().astype(self, dtype, copy, stream)
        return made

    def copy(self, *, stream: Stream | None = None) -> Array:
        """Return a contiguous array of the same elements, with memory of its own."""
        made: Array = ops().copy(self, stream=stream)
        return made

    def broadcast_to(self, shape: int | Sequence[int]) -> Array:
        """Return a view of another shape, along whose new axes the elements repeat."""
        made: Array = ops().broadcast_to(self, shape)
        return made

    def sum(self, axis: Axis = None, keepdims: bool = False) -> Array:
        """Return the sum over axes, all of them by default; see `hiprt.kernels.sum`."""
        return self.reduced("sum", axis, keepdims)

    def prod(self, axis: Axis = None, keepdims: bool = False) -> Array:
        """Return the product over axes."""
        return self.reduced("prod", axis, keepdims)

    def mean(self, axis: Axis = None, keepdims: bool = False) -> Array:
        """Return the mean over axes."""
        return self.reduced("mean", axis, keepdims)

    def max(self, axis: Axis = None, keepdims: bool = False) -> Array:
        """Return the largest element over axes, or NaN where one is."""
        return self.reduced("max", axis, keepdims)

    def min(self, axis: Axis = None, keepdims: bool = False) -> Array:
        """Return the smallest element over axes, or NaN where one is."""
        return self.reduced("min", axis, keepdims)

    def any(self, axis: Axis = None, keepdims: bool = False) -> Array:
        """Return whether an element is not zero, over axes."""
        return self.reduced("any", axis, keepdims)

    def all(self, axis: Axis = None, keepdims: bool = False) -> Array:
        """Return whether no element is zero, over axes."""
        return self.reduced("all", axis, keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Array:
        """Return the index of the largest element along an axis, or in the flattened array."""
        return self.reduced("argmax", axis, keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Array:
        """Return the index of the smallest element along an axis, or in the flattened array."""
        return self.reduced("argmin", axis, keepdims)

    def reduced(self, op: str, axis: Axis, keepdims: bool) -> Array:
        """Return what an op of `hiprt.kernels` that reduces axes gives."""
        made: Array = ops().reduced(op, self, axis, keepdims)
        return made
