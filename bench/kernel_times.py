"""The kernels of a step, each timed by itself: all nodes of one kernel run in turn as one graph.

A kernel that takes what the one before leaves early, while that is at work, is timed together with it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hiprt import Stream, use_stream
from hiprt.bench.table import text_table
from hiprt.bench.timing import Apart, join
from hiprt.graphs import Recording
from hiprt.graphs.launch.timing import microseconds
from hiprt.graphs.record.declarations import declared
from hiprt.graphs.record.node import Node

__all__ = ["Kernel", "kernel_table", "kernel_times"]

# The names of these kernels begin like this; they read a part of what they declare, chosen by indices or a position.
PARTIAL = (
    "attention", "dequantize_cache", "gather", "kv_write", "moe", "norm_rope", "paged_attention", "prefill_attention",
    "quantized_attention", "quantized_embedding", "streamed_attention", "take", "wgmma_attention",
)  # fmt: skip

# The product that leaves a router's logits early, and the kernel that chooses experts by them.
TOGETHER = ("qmv_router", "moe_routed_gate_up")


@dataclass(frozen=True)
class Kernel:
    """One kernel of the step, or of a prompt.

    Attributes
    ----------
    name : str
        With ``+`` between those of kernels that are timed together.
    grid, block : tuple of 3 int
        The shape of the largest launch.
    nodes : int
        How many nodes of the step launch it.
    us : float
        The time of all its nodes together.
    share : float
        Its part of the time of all kernels, from 0 to 1.
    gb_s : float or None
        The bytes that it declares over its time; None for kernels that touch a part of those bytes.
    nbytes : int or None
        These bytes, of all its nodes.
    bandwidth : float or None
        The part of the device's read bandwidth, from 0 to 1.
    tflops : float or None
        The additions and multiplications of its rows with whole matrices over its time; None where it has no matrix.
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    nodes: int
    us: float
    share: float
    gb_s: float | None
    nbytes: int | None
    bandwidth: float | None
    tflops: float | None


def kernel_times(
    issue: Callable[[], Any], reset: Callable[[], Any], stream: Stream, work: Mapping[int, float], bandwidth: float
) -> list[Kernel]:
    """Time the kernels of what is launched on a stream, with the arguments that they have there.

    Parameters
    ----------
    issue : callable
        Launches the step.
    reset : callable
        Brings what the step reads and advances back to where it begins; it is called before each kernel is timed.
    stream : Stream
    work : mapping of int to float
        The operations of each matrix, by the address of its codes, as `model_matrices.operations` returns them.
    bandwidth : float
        The device's read bandwidth in GB/s.

    Returns
    -------
    list of Kernel
        The one that takes the most time first.
    """
    recording = Recording(Apart())  # type: ignore[arg-type]
    reset()
    with use_stream(stream), recording.record(stream):
        issue()
    recording.run(stream)
    groups: defaultdict[str, list[int]] = defaultdict(list)
    nodes = recording.nodes()
    are_together = {node.name for node in nodes}.issuperset(TOGETHER)
    for index, node in enumerate(nodes):
        groups["+".join(TOGETHER) if are_together and node.name in TOGETHER else node.name].append(index)
    taken = {}
    for name, group in groups.items():
        reset()
        taken[name] = microseconds(join(recording, group), stream)
    # An array that stands in for one that was not given is declared twice.
    pieces = [set(declared(recording, index)) for index in range(len(nodes))]
    # A product of many rows may be several nodes, which share its rows evenly.
    times = Counter(
        start for node, own in zip(nodes, pieces) if not node.name.startswith(PARTIAL) for start, _, _ in own
    )
    work = {start: count / times[start] for start, count in work.items() if start in times}
    total = sum(taken.values())
    order = sorted(taken, key=lambda name: -taken[name])
    found = []
    for name in order:
        group, us = groups[name], taken[name]
        touched = [each for i in group for each in pieces[i]]
        found.append(entry(name, [nodes[i] for i in group], touched, us, us / total, work, bandwidth))
    return found


def entry(
    name: str,
    nodes: list[Node],
    touched: list[tuple[int, int, int]],
    us: float,
    share: float,
    work: Mapping[int, float],
    bandwidth: float,
) -> Kernel:
    """Return what the report says of one kernel, given its nodes, the bytes that they declare, and their time."""
    largest = max(nodes, key=lambda node: int(np.prod(node.grid)))
    is_partial = any(node.name.startswith(PARTIAL) for node in nodes)
    nbytes = None if is_partial else sum(end - start for start, end, _ in touched)
    rate = None if nbytes is None else nbytes / us / 1e3
    flops = 0 if nbytes is None else sum(work.get(start, 0) for start, _, _ in touched)
    return Kernel(
        name,
        largest.grid,
        largest.block,
        len(nodes),
        round(us, 3),
        round(share, 4),
        None if rate is None else round(rate, 1),
        nbytes,
        None if rate is None else round(rate / bandwidth, 4),
        round(flops / us / 1e6, 6) if flops else None,
    )


def kernel_table(timed: list[Kernel]) -> str:
    """Return a line for each kernel, and one for their sum."""
    rows = [
        (
            each.name,
            f"{each.nodes}",
            f"{each.us:.2f}",
            f"{each.share:.0%}",
            "" if each.nbytes is None else f"{each.nbytes / 1e6:.3f}",
            "" if each.gb_s is None else f"{each.gb_s:.0f}",
            "" if each.bandwidth is None else f"{each.bandwidth:.0%}",
            "" if each.tflops is None else f"{each.tflops:.3g}",
            f"{each.grid}, {each.block}",
        )
        for each in timed
    ]
    total = ("sum", f"{sum(each.nodes for each in timed)}", f"{sum(each.us for each in timed):.2f}")
    names = ("kernel", "nodes", "us", "share", "MB", "GB/s", "of reads", "TFLOP/s", "largest grid, block")
    return text_table(names, [*rows, total])
