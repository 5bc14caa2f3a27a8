"""The methods and operators of arrays: the functions of the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hiprt.metal_compat.mlx import diagonals, elementwise, joins, reductions, shapes
from hiprt.metal_compat.mlx.array import array
from hiprt.metal_compat.mlx.indexing import At, assigned, taken
from hiprt.metal_compat.mlx.products import matmul

__all__: list[str] = []

METHODS = {
    elementwise: (
        "abs", "astype", "conj", "cos", "exp", "log", "log10", "log1p", "log2", "maximum", "minimum", "reciprocal",
        "round", "rsqrt", "sin", "sqrt", "square",
    ),
    reductions: (
        "all", "any", "argmax", "argmin", "cummax", "cummin", "cumprod", "cumsum", "logcumsumexp", "logsumexp", "max",
        "mean", "min", "prod", "std", "sum", "var",
    ),
    shapes: ("flatten", "moveaxis", "reshape", "squeeze", "swapaxes", "transpose", "view"),
    joins: ("split",),
    diagonals: ("diag", "diagonal"),
}  # fmt: skip
BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip
COMPARISONS = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip


def takes(x: Any) -> bool:
    """Whether an operator takes something beside an array."""
    return isinstance(x, (array, bool, int, float, complex)) or hasattr(x, "__array__") or hasattr(x, "__mlx_array__")


def refused(name: str, other: Any) -> ValueError:
    """Return the error for an operator beside what is no number."""
    return ValueError(f"Cannot perform {name} on an mlx.core.array and {type(other).__name__}")


def operator(op: Callable[..., array], is_reflected: bool = False) -> Callable[..., Any]:
    """Return an operator of arrays."""

    def applied(self: array, other: Any) -> Any:
        if not takes(other):
            raise refused(op.__name__, other)
        return op(other, self) if is_reflected else op(self, other)

    return applied


def in_place(op: Callable[..., array]) -> Callable[..., Any]:
    """Return an operator that puts the result in the place of what the array was, in its dtype."""

    def applied(self: array, other: Any) -> Any:
        if not takes(other):
            raise refused(op.__name__, other)
        self.value = op(self, other).value
        return self

    return applied


def divide_in_place(self: array, other: Any) -> Any:
    """Put the quotient in the place of what the array was, which must be floating."""
    if self.value.dtype.kind in "biu":
        raise ValueError("In place division cannot cast to non-floating point type.")
    return in_place(elementwise.binary("divide"))(self, other)


def same(self: array, other: Any) -> Any:
    """Return whether elements are equal; False beside what is no number."""
    return elementwise.binary("equal")(self, other) if takes(other) else False


def differs(self: array, other: Any) -> Any:
    """Return whether elements differ; True beside what is no number."""
    return elementwise.binary("not_equal")(self, other) if takes(other) else True


def attach() -> None:
    """Give `array` its methods and operators."""
    for module, names in METHODS.items():
        for name in names:
            setattr(array, name, getattr(module, name))
    for method, name in BINARY.items():
        op = getattr(elementwise, name)
        setattr(array, f"__{method}__", operator(op))
        setattr(array, f"__r{method}__", operator(op, True))
        setattr(array, f"__i{method}__", in_place(op))
    for method, name in COMPARISONS.items():
        setattr(array, f"__{method}__", operator(getattr(elementwise, name)))
    methods: dict[str, Any] = {
        "__getitem__": taken,
        "__setitem__": assign,
        "at": property(At),
        "__eq__": same,
        "__ne__": differs,
        "__matmul__": operator(matmul),
        "__rmatmul__": operator(matmul, True),
        "__imatmul__": in_place(matmul),
        "__itruediv__": divide_in_place,
        "__neg__": elementwise.unary("negative"),
        "__pos__": array.__copy__,
        "__invert__": inverted,
        "__abs__": elementwise.unary("abs"),
        "T": property(shapes.transpose),
        "mT": property(transposed),
        "real": property(elementwise.real),
        "imag": property(elementwise.imag),
    }
    for name, method_of in methods.items():
        setattr(array, name, method_of)


def assign(self: array, index: Any, x: Any) -> None:
    """Put an array with a part changed in the place of what the array was."""
    self.value = assigned(self, index, x).value


def transposed(self: array) -> array:
    """Return the array with its last two axes changed for each other."""
    return shapes.swapaxes(self, -1, -2)


def inverted(self: array) -> array:
    """Return all bits turned over; of bool, the opposite."""
    return elementwise.bitwise_invert(self)


attach()
