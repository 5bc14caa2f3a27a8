"""The kernels of integer dot instructions, which share one body for a plain matrix and for a token's experts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hiprt.kernels.lang.dialect import OPS
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.ops.quantized.integer_rings import arguments_of, constants_of
from hiprt.kernels.tuning.dots import TEMPLATE

__all__ = ["dot_kernel"]

BODY = "quantized/integer_dots.hip"
PARTS = "sizes", "digits", "staging", "tiles", "products", "sums", "results"
# Parameters of this body that a kernel may leave out as well.
CONSTANTS = {
    "VECTORS": "constexpr int VECTORS = 1;",
    "HELD": "constexpr int HELD = 0;",
    "KEPT_ROUNDS": "constexpr int KEPT_ROUNDS = 1;",
}


def dot_kernel(
    name: str,
    *,
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
    scalars: Mapping[str, str],
    template: Mapping[str, str],
    part_of: str,
    matrices: str = "ONE",
    is_gated: bool = False,
    instances: Callable[[bool], Iterable[Mapping[str, Any]]] | None = None,
) -> Kernel:
    """Return a kernel around the body ``integer_dots.hip``, whose parts are ``dot_*.h``.

    Parameters
    ----------
    name : str
    inputs, outputs, scalars, instances, part_of
        The declaration, as for `Kernel`.
    template : mapping of str to str
        The parameters besides T, GROUP, BITS, WIDTH and those of a sharing. The body's other parameters are constants.
        A kernel with VECTORS has the number of all vectors, `batch`, among its scalars.
    matrices, is_gated
        As for `ring_kernel`.
    """
    dtypes = {parameter: kind for parameter, kind in template.items() if kind == "dtype"}
    others = {parameter: kind for parameter, kind in template.items() if kind != "dtype"}
    given = {"T": "dtype", **dtypes, "GROUP": "int", "BITS": "int", "WIDTH": "int", **TEMPLATE, **others}
    scalars = {**scalars, "groups": "uint"}
    constants = [
        *constants_of(given, matrices, is_gated),
        *(line for name, line in CONSTANTS.items() if name not in given),
        *([] if "batch" in scalars else ["constexpr uint batch = 1;"]),
    ]
    return Kernel(
        name,
        inputs=inputs,
        outputs=outputs,
        scalars=scalars,
        template=given,
        headers=("quantized/code_fields.h",),
        parts=tuple(f"quantized/dot_{part}.h" for part in PARTS),
        constants=constants,
        threads=lambda values: 32 * int(values["TEAMS"]) * int(values["SPLIT"]),
        source="\n".join(
            [*arguments_of({**inputs, **scalars}), '#line 1 "integer_dots.hip"', (OPS / BODY).read_text()]
        ),
        instances=instances,
        part_of=part_of,
    )
