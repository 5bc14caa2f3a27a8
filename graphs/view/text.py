"""Views as text for a terminal."""

from __future__ import annotations

import io
import math
import shutil
from collections.abc import Iterable, Sequence
from typing import Any

from hiprt.graphs.view.compare import Comparison
from hiprt.graphs.view.figures import Figures, bands_of

__all__ = ["comparison_text", "graph_text"]

MOST_ROWS = 12
LANES, NARROWEST = 16, 80  # lines of the drawing of memory; characters of a terminal of unknown width
BAR = 40


def graph_text(figures: Figures, width: int = 0) -> str:
    """Return a graph as text: its sums, kernels, critical path, memory and launches."""
    parts = [
        title(figures),
        table(("", ""), summary(figures), width=width, left=(0, 1)),
        table(("kernel", "nodes", "us", "floor", "GB/s", "share"), kernel_rows(figures), width=width),
        path_text(figures, width),
        memory_text(figures, width),
        ladder_text(figures, width),
    ]
    return "\n\n".join(part for part in parts if part)


def title(figures: Figures) -> str:
    """Return the heading of a graph."""
    machine = figures.run.machine
    place = f" on {machine['device']} ({machine['provider']})" if machine else ""
    return f"{figures.name} [{figures.key}] of {figures.run.name}{place}"


def number(value: float | None, digits: int = 1) -> str:
    """Return a number as text, or a dash for none."""
    return "-" if value is None else f"{value:,.{digits}f}"


def size(nbytes: float) -> str:
    """Return bytes in the unit that suits them."""
    for unit in ("B", "KiB", "MiB"):
        if nbytes < 1024:
            return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.2f} GiB"


def share(value: float | None) -> str:
    """Return a part of the measured bandwidth as text."""
    return "-" if value is None else f"{value:.0%}" if value <= 1 else "> 100%"


def summary(figures: Figures) -> list[tuple[str, str]]:
    """Return names and values of what a graph is as a whole."""
    plan, ladder = figures.schedule, figures.ladder
    rows = [
        ("nodes, edges", f"{len(figures.nodes):,}, {len(figures.graph['edges']):,}"),
        ("a launch on the device", f"{number(ladder.device_us)} us" if ladder.device_us is not None else "-"),
        ("all nodes, one by one", f"{number(figures.total_us)} us" if figures.us is not None else "-"),
        ("critical path", f"{number(plan.length)} {figures.unit}, {len(plan.critical):,} nodes"),
        ("distinct bytes", size(figures.distinct_bytes)),
    ]
    if figures.bandwidth:
        rows += [
            ("read bandwidth", f"{figures.bandwidth:,.0f} GB/s, measured"),
            ("floor of the bytes", f"{number(figures.floor_us)} us"),
        ]
    return [*rows, ("node times", figures.graph["node_times"])]


def kernel_rows(figures: Figures) -> list[tuple[str, ...]]:
    """Return a row for each kernel, and one for those that are left out."""
    rows: list[tuple[str, ...]] = [
        (row.name, f"{row.nodes:,}", number(row.us), number(row.floor_us), number(row.gb_s, 0), share(row.share))
        for row in figures.kernels[:MOST_ROWS]
    ]
    rest = figures.kernels[MOST_ROWS:]
    if rest:
        us = None if figures.us is None else sum(row.us or 0.0 for row in rest)
        rows.append((f"… {len(rest)} more", f"{sum(row.nodes for row in rest):,}", number(us)))
    return rows


def path_text(figures: Figures, width: int) -> str:
    """Return the critical path: its most expensive nodes, in order, with the lines that launched them."""
    path = figures.schedule.critical
    times = figures.us or [1.0] * len(figures.nodes)
    chosen = sorted(sorted(path, key=lambda i: -times[i])[:MOST_ROWS])
    rows = []
    for i in chosen:
        caller = figures.caller(i)
        rows.append((f"{i} {figures.nodes[i]['kernel_name']}", number(times[i]), caller.rsplit("/", 1)[-1]))
    head = f"critical path, {'all' if len(chosen) == len(path) else 'the longest'} {len(chosen)} of {len(path)}"
    return table((head, figures.unit, "launched by"), rows, width=width, left=(0, 2)) if rows else ""


