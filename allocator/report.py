"""Reports: who holds how much device memory, and what grows from step to step."""

from __future__ import annotations

import json
import weakref
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hiprt.allocator.arena import Arena
from hiprt.allocator.external import external
from hiprt.allocator.holder import Holder, holders
from hiprt.allocator.pool import Pool, default_pool
from hiprt.buffer import Buffer, observers
from hiprt.caller import caller

__all__ = ["MemoryReport", "Row", "Slot", "StepRow", "Watch", "memory_report", "stats", "watch"]


MOST_SLOTS = 4  # lines of a step's graphs in the table


@dataclass(frozen=True)
class Row:
    """Sizes in bytes of a part of the memory.

    Attributes
    ----------
    name : str
        ``device`` for all of it, a step's name, or a stream's.
    allocated : int
        Memory in use. In the device's row, a step's whole memory counts.
    reserved : int
        Memory in use or free.
    peak : int or None
        High-water mark of ``allocated``; streams have none of their own.
    fragmentation : float or None
        Part of the free memory that is not in the largest free block.
    retiring : int or None
        Free memory that only the stream that freed it may have.
    """

    name: str
    allocated: int
    reserved: int
    peak: int | None = None
    fragmentation: float | None = None
    retiring: int | None = None


@dataclass(frozen=True)
class Slot:
    """How the intermediates and results of one kept graph share memory.

    Attributes
    ----------
    planned : int
        Size of the block that they lie in, in bytes.
    lower_bound : int
        The most bytes of them that may be live at once; no plan is smaller.
    """

    planned: int
    lower_bound: int


@dataclass(frozen=True)
class StepRow(Row):
    """Sizes of the memory of all steps of one name, for all arguments that they are kept for.

    Attributes
    ----------
    memories : int
        How many pools and arenas these are. Sizes are sums over them, the peak too.
    slots : list of Slot
        One slot for each kept graph, and for each part of a split step. Graphs of a step that is recorded at each call
        share its pool and have none.
    overflows : int
        How often a step that is recorded at each call asked for more than all calls before had left it, and got it
        from the device's pool. Kept steps get their memory when all their requests are known, and cannot overflow.
    """

    memories: int = 1
    slots: list[Slot] = field(default_factory=list)
    overflows: int = 0


@dataclass(frozen=True)
class MemoryReport:
    """What a pool holds. Printing gives a table, and `json` an object for machines.

    Attributes
    ----------
    device : Row
        Everything that the pool holds.
    steps : list of StepRow
        The memory of steps that have held any: a row for each name, the one that holds the most first.
    streams : list of Row
        The memory that each stream used last, pools of steps included.
    external : Row
        Memory that others own, which is no part of the device's row.
    drains : int
        How often a request waited because too much was retiring (``HIPRT_ALLOC_DEFER_MAX_MB``).
    """

    device: Row
    steps: list[StepRow]
    streams: list[Row]
    external: Row
    drains: int

    def json(self) -> str:
        """Return the report as a JSON object."""
        return json.dumps(asdict(self))

    def __str__(self) -> str:
        rows = [self.device, *self.steps, *self.streams, *([self.external] if self.external.peak else [])]
        times = {id(row): f" x {row.memories}" for row in self.steps if row.memories > 1}
        names = [row.name + times.get(id(row), "") for row in rows]
        width = max(map(len, names))
        lines = [f"{'':{width}}  {'allocated':>14} {'reserved':>14} {'peak':>14} {'retiring':>14} {'fragmented':>10}"]
        for name, row in zip(names, rows):
            peak = "" if row.peak is None else f"{row.peak:,}"
            part = "" if row.fragmentation is None else f"{row.fragmentation:.0%}"
            wait = "" if row.retiring is None else f"{row.retiring:,}"
            lines.append(f"{name:{width}}  {row.allocated:>14,} {row.reserved:>14,} {peak:>14} {wait:>14} {part:>10}")
        for row in self.steps:
            kinds = sorted(Counter(row.slots).items(), key=lambda item: -item[0].planned * item[1])
            for slot, count in kinds[:MOST_SLOTS]:
                graphs = "a graph" if count == 1 else f"{count} graphs, each"
                lines.append(
                    f"{row.name}: {graphs} in {slot.planned:,} bytes, of which {slot.lower_bound:,} may be live at once"
                )
            if rest := sum(count for _, count in kinds[MOST_SLOTS:]):
                lines.append(f"{row.name}: {rest} more graphs in less")
            if row.overflows:
                lines.append(f"{row.name}: {row.overflows} times a call asked for more than those before")
        if self.drains:
            lines.append(f"{self.drains} times a request waited because more retired than HIPRT_ALLOC_DEFER_MAX_MB")
        return "\n".join(line.rstrip() for line in lines)


