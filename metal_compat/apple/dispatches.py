"""Dispatches: the form in which Metal runs a recording, with barriers from its edges. Never run on Apple hardware."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from hiprt.graphs.record.node import Node
from hiprt.graphs.record.recording import Recording
from hiprt.metal_compat.apple.copy_kernels import COPY, FILL, RUN, THREADS
from hiprt.metal_compat.apple.device import MetalDevice
from hiprt.metal_compat.apple.library import Bindings, MetalModule, Sizes
from hiprt.module import Argument, Function
from hiprt.stream import Stream

__all__ = ["Arguments", "Dispatch", "barriers", "dispatches"]

SLOTS = 31  # buffers that a Metal function may have
ALIGNMENT = 32  # bytes that values in constant memory are aligned to, on any GPU that Metal serves


@dataclass(frozen=True)
class Dispatch:
    """One kernel with its arguments.

    Attributes
    ----------
    pipeline : MTLComputePipelineState
    grid, block : tuple of 3 int
        The threadgroups, and the threads of each.
    counts_threads : bool
        Whether `grid` counts threads instead, so that threadgroups at its edges are smaller.
    arguments : tuple of int or bytes
        A buffer's address or a value's bytes for each binding index.
    behind : bool
        Whether everything before it must have finished.
    """

    pipeline: Any
    grid: Sizes
    block: Sizes
    counts_threads: bool
    arguments: Bindings
    behind: bool


def barriers(dependencies: Sequence[Sequence[int]]) -> list[bool]:
    """Return for each node whether a barrier comes before it, because it waits for a node since the last barrier.

    Parameters
    ----------
    dependencies : sequence
        The earlier nodes that each node waits for.
    """
    first, found = 0, []
    for index, earlier in enumerate(dependencies):
        is_behind = any(k >= first for k in earlier)
        first = index if is_behind else first
        found.append(is_behind)
    return found


def dispatches(recording: Recording, device: MetalDevice) -> list[Dispatch]:
    """Return the dispatches of a recording's nodes; an empty node, which all later ones wait for, becomes a barrier.

    Raises
    ------
    ValueError
        A node is nothing that Metal can run.
    """
    nodes = recording.nodes()
    places = barriers([node.dependencies for node in nodes])
    return [dispatch(node, device, behind) for node, behind in zip(nodes, places) if node.kind != "empty"]


def dispatch(node: Node, device: MetalDevice, behind: bool) -> Dispatch:
    """Return one node's dispatch, checked against the pipeline's limits."""
    function, grid, block, values = READERS[node.kind](node, device)
    if not isinstance(function.module, MetalModule):
        raise ValueError(f"{node.name}: the kernel was not compiled for Metal")
    pipeline = function.module.pipeline(function.symbol)
    bindings = tuple(map(encoded, function.arguments, values))
    bindings, grid, block, counts_threads = function.module.arrange(bindings, grid, block)
    threads, most = block[0] * block[1] * block[2], int(pipeline.maxTotalThreadsPerThreadgroup())
    if threads > most:
        raise ValueError(
            f"Thread group size ({threads}) is greater than  the maximum allowed threads per threadgroup ({most})."
        )
    if node.shared or len(bindings) > SLOTS:
        raise ValueError(
            f"{node.name}: {node.shared} bytes of dynamic shared memory, {len(bindings)} buffers of {SLOTS}"
        )
    return Dispatch(pipeline, grid, block, counts_threads, bindings, behind)


def encoded(argument: Argument, value: Any) -> int | bytes:
    """Return an address as it is, and a value as bytes."""
    return int(value) if argument.access else struct.pack("<" + argument.format, value)


Read = tuple[Function, Sizes, Sizes, list[Any]]


def read_kernel(node: Node, device: MetalDevice) -> Read:
    """Read a kernel node."""
    return cast(Function, node.function), node.grid, node.block, list(node.arguments.values())


def groups(nbytes: int) -> Sizes:
    """Return the threadgroups that move so many bytes.

    Raises
    ------
    ValueError
        There are more than 32 bits can count.
    """
    if nbytes >= 1 << 32:
        raise ValueError(f"{nbytes} bytes are more than one copy or fill takes")
    return (-(-nbytes // (THREADS * RUN)), 1, 1)


def read_copy(node: Node, device: MetalDevice) -> Read:
    """Read a copy node."""
    nbytes = node.arguments["nbytes"]
    values = [node.arguments["src"], node.arguments["dst"], nbytes]
    return COPY.bind((), device), groups(nbytes), (THREADS, 1, 1), values


def read_fill(node: Node, device: MetalDevice) -> Read:
    """Read a fill node."""
    width = node.arguments["width"]
    nbytes = node.arguments["count"] * width
    values = [node.arguments["dst"], nbytes, node.arguments["value"], width]
    return FILL.bind((), device), groups(nbytes), (THREADS, 1, 1), values


READERS = {"kernel": read_kernel, "copy": read_copy, "fill": read_fill}


class Arguments:
    """The argument buffer of some dispatches, which holds the values of all of them in one piece of the heap.

    Indirect commands take buffers only, so values are bound by their place here. A new value is written over the old
    one and needs no new binding.

    Parameters
    ----------
    dispatches : list of Dispatch
    stream : Stream
        The Metal device's stream.
    """

    def __init__(self, dispatches: Sequence[Dispatch], stream: Stream) -> None:
        self.heap = cast(MetalDevice, stream.device).heap
        self.places: list[dict[int, int]] = []
        end = 0
        for each in dispatches:
            places = {}
            for index, value in enumerate(each.arguments):
                if isinstance(value, bytes):
                    places[index] = end
                    end += -(-len(value) // ALIGNMENT) * ALIGNMENT
            self.places.append(places)
        self.block = self.heap.allocate(end, stream)
        for number, each in enumerate(dispatches):
            for index, value in enumerate(each.arguments):
                if isinstance(value, bytes):
                    self.write(number, index, value)

    def write(self, number: int, index: int, value: bytes) -> None:
        """Give one argument of one dispatch its value; the GPU must not be reading it."""
        self.heap.view(self.block.address + self.places[number][index], len(value))[:] = value

    def place(self, number: int, index: int, value: int | bytes) -> tuple[Any, int]:
        """Return the MTLBuffer and the offset at which an argument is to be bound."""
        address = self.block.address + self.places[number][index] if isinstance(value, bytes) else value
        buffer, at = self.heap.place(address)
        return self.heap.buffers[buffer], at