def memory_text(figures: Figures, width: int) -> str:
    """Draw the block of the intermediates: offsets downwards, nodes to the right, a letter for each chain in place.

    Lines are not of one size (`bands_of`); each says where it begins.
    """
    memory = figures.graph["memory"]
    if memory is None:
        return ""
    values, nodes = memory["values"], max(1, len(figures.nodes))
    columns = max(10, min(nodes, (width or terminal()) - 14))
    bands = dict(bands_of(memory))
    lines = min(LANES, max(1, len(bands) - 1))
    picture = [[" "] * columns for _ in range(lines)]
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    for i, value in enumerate(values):
        head = i if value["over"] is None else value["over"]
        letter = letters[head % len(letters)]
        last = nodes - 1 if value["is_result"] else value["last"]
        top = min(lines - 1, int(bands[value["offset"]] * lines))
        bottom = max(top + 1, math.ceil(bands[value["offset"] + value["bytes"]] * lines - 1e-9))
        for line in picture[top:bottom]:
            for column in range(value["first"] * columns // nodes, last * columns // nodes + 1):
                line[column] = letter
    begins = [min(offset for offset, place in bands.items() if place * lines >= i - 1e-9) for i in range(lines)]
    body = [f"{size(begin):>10}  {''.join(line).rstrip()}" for begin, line in zip(begins, picture)]
    over = sum(value["over"] is not None for value in values)
    head = (
        f"memory: {len(values)} intermediates in {size(memory['bytes'])} (no plan is below "
        f"{size(memory['lower_bound'])}), {over} written in place; nodes to the right"
    )
    return "\n".join([head, *body])


def ladder_text(figures: Figures, width: int) -> str:
    """Return which rungs launches took, what they cost, and why they were not replays."""
    ladder = figures.ladder
    if not ladder.rungs:
        return ""
    most = max(ladder.rungs.values())
    rows = [
        (rung, f"{count:,}", number(ladder.host_us[rung]), "█" * max(1, round(count / most * BAR)))
        for rung, count in ladder.rungs.items()
    ]
    text = table(("rung", "launches", "host us", ""), rows, width=width, left=(0, 3))
    why = [
        (rung, f"{count:,}", reason, difference) for rung, reason, difference, count in ladder.reasons[: 2 * MOST_ROWS]
    ]
    if not why:
        return text
    more = len(ladder.reasons) - len(why)
    tail = f"\n… {more} more reasons" if more else ""
    return f"{text}\n\n{table(('rung', 'times', 'why', 'first difference'), why, width=width, left=(0, 2, 3))}{tail}"


def comparison_text(found: Comparison, width: int = 0) -> str:
    """Return what is different between two graphs as text."""
    one, other = found.before, found.after
    rows = [(name, text, dict(summary(other)).get(name, "-")) for name, text in summary(one) if name != "node times"]
    parts = [
        f"{one.run.name} -> {other.run.name}: {one.name} [{one.key}] -> {other.name} [{other.key}]",
        table(("", one.run.name, other.run.name), rows, width=width),
        f"the first node that differs: {found.first_node or 'none, they have the same nodes'}",
    ]
    kernels = []
    for name, before, after in found.kernels[:MOST_ROWS]:
        us = [row.us if row else 0.0 for row in (before, after)]
        change = None if None in us else us[1] - us[0]  # type: ignore[operator]
        counts = [str(row.nodes) if row else "0" for row in (before, after)]
        sign = "" if change is None or change < 0 else "+"
        kernels.append((name, *counts, number(us[0]), number(us[1]), "-" if change is None else f"{sign}{change:,.1f}"))
    parts.append(table(("kernel", "nodes", "then", "us", "then", "change"), kernels, width=width))
    rungs = sorted({*one.ladder.rungs, *other.ladder.rungs})
    taken = [(rung, *(f"{each.ladder.rungs.get(rung, 0):,}" for each in (one, other))) for rung in rungs]
    if taken:
        parts.append(table(("rung", one.run.name, other.run.name), taken, width=width))
    return "\n\n".join(parts)


def terminal() -> int:
    """Return how many characters a line of the terminal has."""
    return max(NARROWEST, shutil.get_terminal_size((120, 40)).columns)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, width: int = 0, left: Sequence[int] = (0,)) -> str:
    """Return rows in columns; those at the places in `left` hold text, and the others numbers."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(head))
    for place, name in enumerate(head):
        options: dict[str, Any] = {"justify": "left" if place in left else "right", "overflow": "fold"}
        made.add_column(name, no_wrap=place not in left, **options)
    for row in rows:
        made.add_row(*map(Text, row))
    page = io.StringIO()
    Console(file=page, width=width or terminal()).print(made)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines())