def memory_report(pool: Pool | None = None) -> MemoryReport:
    """Measure a pool.

    Parameters
    ----------
    pool : Pool, optional
        `default_pool` by default.

    Returns
    -------
    MemoryReport
    """
    whole = pool or default_pool
    inner: dict[str, list[Holder]] = {}
    for each in holders():
        if each.parent is whole and each.chunks:
            inner.setdefault(each.name, []).append(each)
    steps = sorted((step_row(group) for group in inner.values()), key=lambda row: (-row.reserved, row.name))
    used: Counter[int] = Counter()
    reserved: Counter[int] = Counter()
    for block in whole.blocks():
        reserved[block.stream] += block.nbytes
        used[block.stream] += block.nbytes * block.is_used
    streams = [Row(f"stream {number}", used[number], reserved[number]) for number in sorted(reserved)]
    return MemoryReport(row_of(whole), steps, streams, row_of(external), whole.drains + external.drains)


def row_of(holder: Holder) -> Row:
    """Return the row of a pool or an arena."""
    sizes = holder.stats()
    retiring = sizes.retiring if holder.parent is None else None
    return Row(holder.name, sizes.allocated, sizes.reserved, sizes.peak, sizes.fragmentation, retiring)


def step_row(memories: Sequence[Holder]) -> StepRow:
    """Return the row of the memory of all steps of one name."""
    rows = [row_of(memory) for memory in memories]
    slots = [Slot(p.nbytes, p.lower_bound) for memory in memories if isinstance(memory, Arena) for p in memory.plans]
    return StepRow(
        rows[0].name,
        sum(row.allocated for row in rows),
        sum(row.reserved for row in rows),
        sum(row.peak or 0 for row in rows),
        rows[0].fragmentation if len(rows) == 1 else None,
        memories=len(rows),
        slots=slots,
        overflows=sum(memory.overflows for memory in memories if isinstance(memory, Pool)),
    )


def stats(pool: Pool | None = None) -> dict[str, Any]:
    """Measure a pool, in plain values.

    Parameters
    ----------
    pool : Pool, optional
        `default_pool` by default.

    Returns
    -------
    dict
        ``allocated``, ``reserved``, ``peak`` (the high-water mark of ``allocated``) and ``retiring`` in bytes,
        ``fragmentation``, ``drains``; ``steps``, ``streams`` and ``external`` as in `MemoryReport`, each row a dict.
        A step's row has ``slots``, with ``planned`` and ``lower_bound`` for each kept graph, and ``overflows``.

    See Also
    --------
    Pool.stats : The sizes alone, at less cost.
    """
    report = asdict(memory_report(pool))
    return {**report.pop("device"), **report}


class Watch:
    """A watch finds what grows, from samples taken once a step, after the same work each time.

    Parameters
    ----------
    pool : Pool
    sites : bool
        Whether to note where each buffer is made from now on, so that the line of the program is named as well. This
        costs some microseconds a buffer, until `close`.

    Examples
    --------
    >>> leaks = watch()
    >>> for token in range(20):
    ...     step()
    ...     leaks.mark()
    >>> leaks.growing()
    {}
    """

    def __init__(self, pool: Pool, *, sites: bool = False) -> None:
        self.pool = pool
        self.samples: list[Counter[str]] = []
        self.sites: weakref.WeakKeyDictionary[Buffer, str] = weakref.WeakKeyDictionary()
        if sites:
            observers.append(self.note)
        self.mark()

    def note(self, buffer: Buffer) -> None:
        """Note the line that asked for a buffer."""
        self.sites[buffer] = str(caller() or "unknown")

    def close(self) -> None:
        """Note sites no longer."""
        if self.note in observers:
            observers.remove(self.note)

    def mark(self) -> None:
        """Take a sample at the end of a step."""
        sample: Counter[str] = Counter()
        for name, block in self.pool.holders():
            sample[f"{name}, blocks of {block.nbytes} bytes"] += block.nbytes
        for buffer, line in list(self.sites.items()):
            sample[line] += buffer.nbytes
        self.samples.append(sample)

    def growing(self, warm_up: int = 2) -> dict[str, float]:
        """Name what never shrank and grew in both halves of the time since the warm-up.

        Parameters
        ----------
        warm_up : int
            Samples to leave out at the start.

        Returns
        -------
        dict
            What grows (holder and block size, or the line that made the buffers) to bytes a step, the most first.
        """
        samples = self.samples[warm_up:]
        steps = len(samples) - 1
        found: dict[str, float] = {}
        for name in set().union(*samples):
            sizes = [sample[name] for sample in samples]
            half = sizes[steps // 2]
            if sizes == sorted(sizes) and sizes[0] < half < sizes[-1]:
                found[name] = (sizes[-1] - sizes[0]) / steps
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def __str__(self) -> str:
        lines = [f"{name}: {nbytes:,.0f} bytes a step" for name, nbytes in self.growing().items()]
        return "\n".join(lines) or "nothing grows"


def watch(pool: Pool | None = None, *, sites: bool = False) -> Watch:
    """Watch for leaks from now on.

    Parameters
    ----------
    pool : Pool, optional
        `default_pool` by default.
    sites : bool
        Whether to name the lines that make the buffers as well.
    """
    return Watch(pool or default_pool, sites=sites)
