"""Replays: a recorded step in an indirect command buffer, launched again and again. Never run on Apple hardware.

The first thing to check on Apple hardware is this: PyObjC's metadata (10.3 to 12.2.2) calls the two arguments of
``concurrentDispatchThreadgroups:threadsPerThreadgroup:`` and ``concurrentDispatchThreads:threadsPerThreadgroup:``
integers. Metal takes two ``MTLSize``. By PyObjC's sources the runtime's types win where published ones do not fit
them, so sizes are what is passed here.
"""

from __future__ import annotations

import re
from typing import Any

from hiprt.graphs.record.recording import Recording
from hiprt.metal_compat.apple.command import Command
from hiprt.metal_compat.apple.dispatches import SLOTS, Arguments, dispatches
from hiprt.metal_compat.apple.heap import out_of_memory
from hiprt.metal_compat.apple.stream import MetalStream

__all__ = ["Replay"]

# The driver of these GPUs faults unless the pipelines of indirect commands are also set on the encoder (found by
# tinygrad).
FORGETFUL = re.compile(r"Apple M[12]\b")


class Replay:
    """An executable step on Metal, with the interface of `hiprt.graphs.Exec`.

    Parameters
    ----------
    recording : Recording
        The recording that `MetalStream.record` yielded; the replay keeps it.
    stream : MetalStream
        The stream that the replay is launched on.

    Raises
    ------
    ValueError
        A node is nothing that Metal can run.
    OutOfMemoryError
        There is no memory for the commands or their values.
    """

    def __init__(self, recording: Recording, stream: MetalStream) -> None:
        self.recording = recording
        self.stream = stream
        self.last: Command | None = None
        device, metal = stream.device, stream.device.metal
        self.dispatches = dispatches(recording, device)
        self.arguments = Arguments(self.dispatches, stream)
        descriptor = metal.MTLIndirectCommandBufferDescriptor.alloc().init()
        kinds = (metal.MTLIndirectCommandTypeConcurrentDispatch, metal.MTLIndirectCommandTypeConcurrentDispatchThreads)
        used = {kinds[each.counts_threads] for each in self.dispatches}
        descriptor.setCommandTypes_(sum(used) or kinds[0])
        descriptor.setInheritBuffers_(False)
        descriptor.setInheritPipelineState_(False)
        descriptor.setMaxKernelBufferBindCount_(SLOTS)
        self.commands = device.handle.newIndirectCommandBufferWithDescriptor_maxCommandCount_options_(
            descriptor, max(len(self.dispatches), 1), metal.MTLResourceStorageModeShared
        )
        if self.commands is None:
            raise out_of_memory("newIndirectCommandBufferWithDescriptor", f"{len(self.dispatches)} commands")
        for number in range(len(self.dispatches)):
            self.encode(number)
        is_forgetful = FORGETFUL.search(device.name) is not None
        self.reminders = list({id(d.pipeline): d.pipeline for d in self.dispatches}.values()) if is_forgetful else []

    def encode(self, number: int) -> None:
        """Write one command."""
        each, metal = self.dispatches[number], self.stream.device.metal
        command = self.commands.indirectComputeCommandAtIndex_(number)
        # Commands do not wait for each other by themselves, and the barrier must be set before the dispatch.
        if each.behind:
            command.setBarrier()
        command.setComputePipelineState_(each.pipeline)
        for index in range(len(each.arguments)):
            self.bind(command, number, index)
        grid, block = metal.MTLSizeMake(*each.grid), metal.MTLSizeMake(*each.block)
        if each.counts_threads:
            command.concurrentDispatchThreads_threadsPerThreadgroup_(grid, block)
        else:
            command.concurrentDispatchThreadgroups_threadsPerThreadgroup_(grid, block)

    def bind(self, command: Any, number: int, index: int) -> None:
        """Bind one argument of one command."""
        value = self.dispatches[number].arguments[index]
        command.setKernelBuffer_offset_atIndex_(*self.arguments.place(number, index, value), index)

    def launch(self, stream: MetalStream | None = None) -> None:
        """Commit the step behind everything that was launched on the stream before it.

        Raises
        ------
        ValueError
            `stream` is not the stream that the replay was made for.
        """
        stream = stream or self.stream
        if stream is not self.stream:
            raise ValueError("a replay is launched on the stream it was made for")
        stream.flush()
        metal, heap = stream.device.metal, stream.device.heap
        with stream.command(self) as encoder:
            # The buffers that an indirect command binds are not resident unless they are named here.
            for buffer in heap.buffers:
                encoder.useResource_usage_(buffer, metal.MTLResourceUsageRead | metal.MTLResourceUsageWrite)
            for pipeline in self.reminders:
                encoder.setComputePipelineState_(pipeline)
                encoder.dispatchThreadgroups_threadsPerThreadgroup_(
                    metal.MTLSizeMake(0, 0, 0), metal.MTLSizeMake(0, 0, 0)
                )
            encoder.executeCommandsInBuffer_withRange_(self.commands, (0, len(self.dispatches)))
        self.last = stream.in_flight[-1]

    @property
    def busy(self) -> bool:
        """Whether a launch is still in flight."""
        return self.last is not None and self.last.busy

    def wait(self) -> None:
        """Wait until no launch is in flight."""
        if self.last is not None:
            self.last.wait()
            self.last = None

    def patch(self, recording: Recording) -> int:
        """Give the commands the arguments of a recording of the same key, after the last launch has finished.

        Returns
        -------
        int
            The number of commands that changed.

        Raises
        ------
        ValueError
            The recording has another key.
        """
        if not recording.same_key(self.recording):
            raise ValueError("the recording has other kernels, dimensions or edges")
        self.wait()
        before, self.dispatches = self.dispatches, dispatches(recording, self.stream.device)
        self.recording = recording
        changed = [n for n, (a, b) in enumerate(zip(before, self.dispatches)) if a.arguments != b.arguments]
        for number in changed:
            command = self.commands.indirectComputeCommandAtIndex_(number)
            pairs = zip(before[number].arguments, self.dispatches[number].arguments)
            for index, (old, new) in enumerate(pairs):
                if old != new and isinstance(new, bytes):
                    self.arguments.write(number, index, new)
                elif old != new:
                    self.bind(command, number, index)
        return len(changed)
