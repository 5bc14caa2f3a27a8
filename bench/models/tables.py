"""The tables of a run, for people and in Markdown, and what differs from a run of before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from hiprt.bench.models.plan import Measurement
from hiprt.bench.models.report import Report, Result, is_replayed, key
from hiprt.bench.table import text_table

__all__ = ["Change", "changes", "markdown", "text"]

MODES = {
    "graph": "one graph a token",
    "rerecord": "recorded again",
    "eager": "eager",
    "compiled": "compiled",
}
NOTICED = 0.02  # the part by which a figure must differ to be told
NOT_REPLAYED = "*"
MOST_KERNELS = 8  # of a table
MOST_NAMED = 6  # measurements that were not made, of one reason


class Table(NamedTuple):
    """A table: what it is of, the titles of its columns, and its rows."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


class Change(NamedTuple):
    """What a measurement gives beside the same one of before."""

    measurement: Measurement
    old_tok_s: float
    new_tok_s: float
    faster: float


def rate(result: Result) -> float:
    """Return the tokens per second of a measurement: of all texts, or of a prompt."""
    return float(result["prompt_tok_s"] if result["mode"] == "prompt" else result["tok_s"])


def short(presets: Sequence[str]) -> dict[str, str]:
    """Return how presets are called in a table: by their size, where all have one that tells them apart."""
    sizes = [preset.partition("-")[2].upper() for preset in presets]
    is_told = len(set(sizes)) == len(sizes) and all(size[:1].isdigit() for size in sizes)
    return dict(zip(presets, sizes if is_told else presets))


def tables(report: Report) -> Iterator[Table]:
    """Yield the tables of a run; a row has a figure of each preset."""
    settings = report.settings
    presets = [each for each in settings.models if any(each == result["preset"] for result in report.measurements)]
    names = short(presets)
    by_key = {key(result): result for result in report.measurements}
    mode, batch, context = settings.modes[0], settings.batches[0], settings.contexts[0]

    def row(title: str, at: tuple[str, int, int], show: Callable[[Result], str]) -> Iterator[tuple[str, ...]]:
        found = [by_key.get((preset, *at)) for preset in presets]
        if any(found):
            cells = ["" if each is None else show(each) + NOT_REPLAYED * (not is_replayed(each)) for each in found]
            yield (title, *cells)

    def table(title: str, corner: str, *rows: Iterator[tuple[str, ...]]) -> Iterator[Table]:
        found = [cells for each in rows for cells in each]
        if found:
            yield Table(title, (corner, *(names[preset] for preset in presets)), found)

    def tok_s(result: Result) -> str:
        return number(rate(result))

    def over_one(result: Result) -> str:
        return f"{result['step_over_one']:.2f}" if "step_over_one" in result else ""

    first = mode, batch, context
    texts = "one text" if batch == 1 else f"{batch} texts"
    yield from table(
        f"Decode, {texts}, {context:,} tokens of context",
        "tok/s",
        *(row(MODES[each], (each, batch, context), tok_s) for each in settings.modes),
        row("us a step", first, lambda each: number(each["us_per_step"])),
        row("of it the host", first, lambda each: f"{each['host_us_per_step']:.1f}"),
        row("of the read bandwidth", first, lambda each: f"{each['share_of_bandwidth']:.0%}"),
    )
    yield from table(
        f"Several texts, {context:,} tokens of context each",
        "tok/s of all",
        *(row(f"{each} texts", (mode, each, context), tok_s) for each in settings.batches if each > 1),
        *(
            row(f"a step of {each} over one of 1", (mode, each, context), over_one)
            for each in settings.batches
            if each > 1 and 1 in settings.batches
        ),
    )
    longer = [cells for each in settings.contexts[1:] for cells in row(f"{each:,} tokens", (mode, batch, each), tok_s)]
    yield from table(
        f"Long contexts, {texts}",
        "tok/s",
        row(f"{context:,} tokens", first, tok_s) if longer else iter(()),
        iter(longer),
    )
    yield from table(
        "Prompts, with the first step behind them",
        "prompt",
        *(
            row(f"{each:,} tokens: ms", ("prompt", 1, each), lambda it: f"{it['first_token_ms']:.1f}")
            for each in settings.prompts
        ),
        *(row(f"{each:,} tokens: tok/s", ("prompt", 1, each), tok_s) for each in settings.prompts),
    )
    for result in report.measurements:
        if "kernels" in result:
            yield kernel_table(result)


