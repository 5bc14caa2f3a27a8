"""Streams on Metal: launches are recorded, and committed as one command buffer when somebody waits for them.

Never run on Apple hardware.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from hiprt import core
from hiprt.allocator import Arena
from hiprt.flags import flags
from hiprt.graphs.record.recording import Recording
from hiprt.metal_compat.apple.command import Command
from hiprt.metal_compat.apple.device import MetalDevice
from hiprt.metal_compat.apple.dispatches import Arguments, dispatches
from hiprt.metal_compat.apple.encoder import encode
from hiprt.stream import Move, Stream, use_stream

__all__ = ["MetalStream"]

HOST_TO_DEVICE, DEVICE_TO_HOST = core.lib.hipMemcpyHostToDevice, core.lib.hipMemcpyDeviceToHost


class MetalStream(Stream):
    """A queue of a Metal device, with the interface of `hiprt.Stream`.

    Work of one stream runs in order; `synchronize` orders work of several.

    Parameters
    ----------
    device : MetalDevice
    """

    device: MetalDevice

    def __init__(self, device: MetalDevice) -> None:
        self.device = device
        self.owned = True
        self.attach(0)
        self.queue = device.handle.newCommandQueue()
        self.fence = device.handle.newFence()
        self.in_flight: deque[Command] = deque()
        self.committed = 0
        self.pending: Recording | None = None
        self.recorded: Recording | None = None
        self.may_leave = False
        self.begin()

    def begin(self) -> None:
        """Collect launches from now on; they are committed together."""
        self.pending = Recording()
        core.lib.hiprt_recorder_limit(self.pending.core, flags.graph_max_nodes, flags.graph_max_bytes)
        self.pending.start(self, is_shared=True)
        self.memory = self.device.heap

    def flush(self) -> None:
        """Commit the launches since the last commit.

        Raises
        ------
        ValueError
            Metal cannot run one of the launches; none of them is committed.
        """
        recording = self.pending
        if recording is None:
            raise RuntimeError("a step that is being recorded has not run yet")
        if not len(recording):
            return
        recording.stop(self)
        self.begin()
        self.commit(recording)

    def commit(self, recording: Recording) -> None:
        """Commit a recording as one command buffer that runs once."""
        if len(recording):
            work = dispatches(recording, self.device)
            arguments = Arguments(work, self)
            with self.command((recording, arguments)) as encoder:
                encode(self.device.metal, encoder, work, arguments)

    @contextmanager
    def command(self, keep: Any) -> Iterator[Any]:
        """Commit one command buffer with what the block encodes, ordered behind the one before.

        Parameters
        ----------
        keep : object
            An object that is kept until the command buffer has run.

        Yields
        ------
        MTLComputeCommandEncoder
        """
        self.reap()
        metal = self.device.metal
        buffer = self.queue.commandBuffer()
        encoder = buffer.computeCommandEncoderWithDispatchType_(metal.MTLDispatchTypeConcurrent)
        try:
            # The heap is untracked: without the fence Metal may run two command buffers at once.
            if self.committed:
                encoder.waitForFence_(self.fence)
            yield encoder
            encoder.updateFence_(self.fence)
        finally:
            encoder.endEncoding()
        buffer.commit()
        self.committed += 1
        self.in_flight.append(Command(metal, buffer, keep))

    def reap(self) -> None:
        """Drop the command buffers that have finished."""
        while self.in_flight and not self.in_flight[0].busy:
            self.in_flight.popleft().wait()

    def synchronize(self) -> None:
        """Commit all launches, and wait until everything has run.

        Raises
        ------
        HipError
            Work failed on the GPU.
        """
        self.flush()
        while self.in_flight:
            self.in_flight.popleft().wait()

    @contextmanager
    def record(self, *, may_leave: bool = False) -> Iterator[Recording]:
        """Record the launches of this thread on the stream within the block for a `Replay`; none of them runs.

        Parameters
        ----------
        may_leave : bool
            Whether a host read in the block commits what was recorded and ends the recording, instead of raising.

        Yields
        ------
        Recording
            The recording. Its intermediates share one block of the heap, which is laid out when the block ends.
        """
        self.flush()
        assert self.pending is not None
        self.pending.stop(self)
        self.pending, self.may_leave = None, may_leave
        arena = Arena(self.device.heap.allocate, "Metal step")
        self.recorded = recording = Recording(arena)
        recording.start(self, is_shared=True)
        try:
            with use_stream(self):
                yield recording
            if self.pending is None:
                self.end_record()
        finally:
            if self.pending is None:
                recording.stop(self)
                self.begin()
            self.recorded = None
            arena.abandon(self)

    def end_record(self) -> Recording:
        """Lay out the memory of the recording, and collect launches again."""
        assert self.recorded is not None
        recording = self.recorded
        recording.stop(self)
        recording.settle(self)
        self.begin()
        return recording

    def copy(self, target: int, source: int, nbytes: int, kind: int, *, to: Any = None, of: Any = None) -> None:
        """Copy memory in stream order; a copy from or to the host waits for the stream."""
        if kind in (HOST_TO_DEVICE, DEVICE_TO_HOST):
            self.copy_host(target, source, nbytes, kind)
        else:
            super().copy(target, source, nbytes, kind, to=to, of=of)

    def copy_host(self, target: int, source: int, nbytes: int, kind: int) -> None:
        """Copy between the host's memory and the heap, which the host can address as well."""
        self.synchronize()
        is_read = kind == DEVICE_TO_HOST
        host = memoryview((ctypes.c_ubyte * nbytes).from_address(target if is_read else source)).cast("B")
        view = self.device.heap.view(source if is_read else target, nbytes)
        if is_read:
            host[:] = view
        else:
            view[:] = host

    def make_room(self, status: int) -> Sequence[Move]:
        """Commit launches that have reached ``HIPRT_GRAPH_MAX_NODES`` or ``_BYTES``; else raise. Nothing moves."""
        if status != core.lib.HIPRT_E_FULL or self.pending is None:
            raise core.failure(status)
        self.flush()
        return ()

    def outside(self, reason: str, array: Any = None) -> AbstractContextManager[None]:
        """Do the block's work between launches. A recording that may be left ends first.

        Raises
        ------
        RuntimeError
            The recording may not be left.
        """
        if self.pending is None:
            if not self.may_leave:
                raise RuntimeError(f"{reason}: not while a step is recorded for a Replay")
            self.commit(self.end_record())
        return nullcontext()

    @property
    def launches(self) -> int:
        """The number of command buffers committed so far."""
        return self.committed

    def close(self) -> None:
        """Wait for the stream's work."""
        if self.owned:
            self.owned = False
            self.synchronize()

    def __repr__(self) -> str:
        return f"MetalStream({self.device.name})"
