"""Encoding dispatches into a concurrent compute encoder, for work that runs once. Never run on Apple hardware."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hiprt.metal_compat.apple.dispatches import Arguments, Dispatch

__all__ = ["encode"]


def encode(metal: Any, encoder: Any, dispatches: Sequence[Dispatch], arguments: Arguments) -> None:
    """Encode dispatches; those without a barrier between them may run at once.

    Parameters
    ----------
    metal : module
        PyObjC's Metal.
    encoder : MTLComputeCommandEncoder
        An encoder of the concurrent type.
    dispatches : sequence of Dispatch
    arguments : Arguments
        The argument buffer of these dispatches.
    """
    for number, each in enumerate(dispatches):
        if each.behind:
            encoder.memoryBarrierWithScope_(metal.MTLBarrierScopeBuffers)
        encoder.setComputePipelineState_(each.pipeline)
        for index, value in enumerate(each.arguments):
            encoder.setBuffer_offset_atIndex_(*arguments.place(number, index, value), index)
        grid, block = metal.MTLSizeMake(*each.grid), metal.MTLSizeMake(*each.block)
        if each.counts_threads:
            encoder.dispatchThreads_threadsPerThreadgroup_(grid, block)
        else:
            encoder.dispatchThreadgroups_threadsPerThreadgroup_(grid, block)
