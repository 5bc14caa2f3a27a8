"""Caches of keys and values in 8 bits: the ops that write them and attend to them."""

from hiprt.kernels.ops.quantized_cache.dequantize_cache import dequantize_cache
from hiprt.kernels.ops.quantized_cache.norm_rope_quantize import norm_rope_quantize
from hiprt.kernels.ops.quantized_cache.quantized_attention import quantized_attention

__all__ = ["dequantize_cache", "norm_rope_quantize", "quantized_attention"]
