"""Every kernel of the project, with the template values that its op launches it with."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from hiprt.array import bfloat16
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.ops.attention.attention import COMBINE as ATTENTION_COMBINE, KERNEL as ATTENTION, TOGETHER
from hiprt.kernels.ops.attention.kv_write import KERNEL as KV_WRITE
from hiprt.kernels.ops.attention.norm_rope_write import KERNEL as NORM_ROPE_WRITE
from hiprt.kernels.ops.attention.prefill_attention import KERNEL as PREFILL_ATTENTION, tile_rows
from hiprt.kernels.ops.attention.rope import KERNEL as ROPE
from hiprt.kernels.ops.elementwise.add import KERNEL as ADD
from hiprt.kernels.ops.elementwise.arange import KERNEL as ARANGE
from hiprt.kernels.ops.elementwise.silu_mul import KERNEL as SILU_MUL
from hiprt.kernels.ops.experts.experts import (
    DOWN as MOE_DOWN,
    GATE_UP as MOE_GATE_UP,
    PAIRS,
    ROWS,
    SIMDGROUPS as EXPERT_SIMDGROUPS,
)
from hiprt.kernels.ops.experts.routing import COMBINE as MOE_COMBINE, ROUTE as MOE_ROUTE
from hiprt.kernels.ops.matmul.matmul import KERNEL as MATMUL
from hiprt.kernels.ops.norm.add_rms_norm import KERNEL as ADD_RMS_NORM
from hiprt.kernels.ops.norm.gated_rms_norm import KERNEL as GATED_RMS_NORM
from hiprt.kernels.ops.norm.layer_norm import KERNEL as LAYER_NORM
from hiprt.kernels.ops.norm.rms_norm import KERNEL as RMS_NORM, SIMDGROUPS as NORM_SIMDGROUPS
from hiprt.kernels.ops.norm.softmax import KERNEL as SOFTMAX
from hiprt.kernels.ops.quantized.formats import BITS, GROUP_SIZES
from hiprt.kernels.ops.quantized.gather_qmm import KERNEL as GATHER_QMM, TILE_ROWS, TILES as QUANTIZED_TILES
from hiprt.kernels.ops.quantized.qmv import KERNEL as QMV
from hiprt.kernels.ops.quantized.quantize import DEQUANTIZE, QUANTIZE
from hiprt.kernels.ops.quantized.quantized_embedding import KERNEL as QUANTIZED_EMBEDDING
from hiprt.kernels.ops.quantized.quantized_matmul import KERNEL as QUANTIZED_MATMUL
from hiprt.kernels.ops.recurrent.conv_step import KERNEL as CONV_STEP, RUN as CONV_STEPS
from hiprt.kernels.ops.recurrent.gated_delta import GATES as GATED_DELTA_GATES, KERNEL as GATED_DELTA
from hiprt.kernels.ops.recurrent.gdn_step import KERNEL as GDN_STEP, SIMDGROUPS as GDN_SIMDGROUPS
from hiprt.kernels.ops.reduction.argmax import KERNEL as ARGMAX
from hiprt.kernels.ops.sampling.advance import KERNEL as ADVANCE
from hiprt.kernels.ops.sampling.filter_logits import (
    KERNEL as FILTER_LOGITS,
    PENALTY as REPETITION_PENALTY,
    SEARCH as FILTER_SEARCH,
    TOPS as FILTER_TOPS,
)
from hiprt.kernels.ops.sampling.sample import KERNEL as SAMPLE

__all__ = ["CHOSEN", "EXPERT_WIDTHS", "HEAD_WIDTHS", "KERNELS", "Instance", "instances"]

FLOATS = (np.dtype(np.float16), bfloat16, np.dtype(np.float32))
# Attention takes any width from 32 to 256; these are the ones of published models, and one that lanes share unevenly.
HEAD_WIDTHS = (64, 80, 128, 256)
# Of experts' matrices, and how many experts a token takes: those of Qwen3-30B-A3B.
EXPERT_WIDTHS, CHOSEN = (2048, 768), 8
# Values of each template parameter but the dtypes, and RUN and ROWS, which depend on the dtype.
VALUES: dict[str, dict[str, tuple[Any, ...]]] = {
    "attention": {"WIDTH": HEAD_WIDTHS, "HEADS": TOGETHER},
    "conv_step": {"STEPS": (CONV_STEPS,)},
    "gather_qmm": {"TRANSPOSED": (False, True)},
    "gdn_step": {
        "KEY": (128,),
        "VALUE": (128,),
        "RATIO": (2,),
        "TAPS": (4,),
        "NORMED": (False, True),
        "SIMDGROUPS": (GDN_SIMDGROUPS,),
    },
    "matmul": {"DOTS": (False, True)},
    "moe_down": {
        "GROUP": (64,),
        "BITS": BITS,
        "WIDTH": (EXPERT_WIDTHS[1],),
        "CHOSEN": (CHOSEN,),
        "ROWS": (ROWS,),
        "SIMDGROUPS": (EXPERT_SIMDGROUPS,),
    },
    "moe_gate_up": {
        "GROUP": (64,),
        "BITS": BITS,
        "WIDTH": (EXPERT_WIDTHS[0],),
        "NORMED": (True,),
        "PAIRS": (PAIRS,),
        "SIMDGROUPS": (EXPERT_SIMDGROUPS,),
    },
    "qmv": {"GROUP": GROUP_SIZES, "BITS": BITS, "BATCH": (1, 2)},
    "quantized_matmul": {"GROUP": GROUP_SIZES, "BITS": BITS},
    "quantized_tiles": {"BITS": BITS},
    "rms_norm": {"WEIGHTED": (False, True), "SIMDGROUPS": (1, NORM_SIMDGROUPS)},
    "softmax": {"LOGARITHM": (False, True)},
    "rope": {"TRADITIONAL": (False, True)},
}
KERNELS = (
    ADD,
    ADD_RMS_NORM,
    ADVANCE,
    ARANGE,
    ARGMAX,
    ATTENTION,
    ATTENTION_COMBINE,
    CONV_STEP,
    DEQUANTIZE,
    FILTER_LOGITS,
    FILTER_SEARCH,
    FILTER_TOPS,
    GATED_DELTA,
    GATED_DELTA_GATES,
    GATED_RMS_NORM,
    GATHER_QMM,
    GDN_STEP,
    KV_WRITE,
    LAYER_NORM,
    MATMUL,
    MOE_COMBINE,
    MOE_DOWN,
    MOE_GATE_UP,
    MOE_ROUTE,
    NORM_ROPE_WRITE,
    PREFILL_ATTENTION,
    QMV,
    QUANTIZE,
    QUANTIZED_EMBEDDING,
    QUANTIZED_MATMUL,
    QUANTIZED_TILES,
    REPETITION_PENALTY,
    RMS_NORM,
    ROPE,
    SAMPLE,
    SILU_MUL,
    SOFTMAX,
)


class Instance(NamedTuple):
    """A kernel with its template's values."""

    kernel: Kernel
    template: tuple[Any, ...]

    @property
    def symbol(self) -> str:
        """The function's name."""
        return self.kernel.symbol(self.template)


