"""The kernels that put together what ranks have, and that pass messages, through memory that the ranks reach."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from hiprt.array import bfloat16
from hiprt.kernels.lang.kernel import Kernel

__all__ = [
    "BROADCAST",
    "CHUNKED",
    "FEW",
    "GATHER",
    "PIECES",
    "PLACES",
    "RECEIVE",
    "REDUCTIONS",
    "SCATTER",
    "SEND",
    "SUMMED_IN",
    "SUM_ADDED",
]

PLACES = 256  # words of a block on their way at a time, and most of its threads
PIECES = 8  # of 16 bytes, of each thread of a large array, on their way at a time
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
    text = "".join((Path(__file__).parent / each).read_text() for each in ("words.hip", file))
    layout = {"PLACES": PLACES, "PIECES": PIECES}
    return Kernel(
        name,
        threads=PLACES,
        is_varied=True,
        inputs={**dict.fromkeys(inputs, "T"), "places": "ulong", "gone": "uint"},
        updates={"rounds": "uint", "turns": "uint"},
        outputs=dict.fromkeys(outputs, "T"),
        scalars=dict.fromkeys(("n", "rank", "blocks", *scalars), "uint"),
        template={"T": "dtype", "RANKS": "int"}
        | ({"ALIGNED": "bool"} if file == "chunks.hip" else {})
        | ({"S": "dtype"} if "COMBINE(a, b)" in macros else {}),
        aliasing={"out": aliasing} if aliasing else None,
        ahead=("places",),
        source="".join(f"#define {macro} {value}\n" for macro, value in {**macros, **layout}.items()) + text,
    )


def reduction(name: str, combine: str, initial: str, *, file: str = "exchange.hip", **more: Any) -> Kernel:
    """Return a kernel that puts numbers of all ranks together, beginning with what `initial` says of number i."""
    macros = {"COMBINE(a, b)": combine, "INITIAL(i)": initial, **more.pop("macros", {})}
    return exchange(file, name, macros, **more)


def reductions(suffix: str, file: str) -> tuple[dict[str, Kernel], Kernel]:
    """Return the kernels of `all_reduce`, by operation, and the one of a sum with a residual."""
    own = "x[i]"  # what max and min begin with, which changes nothing; a NaN stays one
    named = {
        "sum": reduction(f"all_reduce{suffix}", "(a) + (b)", "0", file=file, aliasing=("x",)),
        "max": reduction(
            f"all_reduce_max{suffix}", "(b) > (a) || (b) != (b) ? (b) : (a)", own, file=file, aliasing=("x",)
        ),
        "min": reduction(
            f"all_reduce_min{suffix}", "(b) < (a) || (b) != (b) ? (b) : (a)", own, file=file, aliasing=("x",)
        ),
    }
    both = ("x", "residual")
    return named, reduction(
        f"all_reduce_added{suffix}", "(a) + (b)", "residual[i]", file=file, inputs=both, aliasing=both
    )


REDUCTIONS, SUM_ADDED = reductions("", "exchange.hip")
CHUNKED_REDUCTIONS, CHUNKED_SUM_ADDED = reductions("_chunks", "chunks.hip")
SCATTER = reduction("reduce_scatter", "(a) + (b)", "0", macros={"SCATTERED": ""})
GATHER = exchange("exchange.hip", "all_gather", {"GATHERED": ""}, scalars=("width", "total"))
BROADCAST = exchange("exchange.hip", "broadcast", {"ROOTED": ""}, aliasing=("x",), scalars=("root",))
SEND = exchange("message.hip", "send", {"SENT": ""}, outputs=(), scalars=("peer",))
RECEIVE = exchange("message.hip", "receive", {"RECEIVED": ""}, inputs=(), scalars=("peer",))
# What does the same for large arrays.
CHUNKED = {
    **{REDUCTIONS[op]: CHUNKED_REDUCTIONS[op] for op in REDUCTIONS},
    SUM_ADDED: CHUNKED_SUM_ADDED,
}
