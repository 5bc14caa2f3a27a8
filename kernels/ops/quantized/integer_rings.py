"""The kernels of integer matrix instructions, which share one body for a plain matrix and for a token's experts."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from hiprt.kernels.lang.dialect import OPS
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.tuning.rings import TEMPLATE, shared_bytes
from hiprt.kernels.tuning.target import Target

__all__ = [
    "ARGUMENTS",
    "CONSTANTS",
    "LEAVES_PLACE",
    "PLANES",
    "arguments_of",
    "constants_of",
    "parameters_of",
    "ring_kernel",
]

BODY = "quantized/integer_rings.hip"
# How x is brought to 16 bits, here and for several vectors.
PLANES = "quantized/byte_planes.h"
# The body's names of the ways to take matrices.
MATRICES = ("ONE", "GATHERED", "SUMMED")
# Parameters of the body that a kernel may leave out, and the constants that replace them.
CONSTANTS = {
    "S": "typedef T S;",
    "NORMED": "constexpr bool NORMED = false;",
    "ADDED": "constexpr bool ADDED = false;",
    "GATED": "constexpr bool GATED = false;",
    "CHOSEN": "constexpr int CHOSEN = 1;",
    "COLUMNS": "constexpr int COLUMNS = 8;",
}
# The same of the body's arguments.
ARGUMENTS = {
    "indices": "const device int* const indices = 0;",
    "shares": "const device T* const shares = x;",
    "norm": "const device T* const norm = x;",
    "residual": "const device T* const residual = x;",
    "matrices": "constexpr uint matrices = 1;",
    "eps": "constexpr float eps = 0.0f;",
    "between": "const uint between = columns;",
}
# How far guesses of a token's matrices are off; tests put another number here.
MISLEADS = "constexpr uint MISLEADS = 0;"
# What says whether experts are chosen, and whether by logits that are given.
ROUTED = "#define ROUTED {:d}\n#define HAS_LOGITS {:d}\nconstexpr bool IS_ROUTED = ROUTED;"
# What a kernel has of which no threadgroups multiply with a router.
NO_ROUTERS = "constexpr uint ROUTERS = 0;"
# What says that results are multiplied with a router.
LEAVES_LOGITS = "#define LEAVES_LOGITS 1"
# What says that the place of the largest result is found.
LEAVES_PLACE = "#define LEAVES_PLACE 1"


def constants_of(declared: Container[str], matrices: str, is_gated: bool) -> list[str]:
    """Return the lines that define what constants a kernel around a body of integer instructions does not declare."""
    absent = {**CONSTANTS, **({"GATED": "constexpr bool GATED = true;"} if is_gated else {})}
    words = ", ".join(f"{word} = {i}" for i, word in enumerate(MATRICES))
    lines = [line for name, line in absent.items() if name not in declared]
    return [*lines, f"constexpr int {words}, CHOICE = {matrices};"]


def arguments_of(declared: Container[str]) -> list[str]:
    """Return the lines that define what arguments such a kernel does not declare."""
    return [line for name, line in ARGUMENTS.items() if name not in declared]


def parameters_of(template: Mapping[str, str], ring: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of such a kernel: dtypes, the format of the codes, those of a ring, and its others."""
    dtypes = {parameter: kind for parameter, kind in template.items() if kind == "dtype"}
    others = {parameter: kind for parameter, kind in template.items() if kind != "dtype"}
    return {"T": "dtype", **dtypes, "GROUP": "int", "BITS": "int", "WIDTH": "int", **ring, **others}


def ring_kernel(
    name: str,
    *,
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
    scalars: Mapping[str, str],
    template: Mapping[str, str],
    ahead: Sequence[str],
    matrices: str = "ONE",
    is_gated: bool = False,
    headers: Sequence[str] = (),
    updates: Mapping[str, str] | None = None,
    width: Callable[[Mapping[str, Any]], int] = lambda template: int(template["WIDTH"]),
    other_bytes: Callable[[Mapping[str, Any]], int] = lambda template: 0,
) -> Kernel:
    """Return a kernel around the body ``integer_rings.hip``.

    Parameters
    ----------
    name : str
    inputs, outputs, scalars, ahead, headers, updates
        The declaration, as for `Kernel`.
    template : mapping of str to str
        The parameters besides T, GROUP, BITS, WIDTH and those of a ring. `CONSTANTS` defines the body's parameters that
        the declaration leaves out, and `ARGUMENTS` its arguments.
    matrices : str
        ``ONE`` for a single matrix; ``GATHERED`` for the rows, behind each other, of the matrices that indices choose;
        or ``SUMMED`` for the weighted sum of these matrices' products with a vector each.
    is_gated : bool
        Whether the kernel is gated without a template parameter that says so.
    width : callable
        A function of the template, by name, that returns the elements of x that a threadgroup keeps.
    other_bytes : callable
        Another, which returns the bytes of dynamic memory that threadgroups of another kind need.
    """

    def shared(values: Mapping[str, Any], target: Target) -> int:
        return max(shared_bytes({**values, "WIDTH": width(values)}, target), other_bytes(values))

    declared = {**template, **inputs, **scalars}
    lines = [*constants_of(declared, matrices, is_gated), *arguments_of(declared)]
    lines += [ROUTED.format("EXPERTS" in template, "logits" in inputs), MISLEADS]
    lines += [] if "ROUTERS" in template else [NO_ROUTERS]
    lines += [LEAVES_LOGITS] if "GROUPS" in template else []
    lines += [LEAVES_PLACE] if "place" in outputs else []
    return Kernel(
        name,
        inputs=inputs,
        updates=updates,
        outputs=outputs,
        scalars=scalars,
        template=parameters_of(template, TEMPLATE),
        headers=(PLANES, *headers),
        threads=lambda values: 32 * int(values["TEAMS"]) * int(values["SPLIT"]),
        ahead=ahead,
        resident=lambda values: int(values["RESIDENT"]),
        shared=shared,
        source="\n".join([*lines, '#line 1 "integer_rings.hip"', (OPS / BODY).read_text()]),
    )
