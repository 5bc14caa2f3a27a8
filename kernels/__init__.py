"""Kernels: the ops of one decode step, and `Kernel` to write more of them.

Every op takes and returns `hiprt.Array`, launches on this thread's stream (or ``stream=``), declares what it reads and
writes, and computes in float32. ``out=`` gives it an array to write to.
"""

from hiprt.kernels.add import add
from hiprt.kernels.advance import advance
from hiprt.kernels.argmax import argmax
from hiprt.kernels.attention import attention
from hiprt.kernels.hip_kernel import HipKernel, hip_kernel, hip_kernels
from hiprt.kernels.kernel import Kernel
from hiprt.kernels.kv_write import kv_write
from hiprt.kernels.quantized_embedding import quantized_embedding
from hiprt.kernels.quantized_matmul import quantized_matmul
from hiprt.kernels.rms_norm import rms_norm
from hiprt.kernels.rope import rope
from hiprt.kernels.sample import sample
from hiprt.kernels.silu_mul import silu_mul

__all__ = [
    "HipKernel",
    "Kernel",
    "add",
    "advance",
    "argmax",
    "attention",
    "hip_kernel",
    "hip_kernels",
    "kv_write",
    "quantized_embedding",
    "quantized_matmul",
    "rms_norm",
    "rope",
    "sample",
    "silu_mul",
]
