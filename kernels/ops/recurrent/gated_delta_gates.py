"""The gates of the gated delta rule: what is left of a state, and how much of its error is corrected."""

from __future__ import annotations

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.lang.operands import FLOAT32, buffer, floating, result, same
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["gated_delta_gates"]

OP = "gated_delta_gates"
THREADS = 64
KERNEL = Kernel(
    "recurrent/gated_delta_gates",
    inputs={"a": "T", "b": "T", "a_log": "float", "dt_bias": "T"},
    outputs={"g": "float", "beta": "float"},
    scalars={"size": "uint", "heads": "uint"},
    template={"T": "dtype"},
    headers=("elementwise/expression.h", "elementwise/power_of_two.h", "recurrent/gated_delta.h"),
    threads=THREADS,
    instances=each(),
)


@op
def gated_delta_gates(
    a: Array,
    b: Array,
    a_log: Array,
    dt_bias: Array,
    *,
    stream: Stream | None = None,
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Return ``g = exp(-exp(a_log) * softplus(a + dt_bias))`` and ``beta = sigmoid(b)``.

    Parameters
    ----------
    a, b : Array, [..., H]
        float16, bfloat16 or float32, of one shape and dtype.
    a_log : Array, [H]
        float32.
    dt_bias : Array, [H]
        Of the dtype of `a`.
    out : tuple of 2 Array, optional
        They receive the results.

    Returns
    -------
    g, beta : Array, [..., H]
        float32.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous, or a result overlaps another array.
    """
    stream = stream or current_stream()
    launch = launch_of(a, b, a_log, dt_bias)
    given = {"a": a, "b": b, "a_log": a_log, "dt_bias": dt_bias}
    first, second = out or (None, None)
    g = result(OP, first, a.shape, FLOAT32, stream, given)
    beta = result(OP, second, a.shape, FLOAT32, stream, {**given, "g": g})
    launch(stream, g=g, beta=beta, **given)
    return g, beta


@Planned
def launch_of(a: Form, b: Form, a_log: Form, dt_bias: Form) -> Launch:
    """Check the operands and return the launch."""
    floating(OP, "a", a)
    same(OP, "b", b, "a", a)
    same(OP, "dt_bias", dt_bias, "a", a)
    if not a.ndim or b.shape != a.shape:
        raise ValueError(f"{OP}: a has shape {a.shape} and b {b.shape}; they must be the same, of an axis or more")
    heads = a.shape[-1]
    buffer(OP, "a_log", a_log, FLOAT32, (heads,))
    if dt_bias.shape != (heads,):
        raise ValueError(f"{OP}: dt_bias has shape {dt_bias.shape}; {(heads,)} is needed")
    grid = (-(-a.size // THREADS), 1, 1)
    return Launch(KERNEL, grid, (THREADS, 1, 1), {"T": a.dtype}, size=a.size, heads=heads)
