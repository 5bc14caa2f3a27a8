"""Launches: a kernel with everything but its arrays; and plans, which ops remember for arrays of certain forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiprt.array import Array
from hiprt.kernels.lang.operands import result
from hiprt.stream import Stream

if TYPE_CHECKING:
    from hiprt.kernels.lang.kernel import Kernel

__all__ = ["LARGEST_GRID_YZ", "Launch", "Plan", "Three"]

LARGEST_GRID_YZ = 65535  # threadgroups along y, and along z, that every runtime takes
Three = tuple[int, int, int]


class Launch:
    """One launch of a kernel, complete but for the arrays and numbers that each call gives.

    Parameters
    ----------
    kernel : Kernel
    grid : tuple of 3 int
        Threadgroups along x, y and z; a zero launches nothing.
    threads : tuple of 3 int
        Threads of a threadgroup.
    template : mapping of str to value, optional
        The values of the kernel's template parameters.
    **scalars
        Those of the kernel's scalars that every call has in common.

    Raises
    ------
    TypeError
        A name is not declared, or a template value is missing.
    """

    __slots__ = ("grid", "kernel", "scalars", "template", "threads")

    def __init__(
        self, kernel: Kernel, grid: Three, threads: Three, template: Mapping[str, Any] | None = None, /, **scalars: Any
    ) -> None:
        unknown = scalars.keys() - set(kernel.names)
        if unknown:
            raise TypeError(f"{kernel.name} has no argument {', '.join(sorted(unknown))}; it has {kernel.names}")
        self.kernel, self.grid, self.threads, self.scalars = kernel, grid, threads, scalars
        self.template = kernel.values_of(template or {})

    def __call__(self, stream: Stream, /, **given: Any) -> None:
        """Launch on a stream.

        Parameters
        ----------
        stream : Stream
        **given
            The arrays, and the scalars that the launch does not have yet, by the names that the kernel declares.

        Raises
        ------
        TypeError
            An argument is missing or not declared.
        """
        kernel, values = self.kernel, {**self.scalars, **given}
        if len(values) != len(kernel.names):
            raise TypeError(f"{kernel.name} takes {kernel.names}, not {tuple(values)}")
        try:
            ordered = [values[name] for name in kernel.names]
        except KeyError as missing:
            raise TypeError(f"{kernel.name}: {missing} is not given; {tuple(values)} are") from None
        kernel(stream, self.grid, self.threads, self.template, *ordered)


class Plan(NamedTuple):
    """What an op does for arrays of certain forms: the result that it makes, and the launch that fills it.

    Attributes
    ----------
    op : str
        The op's name, used in messages.
    shape : tuple of int
        The result's shape.
    dtype : numpy.dtype
        The result's dtype.
    launch : Launch or None
        None where there is nothing to compute.
    """

    op: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    launch: Launch | None

    def run(self, stream: Stream, out: Array | None, /, **operands: Any) -> Array:
        """Launch on a stream, and return the result.

        Parameters
        ----------
        stream : Stream
        out : Array or None
            Receives the result; None makes a new array.
        **operands
            The kernel's inputs by name, and scalars that the launch does not have. The first operand stands in for an
            array that is None: the kernel knows that it was not given, and does not read it.

        Raises
        ------
        ValueError
            `out` does not fit, or overlaps an input that the kernel does not declare it may be.
        """
        launch = self.launch
        first = next(iter(operands.values()))
        given = {name: first if value is None else value for name, value in operands.items()}
        over = launch.kernel.aliasing.get("out", ()) if launch else tuple(given)
        out = result(self.op, out, self.shape, self.dtype, stream, given, over)
        if launch is not None:
            launch(stream, out=out, **given)
        return out
