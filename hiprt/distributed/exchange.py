"""The kernels that put together what ranks have, and that pass messages, through memory that the ranks reach."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from hiprt.array import bfloat16
from hiprt.kernels.lang.kernel import Kernel

__all__ = ["BROADCAST", "FEW", "GATHER", "PLACES", "RECEIVE", "REDUCTIONS", "SCATTER", "SEND", "SUMMED_IN", "SUM_ADDED"]

PLACES = 256  # words of a block on their way at a time, and most of its threads
FEW = 64  # threads of a block of a small array, whose words leave sooner from more blocks
FLOAT32 = np.dtype(np.float32)
# What numbers are added up in, by dtype.
SUMMED_IN = {
    FLOAT32: FLOAT32,
    np.dtype(np.float16): FLOAT32,
    np.dtype(bfloat16): FLOAT32,
    np.dtype(np.int32): np.dtype(np.int32),
    np.dtype(np.uint32): np.dtype(np.uint32),
}


def exchange(
    file: str,
    name: str,
    macros: dict[str, str],
    *,
    inputs: Iterable[str] = ("x",),
    outputs: Iterable[str] = ("out",),
    aliasing: tuple[str, ...] = (),
    scalars: Iterable[str] = (),
) -> Kernel:
    """Return a kernel, which is compiled at its first call for each dtype and number of ranks."""
    text = (Path(__file__).parent / file).read_text()
    return Kernel(
        name,
        threads=PLACES,
        inputs={**dict.fromkeys(inputs, "T"), "places": "ulong", "gone": "uint"},
        updates={"rounds": "uint", "turns": "uint"},
        outputs=dict.fromkeys(outputs, "T"),
        scalars=dict.fromkeys(("n", "rank", "blocks", *scalars), "uint"),
        template={"T": "dtype", "RANKS": "int"} | ({"S": "dtype"} if "COMBINE(a, b)" in macros else {}),
        aliasing={"out": aliasing} if aliasing else None,
        ahead=("places",),
        source="".join(f"#define {macro} {value}\n" for macro, value in {**macros, "PLACES": PLACES}.items()) + text,
    )


def reduction(name: str, combine: str, initial: str, **more: Any) -> Kernel:
    """Return a kernel that puts numbers of all ranks together."""
    macros = {"COMBINE(a, b)": combine, "INITIAL": initial, **more.pop("macros", {})}
    return exchange("exchange.hip", name, macros, **more)


OWN = "x[start + i]"  # what max and min begin with, which changes nothing; a NaN stays one
REDUCTIONS = {
    "sum": reduction("all_reduce", "(a) + (b)", "0", aliasing=("x",)),
    "max": reduction("all_reduce_max", "(b) > (a) || (b) != (b) ? (b) : (a)", OWN, aliasing=("x",)),
    "min": reduction("all_reduce_min", "(b) < (a) || (b) != (b) ? (b) : (a)", OWN, aliasing=("x",)),
}
SUM_ADDED = reduction(
    "all_reduce_added", "(a) + (b)", "residual[start + i]", inputs=("x", "residual"), aliasing=("x", "residual")
)
SCATTER = reduction("reduce_scatter", "(a) + (b)", "0", macros={"SCATTERED": ""})
GATHER = exchange("exchange.hip", "all_gather", {"GATHERED": ""}, scalars=("width", "total"))
BROADCAST = exchange("exchange.hip", "broadcast", {"ROOTED": ""}, aliasing=("x",), scalars=("root",))
SEND = exchange("message.hip", "send", {"SENT": ""}, outputs=(), scalars=("peer",))
RECEIVE = exchange("message.hip", "receive", {"RECEIVED": ""}, inputs=(), scalars=("peer",))
