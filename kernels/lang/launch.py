"""Launches: a kernel with everything but its arrays; and plans, which ops remember for arrays of certain forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hiprt import objects
from hiprt.array import Array, make
from hiprt.code_folder import Source
from hiprt.kernels.lang.operands import result
from hiprt.module import Function
from hiprt.provider import Provider
from hiprt.stream import Stream

if TYPE_CHECKING:
    from hiprt.kernels.lang.kernel import Kernel

__all__ = ["LARGEST_GRID_YZ", "Launch", "Plan", "Three"]

LARGEST_GRID_YZ = 65535  # threadgroups along y, and along z, that every runtime takes
Three = tuple[int, int, int]


class Launch(objects.Launch):
    """One launch of a kernel, complete but for the arrays and numbers that each call gives.

    It is called as ``launch(stream, **given)``: with the arrays, and the scalars that it does not have yet, by the
    names that the kernel declares. What the calls have in common is laid out once, in the form that a node keeps.

    Parameters
    ----------
    kernel : Kernel
    grid : tuple of 3 int
        Threadgroups along x, y and z; a zero launches nothing.
    threads : tuple of 3 int
        The threads of a threadgroup, those that the kernel declares unless it lets them vary.
    template : mapping of str to value, or sequence
        The values of the kernel's template parameters.
    **scalars
        Those of the kernel's scalars that all calls have in common.

    Raises
    ------
    TypeError
        A name is not declared; from a call also: an argument is missing, or of a wrong type.
    ValueError
        A template value or a size is wrong.
    """

    __slots__ = ("grid", "kernel", "scalars", "template", "threads")

    def __init__(self, kernel: Kernel, grid: Three, threads: Three, template: Any = (), /, **scalars: Any) -> None:
        self.kernel, self.grid, self.threads, self.scalars = kernel, grid, threads, scalars
        self.template = kernel.values_of(template)
        self.prepare(grid, threads, kernel.names, scalars)
        if not kernel.is_varied and threads not in ((1, 1, 1), (kernel.threads_of(self.template), 1, 1)):
            raise ValueError(
                f"{kernel.name}: threadgroups of {threads} threads, where the kernel declares "
                f"{kernel.threads_of(self.template)} along x; declare is_varied for other sizes"
            )

    def bind(self, stream: Stream) -> Function:
        """Return the kernel's function on the device of a stream; the C core asks once."""
        return self.kernel.function(self.template, stream)

    def writes(self, stream: Any) -> frozenset[str]:
        """Return the names of the arrays that the kernel writes; the C core asks where it launches nothing."""
        stream.need(self.source)
        return self.kernel.written

    def source(self, provider: Provider) -> Source:
        """Return the program that has the kernel on devices of a provider that take its branch of lanes."""
        return self.kernel.program(self.template, provider)


class Plan(objects.Plan):
    """What an op does for arrays of certain forms: the result that it makes, and the launch that fills it.

    ``plan.run(stream, out, **operands)`` launches and returns the result. ``out`` receives it; None makes a new array.
    The operands are the kernel's inputs by name, and scalars that the launch does not have. The first operand stands
    in for an array that is None: the kernel knows that it was not given, and does not read it.

    Parameters
    ----------
    op : str
        The op's name, used in messages.
    shape : tuple of int
        The result's shape.
    dtype : numpy.dtype
        The result's dtype.
    launch : Launch or None
        Its kernel calls the result ``out``. None where there is nothing to compute.
    """

    __slots__ = ()

    def __init__(self, op: str, shape: tuple[int, ...], dtype: np.dtype[Any], launch: Launch | None) -> None:
        self.prepare(op, shape, dtype, launch, make)

    def receive(self, stream: Stream, out: Array, operands: Mapping[str, Any]) -> Array:
        """Return the caller's array for the result after checking it, for the C core.

        Raises
        ------
        TypeError, ValueError
            It does not fit, or overlaps an operand that the kernel does not declare it may be.
        """
        over = self.launch.kernel.aliasing.get("out", ()) if self.launch else tuple(operands)
        return result(self.op, out, self.shape, self.dtype, stream, operands, over)
