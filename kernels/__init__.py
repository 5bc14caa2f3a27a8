"""Kernels: the ops of decode steps, and `Kernel` to write more of them.

Every op takes and returns `hiprt.Array`, launches on this thread's stream (or ``stream=``), declares what it reads and
writes, and computes floating dtypes in float32. ``out=`` gives it an array to write to. Ops that MLX has carry its
names, and promote dtypes and broadcast shapes as it does.
"""

# Whose pool results come from.
import hiprt.allocator  # noqa: F401
from hiprt.kernels.add import add
from hiprt.kernels.add_rms_norm import add_rms_norm
from hiprt.kernels.advance import advance
from hiprt.kernels.arange import arange
from hiprt.kernels.argmax import argmax, argmin
from hiprt.kernels.attention import attention
from hiprt.kernels.binary import (
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    divide,
    equal,
    floor_divide,
    greater,
    greater_equal,
    left_shift,
    less,
    less_equal,
    logaddexp,
    logical_and,
    logical_or,
    maximum,
    minimum,
    multiply,
    not_equal,
    power,
    remainder,
    right_shift,
    subtract,
)
from hiprt.kernels.conv_step import conv_step
from hiprt.kernels.copies import astype, concatenate, contiguous
from hiprt.kernels.cumsum import cumsum
from hiprt.kernels.experts import moe_down, moe_gate_up
from hiprt.kernels.filter_logits import filter_logits, repetition_penalty
from hiprt.kernels.gated_delta import gated_delta, gated_delta_gates
from hiprt.kernels.gated_rms_norm import gated_rms_norm
from hiprt.kernels.gather_qmm import gather_qmm
from hiprt.kernels.gdn_step import gdn_step
from hiprt.kernels.hip_kernel import HipKernel, hip_kernel, hip_kernels
from hiprt.kernels.indexing import put_along_axis, scatter, scatter_add, take, take_along_axis
from hiprt.kernels.kernel import Kernel
from hiprt.kernels.kv_write import kv_write
from hiprt.kernels.layer_norm import layer_norm
from hiprt.kernels.matmul import matmul
from hiprt.kernels.moe import moe_combine, moe_route
from hiprt.kernels.norm_rope_write import norm_rope_write
from hiprt.kernels.prefill_attention import prefill_attention
from hiprt.kernels.qmv import qmv
from hiprt.kernels.quantize import dequantize, quantize
from hiprt.kernels.quantized_embedding import quantized_embedding
from hiprt.kernels.quantized_matmul import quantized_matmul
from hiprt.kernels.reduction import (
    all,  # noqa: A004
    any,  # noqa: A004
    logsumexp,
    max,  # noqa: A004
    mean,
    min,  # noqa: A004
    prod,
    sum,  # noqa: A004
)
from hiprt.kernels.rms_norm import rms_norm
from hiprt.kernels.rope import rope
from hiprt.kernels.sample import sample
from hiprt.kernels.silu_mul import silu_mul
from hiprt.kernels.slices import (
    slice,  # noqa: A004
    slice_update,
)
from hiprt.kernels.softmax import softmax
from hiprt.kernels.sort import argpartition, argsort, partition, sort, topk
from hiprt.kernels.ternary import clip, where
from hiprt.kernels.unary import (
    abs,  # noqa: A004
    bitwise_invert,
    ceil,
    cos,
    erf,
    exp,
    expm1,
    floor,
    gelu,
    gelu_approx,
    gelu_fast_approx,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    logical_not,
    negative,
    reciprocal,
    round,  # noqa: A004
    rsqrt,
    sigmoid,
    sign,
    silu,
    sin,
    softplus,
    sqrt,
    square,
    tanh,
)

__all__ = [
    "HipKernel",
    "Kernel",
    "abs",
    "add",
    "add_rms_norm",
    "advance",
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argpartition",
    "argsort",
    "astype",
    "attention",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_or",
    "bitwise_xor",
    "ceil",
    "clip",
    "concatenate",
    "contiguous",
    "conv_step",
    "cos",
    "cumsum",
    "dequantize",
    "divide",
    "equal",
    "erf",
    "exp",
    "expm1",
    "filter_logits",
    "floor",
    "floor_divide",
    "gated_delta",
    "gated_delta_gates",
    "gated_rms_norm",
    "gather_qmm",
    "gdn_step",
    "gelu",
    "gelu_approx",
    "gelu_fast_approx",
    "greater",
    "greater_equal",
    "hip_kernel",
    "hip_kernels",
    "isfinite",
    "isinf",
    "isnan",
    "kv_write",
    "layer_norm",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logsumexp",
    "matmul",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "moe_combine",
    "moe_down",
    "moe_gate_up",
    "moe_route",
    "multiply",
    "negative",
    "norm_rope_write",
    "not_equal",
    "partition",
    "power",
    "prefill_attention",
    "prod",
    "put_along_axis",
    "qmv",
    "quantize",
    "quantized_embedding",
    "quantized_matmul",
    "reciprocal",
    "remainder",
    "repetition_penalty",
    "right_shift",
    "rms_norm",
    "rope",
    "round",
    "rsqrt",
    "sample",
    "scatter",
    "scatter_add",
    "sigmoid",
    "sign",
    "silu",
    "silu_mul",
    "sin",
    "slice",
    "slice_update",
    "softmax",
    "softplus",
    "sort",
    "sqrt",
    "square",
    "subtract",
    "sum",
    "take",
    "take_along_axis",
    "tanh",
    "topk",
    "where",
]
