"""Arrays of integers at equal distances."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch, Plan
from hiprt.kernels.lang.operands import INT32, LARGEST
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["arange"]

KERNEL = Kernel(
    "elementwise/arange",
    outputs={"out": "int"},
    scalars={"size": "uint", "start": "int", "step": "int"},
    instances=each(()),
)
THREADS = 256


@op
def arange(
    start: int,
    stop: int | None = None,
    step: int = 1,
    *,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return integers from `start` up to, but without, `stop`.

    Parameters
    ----------
    start : int
        The first integer. A single argument is `stop`, and the start is 0.
    stop : int, optional
    step : int
        The distance between neighbours, which is not 0.

    Returns
    -------
    Array, [n]
        int32.

    Raises
    ------
    ValueError
        The step is 0, or a number is not an int32.
    """
    stream = stream or current_stream()
    return plan_of(start, stop, step).run(stream, out)


@Planned
def plan_of(start: int, stop: int | None, step: int) -> Plan:
    """Check the numbers and return the plan."""
    start, stop = (0, start) if stop is None else (start, stop)
    if not step:
        raise ValueError("[arange] The step must not be 0.")
    if any(not -LARGEST <= n <= LARGEST for n in (start, stop, step)):
        raise ValueError(f"[arange] {start}, {stop} and {step} must be int32.")
    size = len(range(start, stop, step))
    launch = Launch(KERNEL, (-(-size // THREADS), 1, 1), (THREADS, 1, 1), size=size, start=start, step=step)
    return Plan("arange", (size,), INT32, launch)
