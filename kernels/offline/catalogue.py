"""The catalogue of the project's kernels, with the templates that their ops launch them with."""

from __future__ import annotations

from typing import Any, NamedTuple

import hiprt.kernels  # noqa: F401 (the ops register their kernels)
from hiprt.kernels.lang.kernel import KERNELS, Kernel

__all__ = ["Instance", "instances"]


class Instance(NamedTuple):
    """A kernel with its template's values, in the order of the declaration."""

    kernel: Kernel
    template: tuple[Any, ...]

    @property
    def symbol(self) -> str:
        """The function's name."""
        return self.kernel.symbol(self.template)


def instances(*, is_loops: bool = False, dialect: str = "hip") -> list[Instance]:
    """Return every instance of every kernel, in the order of the kernels' names.

    Parameters
    ----------
    is_loops : bool
        Whether those of the branch of plain loops are asked for, which the CPU device takes.
    dialect : str
        ``hip`` or ``metal``, which has no kernels whose body is HIP.
    """
    return [
        Instance(kernel, kernel.values_of(template))
        for _, kernel in sorted(KERNELS.items())
        if kernel.instances is not None and (dialect == "hip" or kernel.source is None)
        for template in kernel.instances(is_loops)
    ]
