"""Attention, rotary positions and the key-value cache."""

from hiprt.kernels.ops.attention.attention import attention
from hiprt.kernels.ops.attention.kv_write import kv_write
from hiprt.kernels.ops.attention.norm_rope_attention import norm_rope_attention
from hiprt.kernels.ops.attention.norm_rope_write import norm_rope_write
from hiprt.kernels.ops.attention.prefill_attention import prefill_attention
from hiprt.kernels.ops.attention.rope import rope

__all__ = [
    "attention",
    "kv_write",
    "norm_rope_attention",
    "norm_rope_write",
    "prefill_attention",
    "rope",
]
