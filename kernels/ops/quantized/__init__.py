"""Quantised matrices: their formats, their products, and rows of them."""

from hiprt.kernels.ops.quantized.gather_qmm import gather_qmm
from hiprt.kernels.ops.quantized.qmv import qmv
from hiprt.kernels.ops.quantized.quantize import dequantize, quantize
from hiprt.kernels.ops.quantized.quantized_embedding import quantized_embedding
from hiprt.kernels.ops.quantized.quantized_matmul import quantized_matmul

__all__ = [
    "dequantize",
    "gather_qmm",
    "qmv",
    "quantize",
    "quantized_embedding",
    "quantized_matmul",
]