def kernel_table(result: Result) -> Table:
    """Return the kernels of a step or of a prompt that take most of the time."""
    where = f"a prompt of {result['context']:,}" if result["mode"] == "prompt" else f"a step of {result['batch']}"
    rows = [
        (
            each["name"],
            f"{each['nodes']}",
            f"{each['us']:.1f}",
            f"{each['share']:.0%}",
            "" if each["bandwidth"] is None else f"{each['bandwidth']:.0%}",
            "" if each["tflops"] is None else f"{each['tflops']:.3g}",
        )
        for each in result["kernels"][:MOST_KERNELS]
    ]
    behind = "" if result["mode"] == "prompt" else f" behind {result['context']:,} tokens"
    head = ("kernel", "nodes", "us", "share", "of reads", "TFLOP/s")
    return Table(f"Kernels of {where}{behind}, {result['preset']}", head, rows)


def number(value: float) -> str:
    """Return a figure with as many digits as mean something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def heading(report: Report) -> str:
    """Return what the run was made on and with."""
    said = report.machine
    commit = f", commit {said['commit']}" if said.get("commit") else ""
    made = f"hiprt {said['hiprt']}{commit}, {said['provider']} {said['library']}, {said['date']}"
    bandwidth = [each["read_gb_s"] for each in report.presets.values()]
    reads = f", reads {max(bandwidth):,.0f} GB/s" if bandwidth else ""
    settings = report.settings
    how = f"random weights, 4 bits in groups of 64, bfloat16; {settings.tokens} tokens, the median of {settings.repeat}"
    return f"{said['device']}{reads}; {said['host']}; {made}; {how}"


def notes(report: Report) -> Iterator[str]:
    """Yield what the tables do not have, and why."""
    if not all(map(is_replayed, report.measurements)):
        yield f"{NOT_REPLAYED} not all steps were replays of a graph"
    for preset, reason in report.failed.items():
        yield f"{preset} failed: {reason}"
    by_reason: dict[str, list[str]] = {}
    for each in report.left_out:
        by_reason.setdefault(each["reason"], []).append(Measurement(*key(each)).text)
    for reason, left in by_reason.items():
        more = f"; and {len(left) - MOST_NAMED} more" * (len(left) > MOST_NAMED)
        yield f"left out: {'; '.join(left[:MOST_NAMED])}{more}: {reason}"
    if report.is_interrupted:
        yield "interrupted: --resume goes on"


def text(report: Report) -> str:
    """Return a run as text for a terminal."""
    parts = [heading(report)]
    parts += [f"{each.title}\n{text_table((each.head[0], *each.head[1:]), each.rows)}" for each in tables(report)]
    said = "\n".join(notes(report))
    return "\n\n".join([*parts, *[said] * bool(said)])


def markdown(report: Report) -> str:
    """Return a run as Markdown, as the pages have it."""
    parts = [f"{heading(report)}."]
    for each in tables(report):
        lines = [each.head, ("---",) * len(each.head), *each.rows]
        parts.append(f"{each.title}:\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines))
    said = "\n".join(f"- {note}" for note in notes(report))
    return "\n\n".join([*parts, *[said] * bool(said)])


def changes(old: Report, new: Report) -> list[Change]:
    """Return the measurements that both runs have, what became slowest first."""
    before = {key(result): rate(result) for result in old.measurements}
    both = [(key(result), rate(result)) for result in new.measurements if key(result) in before]
    found = [Change(Measurement(*at), before[at], now, round(now / before[at] - 1, 4)) for at, now in both]
    return sorted(found, key=lambda change: change.faster)


def compared(old: Report, new: Report) -> str:
    """Return what became slower or faster than in a run of before, by more than is noticed."""
    found = changes(old, new)
    told = [each for each in found if abs(each.faster) > NOTICED]
    beside = ", ".join(f"{old.machine.get(name)}" for name in ("device", "date", "commit"))
    lines = [f"Beside {beside}: {len(found)} measurements, {len(told)} of which differ by more than {NOTICED:.0%}"]
    if told:
        rows = [
            (
                each.measurement.text,
                number(each.old_tok_s),
                number(each.new_tok_s),
                f"{each.faster:+.1%}",
            )
            for each in told
        ]
        head = ("measurement", "tok/s before", "tok/s now", "change")
        lines.append(text_table(head, rows))
    return "\n".join(lines)
