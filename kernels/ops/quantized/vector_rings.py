"""The kernels of vector rings, which share one body: a plain product, and one that finds each row's largest result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hiprt.kernels.lang.dialect import OPS
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.ops.quantized.integer_rings import ARGUMENTS, CONSTANTS, LEAVES_PLACE, PLANES, parameters_of
from hiprt.kernels.tuning.vector_rings import TEMPLATE, shared_bytes

__all__ = ["vector_ring_kernel"]

BODY = "quantized/vector_rings.hip"
# The body's parameters and arguments that a kernel may leave out, in the order in which they are defined then.
ABSENT = {name: {**CONSTANTS, **ARGUMENTS}[name] for name in ("S", "ADDED", "GATED", "residual")}


def vector_ring_kernel(
    name: str,
    *,
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
    template: Mapping[str, str],
    headers: Sequence[str] = (),
    updates: Mapping[str, str] | None = None,
) -> Kernel:
    """Return a kernel around the body ``vector_rings.hip``.

    Parameters
    ----------
    name : str
    inputs, outputs, headers, updates
        The declaration, as for `Kernel`.
    template : mapping of str to str
        The parameters besides T, GROUP, BITS, WIDTH and those of a vector ring. `ABSENT` defines what a declaration may
        leave out.
    """
    lines = [line for name, line in ABSENT.items() if name not in {**template, **inputs}]
    lines += [LEAVES_PLACE] if "place" in outputs else []
    return Kernel(
        name,
        inputs=inputs,
        updates=updates,
        outputs=outputs,
        scalars={"columns": "uint", "eps": "float"},
        template=parameters_of(template, TEMPLATE),
        headers=(PLANES, "quantized/bundle_joins.h", *headers),
        threads=lambda values: 32 * (values["TEAMS"] * values["SPLIT"] // values["SHARERS"] + values["HELPERS"]),
        cluster=lambda values: int(values["SHARERS"] * values["PARTNERS"]),
        ahead=("weight", "scales", "biases", "norm"),
        shared=lambda values, target: shared_bytes({"GATED": False, **values}, target),
        source="\n".join([*lines, '#line 1 "vector_rings.hip"', (OPS / BODY).read_text()]),
    )
