"""torch's device: its stream, and what it captures. torch for ROCm says ``cuda`` too."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, NamedTuple

import hiprt
from hiprt import dlpack, library
from hiprt.device import describe

__all__ = ["Captured", "Cuda"]


class Captured(NamedTuple):
    """What a function launched when it was captured.

    Attributes
    ----------
    graph : int
        The ``hipGraph_t``, which is its owner's.
    results : object
        What the function returned. Its tensors lie in memory of the owner's.
    owner : object
        Keeps the graph and the memory.
    """

    graph: int
    results: Any
    owner: Any


class Cuda:
    """One device of torch's.

    Parameters
    ----------
    index : int
        torch's number of the device, and HIP's.

    Raises
    ------
    RuntimeError
        The HIP library in use does not serve torch's device.
    """

    def __init__(self, index: int) -> None:
        import torch

        kind = dlpack.ROCM if torch.version.hip else dlpack.CUDA
        provider = library.current().provider
        if provider.dlpack_device != kind:
            raise RuntimeError(f"torch works on {'ROCm' if torch.version.hip else 'CUDA'}, and hiprt on {provider}")
        self.torch = torch
        self.index = index
        self.nothing = nullcontext() if torch.cuda.device_count() == 1 else None
        self.side = torch.cuda.Stream(index)  # captures, which the default stream does not allow
        self.streams: dict[int, hiprt.Stream] = {}
        self.handle = -1  # of torch's stream of the last call
        self.latest: Any = None  # that stream
        self.pool: Any = None  # for captures that teach, and the graph for which torch keeps it

    def current(self) -> AbstractContextManager[Any]:
        """Return a context in which this is torch's device; what hiprt calls leaves its own as the current one."""
        return self.nothing or self.torch.cuda.device(self.index)

    def stream(self) -> hiprt.Stream:
        """Return torch's current stream, which waits for the one of the last call: all graphs share intermediates."""
        handle = self.torch._C._cuda_getCurrentRawStream(self.index)
        if handle != self.handle:
            current = self.torch.cuda.current_stream(self.index)
            if self.latest is not None:
                current.wait_stream(self.latest)
            self.handle, self.latest = handle, current
            if handle not in self.streams:
                self.streams[handle] = hiprt.Stream.from_handle(handle, describe(self.index))
        return self.streams[handle]

    def seeds(self) -> bytes:
        """Return the state of torch's random numbers, of which a captured function must draw none."""
        return bytes(self.torch.cuda.default_generators[self.index].get_state().tolist())

    def copy(self, tensor: Any) -> Any:
        """Copy a tensor behind what is on the current stream."""
        return tensor.clone()

    def rehearse(self, function: Callable[[], Any]) -> Any:
        """Call a function on the stream that captures, in order with the current one, so that libraries are ready."""
        current = self.torch.cuda.current_stream(self.index)
        self.side.wait_stream(current)
        with self.torch.cuda.stream(self.side):
            results = function()
        current.wait_stream(self.side)
        for each in self.torch.utils._pytree.tree_leaves(results):
            if isinstance(each, self.torch.Tensor) and each.is_cuda:
                with suppress(NotImplementedError):  # of sparse ones: their memory is used again behind this stream
                    each.record_stream(current)
        return results

    def capture(self, function: Callable[[], Any], *, is_first: bool) -> Captured:
        """Capture what a function launches; nothing of it runs.

        Parameters
        ----------
        function : callable
        is_first : bool
            Whether intermediates get memory that no other capture has. All others share one pool, which grows once:
            memory that each of them took from the driver would cost more than the capture.

        Raises
        ------
        Exception
            What the function raises, or torch, where some of it cannot be captured.
        """
        if is_first:
            return self.captured(function, self.torch.cuda.graph_pool_handle())
        if self.pool is None:
            handle = self.torch.cuda.graph_pool_handle()
            self.pool = handle, self.captured(lambda: self.torch.zeros(1, device=self.side.device), handle)
        return self.captured(function, self.pool[0])

    def captured(self, function: Callable[[], Any], pool: Any) -> Captured:
        """Capture with memory of a pool of torch's."""
        graph = self.torch.cuda.CUDAGraph(keep_graph=True)
        with self.torch.cuda.stream(self.side):
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                results = function()
                graph.capture_end()
            except BaseException:
                self.abandon(graph, pool)
                raise
        return Captured(int(graph.raw_cuda_graph()), results, graph)

    def abandon(self, graph: Any, pool: Any) -> None:
        """End a capture that failed on the stream that captures, so that torch works on as it did before.

        Where CUDA has given the capture up, torch's ``capture_end`` fails before it has told torch's allocator, which
        would give no memory back from then on, and torch's random numbers, which could not be drawn any more. Another
        capture, of next to nothing, tells those.
        """
        with suppress(RuntimeError):
            graph.capture_end()
            return
        names = "_cuda_endAllocateToPool", "_cuda_endAllocateCurrentStreamToPool", "_cuda_releasePool"
        for name in names:  # the second is the first's older name; the newest torch has told the allocator already
            with suppress(AttributeError, RuntimeError):
                getattr(self.torch._C, name)(self.index, pool)
        with suppress(RuntimeError):
            other = self.torch.cuda.CUDAGraph(keep_graph=True)
            other.capture_begin(capture_error_mode="thread_local")
            self.torch.zeros(1, device=self.side.device)
            other.capture_end()
