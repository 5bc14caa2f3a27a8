"""Elementwise ops of one array, as a table of expressions."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.kernels.ops.elementwise.expression import Expression, apply
from hiprt.kernels.ops.elementwise.result_dtypes import (
    DType,
    Rule,
    floating,
    magnitude,
    number,
    part,
    real_floating,
    real_number,
    test,
    truth,
)
from hiprt.kernels.ops.promotion import BOOL, is_integer
from hiprt.op import op
from hiprt.stream import Stream

__all__ = [
    "Unary",
    "abs",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctanh",
    "bitwise_invert",
    "ceil",
    "conjugate",
    "cos",
    "cosh",
    "erf",
    "erfinv",
    "exp",
    "expm1",
    "floor",
    "gelu",
    "gelu_approx",
    "gelu_fast_approx",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log1p",
    "log2",
    "log10",
    "logical_not",
    "negative",
    "real",
    "reciprocal",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "softplus",
    "sqrt",
    "square",
    "tan",
    "tanh",
]


def signed(dtype: DType) -> tuple[DType, DType]:
    """Any dtype but bool gives itself."""
    if dtype == BOOL:
        raise TypeError("negative: bool has no negative; use logical_not")
    return dtype, dtype


def integer(dtype: DType) -> tuple[DType, DType]:
    """Integers and bool give themselves."""
    if dtype != BOOL and not is_integer(dtype):
        raise TypeError(f"bitwise_invert: {dtype} is not an integer")
    return dtype, dtype


class Unary:
    """An elementwise op of one array of any strides; called as ``op(a, stream=None, out=None)``.

    16-bit floating dtypes are computed in float32 and rounded once.

    Parameters
    ----------
    name : str
    rule : callable
        A function of the dtype of `a` that returns the dtype to compute in and the result's.
    text : str
        The C++ expression of ``a``.
    meaning : str
        The description of the result, for the op's documentation.
    """

    def __init__(self, name: str, rule: Rule, text: str, meaning: str) -> None:
        self.rule = rule
        self.expression = Expression(name, text)
        self.__name__ = name
        self.__doc__ = f"Return {meaning}, element by element. {rule.__doc__}"

    def __call__(self, a: Array, *, stream: Stream | None = None, out: Array | None = None) -> Array:
        """Launch on `stream`, this thread's by default; `out` receives the result, and may be `a` if contiguous."""
        return apply(self.expression, ("a",), (a,), self.rule, stream, out)


abs = op(Unary("abs", magnitude, "absolute(a)", "the absolute value"))  # noqa: A001
arccos = op(Unary("arccos", floating, "acos(a)", "the angle whose cosine is a"))
arccosh = op(Unary("arccosh", floating, "acosh(a)", "the positive number whose cosh is a"))
arcsin = op(Unary("arcsin", floating, "asin(a)", "the angle whose sine is a"))
arcsinh = op(Unary("arcsinh", floating, "asinh(a)", "the number whose sinh is a"))
arctan = op(Unary("arctan", floating, "atan(a)", "the angle whose tangent is a"))
arctanh = op(Unary("arctanh", floating, "atanh(a)", "the number whose tanh is a"))
bitwise_invert = op(Unary("bitwise_invert", integer, "inverted(a)", "all bits turned over"))
ceil = op(Unary("ceil", real_number, "whole_up(a)", "the smallest integer not below"))
conjugate = op(Unary("conjugate", number, "conjugate_of(a)", "the conjugate complex number"))
cos = op(Unary("cos", floating, "cos(a)", "the cosine"))
cosh = op(Unary("cosh", floating, "cosh(a)", "the hyperbolic cosine"))
erf = op(Unary("erf", real_floating, "erf_of(a)", "the error function"))
erfinv = op(Unary("erfinv", real_floating, "erfinv_of(a)", "the number whose erf is a"))
exp = op(Unary("exp", floating, "exp(a)", "e to the power of a"))
expm1 = op(Unary("expm1", real_floating, "expm1_of(a)", "exp(a) - 1, exact near 0"))
floor = op(Unary("floor", real_number, "whole_down(a)", "the largest integer not above"))
gelu = op(
    Unary("gelu", real_floating, "0.5f * a * (1.0f + erf_of(a * 0.707106781f))", "a * (1 + erf(a / sqrt(2))) / 2")
)
gelu_approx = op(
    Unary(
        "gelu_approx",
        real_floating,
        "0.5f * a * (1.0f + tanh_of(0.797884561f * (a + 0.044715f * a * a * a)))",
        "a * (1 + tanh(sqrt(2 / pi) * (a + 0.044715 * a**3))) / 2",
    )
)
gelu_fast_approx = op(
    Unary("gelu_fast_approx", real_floating, "a / (1.0f + exp(-1.702f * a))", "a * sigmoid(1.702 * a)")
)
imag = op(Unary("imag", part, "imag_of(a)", "the imaginary part"))
isfinite = op(Unary("isfinite", test, "is_finite(a)", "whether a is neither NaN nor infinite"))
isinf = op(Unary("isinf", test, "is_infinite(a)", "whether a is infinite"))
isnan = op(Unary("isnan", test, "is_nan(a)", "whether a is NaN"))
log = op(Unary("log", floating, "log(a)", "the natural logarithm"))
log1p = op(Unary("log1p", floating, "log1p_of(a)", "log(1 + a), exact near 0"))
log2 = op(Unary("log2", floating, "log2(a)", "the logarithm to base 2"))
log10 = op(Unary("log10", floating, "log10(a)", "the logarithm to base 10"))
logical_not = op(Unary("logical_not", truth, "!a", "whether a is zero"))
negative = op(Unary("negative", signed, "-a", "-a"))
real = op(Unary("real", part, "real_of(a)", "the real part"))
reciprocal = op(Unary("reciprocal", floating, "1.0f / a", "1 / a"))
round = op(Unary("round", number, "whole_near(a)", "the nearest integer, the even one of two"))  # noqa: A001
rsqrt = op(Unary("rsqrt", floating, "1.0f / sqrt(a)", "1 / sqrt(a)"))
sigmoid = op(Unary("sigmoid", real_floating, "1.0f / (1.0f + exp(-a))", "1 / (1 + exp(-a))"))
sign = op(Unary("sign", number, "sign_of(a)", "-1, 0 or 1"))
silu = op(Unary("silu", real_floating, "a / (1.0f + exp(-a))", "a * sigmoid(a)"))
sin = op(Unary("sin", floating, "sin(a)", "the sine"))
sinh = op(Unary("sinh", floating, "sinh(a)", "the hyperbolic sine"))
softplus = op(Unary("softplus", real_floating, "logaddexp_of(a, 0.0f)", "log(1 + exp(a))"))
sqrt = op(Unary("sqrt", floating, "sqrt(a)", "the square root"))
square = op(Unary("square", number, "a * a", "a * a"))
tan = op(Unary("tan", floating, "tan(a)", "the tangent"))
tanh = op(Unary("tanh", floating, "tanh_of(a)", "the hyperbolic tangent"))
