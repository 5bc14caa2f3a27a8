"""Caches of keys and values in blocks that several sequences share: where a row lies, and attention over them."""

from hiprt.kernels.ops.paged_cache.block_slots import block_slots
from hiprt.kernels.ops.paged_cache.paged_attention import paged_attention

__all__ = ["block_slots", "paged_attention"]
