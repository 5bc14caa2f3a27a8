"""Elementwise ops of two arrays, or of an array and a Python number, as a table of expressions."""

from __future__ import annotations

import numpy as np

from hiprt.array import Array
from hiprt.kernels.ops.elementwise.expression import Expression, Operand, apply, given, joint_of
from hiprt.kernels.ops.elementwise.result_dtypes import (
    DType,
    Rule,
    floating,
    number,
    real_floating,
    real_number,
    test,
    truth,
)
from hiprt.kernels.ops.promotion import BOOL, COMPLEX64, FLOAT32, is_complex, is_float
from hiprt.op import op
from hiprt.stream import Stream

__all__ = [
    "Binary",
    "arctan2",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "complex",
    "divide",
    "equal",
    "floor_divide",
    "greater",
    "greater_equal",
    "left_shift",
    "less",
    "less_equal",
    "logaddexp",
    "logical_and",
    "logical_or",
    "maximum",
    "minimum",
    "multiply",
    "not_equal",
    "power",
    "remainder",
    "right_shift",
    "subtract",
]


NAMES = ("a", "b")


def bits(dtype: DType) -> tuple[DType, DType]:
    """The result has the promoted dtype, which must be an integer or bool."""
    if is_float(dtype) or is_complex(dtype):
        raise TypeError(f"{dtype} has no bits to work on; integers are needed")
    return dtype, dtype


def shift(dtype: DType) -> tuple[DType, DType]:
    """The result has the promoted dtype, which must be an integer; bool becomes uint8."""
    return bits(np.dtype(np.uint8) if dtype == BOOL else dtype)


def joined(dtype: DType) -> tuple[DType, DType]:
    """Both are converted to float32, and the result is complex64."""
    if is_complex(dtype):
        raise TypeError("complex: a part is complex64 itself")
    return FLOAT32, COMPLEX64


class Binary:
    """An elementwise op of two arrays; called as ``op(a, b, stream=None, out=None)``.

    The shapes broadcast, strides are any, the dtypes are promoted as in MLX, and one operand may be a Python number,
    which takes the array's dtype where it can. 16-bit floating dtypes are computed in float32 and rounded once.

    Parameters
    ----------
    name : str
    rule : callable
        A function of the promoted dtype that returns the dtype to compute in and the result's.
    text : str
        The C++ expression of ``a`` and ``b``.
    meaning : str
        The description of the result, for the op's documentation.
    """

    def __init__(self, name: str, rule: Rule, text: str, meaning: str) -> None:
        self.rule = rule
        self.expression = Expression(name, text)
        self.__name__ = name
        self.__doc__ = f"Return {meaning}, element by element. {rule.__doc__}"

    def __call__(self, a: Operand, b: Operand, *, stream: Stream | None = None, out: Array | None = None) -> Array:
        """Launch on `stream`, this thread's by default; `out` may be an operand of its shape and dtype."""
        return apply(self.expression, NAMES, (a, b), self.rule, stream, out)

    def result_of(self, a: Operand, b: Operand) -> tuple[DType, tuple[int, ...]]:
        """Return the dtype and the shape that the result will have.

        Raises
        ------
        TypeError
            No operand is an array, or a dtype is wrong.
        ValueError
            The shapes do not fit.
        """
        _, dtype, shape = joint_of(self.expression.name, NAMES, self.rule, given(a), given(b))
        return dtype, shape


add = op(Binary("add", number, "a + b", "a + b"))
arctan2 = op(Binary("arctan2", real_floating, "atan2(a, b)", "the angle of the point whose x is b and whose y is a"))
bitwise_and = op(Binary("bitwise_and", bits, "a & b", "the bits that both have"))
bitwise_or = op(Binary("bitwise_or", bits, "a | b", "the bits that either has"))
bitwise_xor = op(Binary("bitwise_xor", bits, "a ^ b", "the bits that one has"))
complex = op(Binary("complex", joined, "joined_of(a, b)", "a + b * 1j"))  # noqa: A001
divide = op(Binary("divide", floating, "a / b", "a / b"))
equal = op(Binary("equal", test, "a == b", "whether both are equal"))
floor_divide = op(
    Binary("floor_divide", real_number, "quotient(a, b)", "a / b rounded down; an integer by zero gives 0")
)
greater = op(Binary("greater", test, "a > b", "whether a > b"))
greater_equal = op(Binary("greater_equal", test, "a >= b", "whether a >= b"))
left_shift = op(Binary("left_shift", shift, "a << b", "a * 2**b"))
less = op(Binary("less", test, "a < b", "whether a < b"))
less_equal = op(Binary("less_equal", test, "a <= b", "whether a <= b"))
logaddexp = op(Binary("logaddexp", floating, "logaddexp_of(a, b)", "log(exp(a) + exp(b))"))
logical_and = op(Binary("logical_and", truth, "a && b", "whether both are not zero"))
logical_or = op(Binary("logical_or", truth, "a || b", "whether one is not zero"))
maximum = op(Binary("maximum", number, "larger(a, b)", "the larger, or NaN where one is"))
minimum = op(Binary("minimum", number, "smaller(a, b)", "the smaller, or NaN where one is"))
multiply = op(Binary("multiply", number, "a * b", "a * b"))
not_equal = op(Binary("not_equal", test, "a != b", "whether they differ"))
power = op(Binary("power", number, "power_of(a, b)", "a to the power of b; integers to a negative one give 0"))
remainder = op(
    Binary("remainder", real_number, "modulo(a, b)", "what floor_divide leaves; an integer by zero leaves 0")
)
right_shift = op(Binary("right_shift", shift, "a >> b", "a / 2**b rounded down"))
subtract = op(Binary("subtract", number, "a - b", "a - b"))
