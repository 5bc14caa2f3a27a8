"""Buffers of a pool's blocks, each made in one call into C; see ``allocator/native/blocks.c``."""

from hiprt import objects

__all__ = ["of_block", "take"]

module = objects.load("hiprt.allocator.native.blocks")
take, of_block = module.take, module.of_block
