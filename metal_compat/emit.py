"""The Metal text of the project's kernels, and of users' bodies for a given call. No device is touched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hiprt.kernels import Kernel
from hiprt.metal_compat.call import Call
from hiprt.metal_compat.metal_kernel import MetalKernel

__all__ = ["emit_metal"]

# Arguments that a call needs and the text does not depend on.
CALL: dict[str, Any] = {
    "grid": (1, 1, 1),
    "threadgroup": (1, 1, 1),
    "template": None,
    "init_value": None,
    "verbose": False,
    "stream": None,
}


def emit_metal(kernel: Kernel | MetalKernel, template: Sequence[Any] | None = None, **call: Any) -> str:
    """Return a kernel's Metal text.

    Parameters
    ----------
    kernel : Kernel or MetalKernel
    template : sequence, optional
        For a `Kernel` one value per template parameter; for a `MetalKernel` names and values.
    **call
        For a `MetalKernel` its call's ``inputs``, ``output_shapes`` and ``output_dtypes``.

    Raises
    ------
    TypeError, ValueError
        An argument does not fit.
    """
    if isinstance(kernel, Kernel):
        return kernel.text("metal", tuple(template or ()))
    made = Call(kernel.names, {**CALL, **call, "template": template})
    return kernel.program(made.names).body.metal(made.form())