def instances(*, is_loops: bool = False) -> list[Instance]:
    """Return every instance of every kernel, in the order of the kernels' names.

    Parameters
    ----------
    is_loops : bool
        Only those that the CPU device's branch of plain loops uses.
    """
    return [Instance(kernel, template) for kernel in KERNELS for template in templates(kernel, is_loops=is_loops)]


def templates(kernel: Kernel, *, is_loops: bool) -> list[tuple[Any, ...]]:
    """Return the template values of one kernel."""
    found: list[tuple[Any, ...]] = []
    if kernel is PREFILL_ATTENTION:
        return [(t, width, tile_rows(t, width, loops=is_loops)) for t in FLOATS for width in HEAD_WIDTHS]
    for dtype in FLOATS if "dtype" in kernel.template.values() else (None,):
        runs = (1,) if is_loops or dtype is None else (1, 16 // dtype.itemsize)
        tiles = TILE_ROWS if not is_loops and dtype is not None and dtype.itemsize == 2 else TILE_ROWS[-1:]
        known = {"T": (dtype,), "S": (dtype,), "RUN": runs, "ROWS": tiles, **VALUES.get(kernel.name, {})}
        if is_loops:
            # Of a plain loop: one vector, one head.
            known |= {name: (1,) for name in ("BATCH", "HEADS") if name in known}
        found.extend(product(*(known[name] for name in kernel.template)))
    return found
