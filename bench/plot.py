"""``hiprt bench plot``: pictures of results, from ``bench/results/*.json`` or files that are named.

A file holds one JSON object, or one on each line, as the other benchmarks print them with ``--json``. The keys of an
object tell which benchmark it is from; objects of other kinds are passed over.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hiprt.command import set_run

__all__ = ["add_arguments", "draw", "read", "run"]

RESULTS = Path(__file__).parent / "results"
WIDTH, HEIGHT_OF_BAR = 9.0, 0.24  # inches
MOST_KERNELS = 9  # that have a colour of their own
OURS = {"ours": "hiprt"}  # how a peer is called in pictures
# The calls of the driver that do what a mode of `hiprt bench graph` does.
CALLS = {
    "eager": ("eager",),
    "replay": ("relaunch",),
    "patch": ("patch",),
    "instantiate": ("build", "instantiate"),
    "update": ("build", "update", "relaunch"),
    "record": ("build", "update", "relaunch"),
}
Report = dict[str, Any]


def read(paths: Iterable[Path]) -> Iterator[Report]:
    """Yield the objects of files.

    Raises
    ------
    ValueError
        A file is not JSON.
    """
    for path in paths:
        text = path.read_text()
        try:
            found = [json.loads(text)]
        except json.JSONDecodeError:
            try:
                found = [json.loads(line) for line in text.splitlines() if line.strip()]
            except json.JSONDecodeError as error:
                raise ValueError(f"{path} is not JSON: {error}") from None
        for each in found:
            if isinstance(each, dict):
                yield each


def bars(axes: Any, rows: Sequence[tuple[str, dict[str, float]]], digits: int = 0, *, log: bool = False) -> None:
    """Draw groups of horizontal bars from top to bottom, each bar with its number.

    Parameters
    ----------
    axes : Axes
    rows : sequence of (str, dict)
        The label of each group, and the value of each of its bars by the name that the legend has.
    digits : int
        Digits behind the point; of numbers below 1 as many more as show something.
    log : bool
        Whether the axis is logarithmic.
    """
    from matplotlib import colormaps

    names = list(dict.fromkeys(name for _, values in rows for name in values))
    colors = {name: colormaps["tab10"](place % 10) for place, name in enumerate(names)}
    for place, (_, values) in enumerate(rows):
        width = 0.8 / len(values)
        for k, (name, value) in enumerate(values.items()):
            at = place + (k - (len(values) - 1) / 2) * width
            drawn = axes.barh(at, value, width * 0.92, color=colors[name], label=name)
            text = f"{value:,.{digits}f}" if value >= 1 else f"{value:.3g}"
            axes.bar_label(drawn, [text], padding=3, fontsize=7)
    axes.set_yticks(range(len(rows)), [label for label, _ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    if log:
        axes.set_xscale("log")
    axes.margins(x=0.12)
    axes.tick_params("y", labelsize=8)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)


def labels(reports: Sequence[Report]) -> list[str]:
    """Return a label for each decode report: the preset, and what tells reports of one preset apart."""
    usual = Counter(each.get("context") for each in reports).most_common(1)[0][0]
    made: list[str] = []
    for each in reports:
        parts = [each["preset"]]
        parts += [f"batch {each['batch']}"] if each.get("batch", 1) != 1 else []
        parts += [f"context {each['context']}"] if each.get("context") != usual else []
        label = ", ".join(parts)
        again = sum(known.split(" #")[0] == label for known in made)
        made.append(f"{label} #{again + 1}" if again else label)
    return made


def draw_graph(axes: Any, reports: list[Report]) -> int:
    """Draw the host's time for a node, by mode, beside the driver's own calls."""
    # A file may hold one report for each mode.
    flat = [part for each in reports for part in each.get("modes", {"": each}).values()]
    groups: defaultdict[tuple[str, int, int], list[Report]] = defaultdict(list)
    for each in flat:
        groups[each["mode"], each["nodes"], each.get("changed", 0) if each["mode"] == "patch" else 0].append(each)
    usual = Counter(nodes for _, nodes, _ in groups).most_common(1)[0][0]
    rows = []
    for (mode, nodes, changed), group in groups.items():
        label = mode + (f", {changed} changed" if changed else "") + (f", {nodes:,} nodes" if nodes != usual else "")
        values = {"hiprt, Python included": statistics.median(each["us_per_node"]["median"] for each in group)}
        floors = [each["raw"] for each in group if "raw" in each]
        if floors:
            parts = CALLS.get(mode, ())
            values["the driver's calls from C"] = statistics.median(
                sum(floor[f"{part}_us"] for part in parts) / nodes for floor in floors
            )
        rows.append((label, values))
    bars(axes, rows, 2, log=True)
    axes.set_xlabel("host us a node, median, logarithmic")
    axes.set_title(f"steps of {usual:,} nodes on {device_of(reports[0])}")
    return sum(len(values) for _, values in rows)


def draw_decode(axes: Any, reports: list[Report]) -> int:
    """Draw the tokens per second of presets, by mode."""
    rows = [
        (label, {mode: row["tok_s"] for mode, row in each["modes"].items()})
        for label, each in zip(labels(reports), reports)
    ]
    bars(axes, rows)
    axes.set_xlabel("tokens a second, of all sequences")
    axes.set_title(f"decode on {device_of(reports[0])}")
    return sum(len(values) for _, values in rows)


def draw_time(axes: Any, reports: list[Report]) -> int:
    """Draw where a token's time goes: a bar for each report, in which the kernels that matter have a colour."""
    from matplotlib import colormaps

    total: Counter[str] = Counter()
    for each in reports:
        for kernel in each["kernels"]:
            # A kernel counts by its largest part of a token, so that small presets are told apart too.
            total[kernel["name"]] = max(total[kernel["name"]], kernel["us"] / max(each["kernels_us"], 1e-9))
    names = [name for name, _ in total.most_common(MOST_KERNELS)]
    left = [0.0] * len(reports)
    for place, name in enumerate([*names, "others"]):
        widths = [
            sum(k["us"] for k in each["kernels"] if k["name"] == name or (name == "others" and k["name"] not in names))
            for each in reports
        ]
        color = "#c8c8c8" if name == "others" else colormaps["Paired"](place)
        if any(widths):
            axes.barh(range(len(reports)), widths, left=left, label=name, color=color, height=0.7)
        left = [start + width for start, width in zip(left, widths)]
    axes.set_yticks(range(len(reports)), labels(reports))
    axes.set_ylim(len(reports) - 0.5, -0.5)
    for place, whole in enumerate(left):
        axes.text(whole, place, f" {whole:,.0f} us", va="center", fontsize=7)
    axes.margins(x=0.12)
    axes.tick_params("y", labelsize=8)
    axes.set_xlabel("us a step, each kernel timed by itself")
    axes.set_title(f"where a step's time goes on {device_of(reports[0])}")
    return len(reports)


def draw_kernels(axes: Any, reports: list[Report]) -> int:
    """Draw the share of the device's read bandwidth, by kernel and shape; more than all of it comes from a cache."""
    rows = [(f"{row['name']} {row['shape']}", {"": row["share"] * 100}) for each in reports for row in each["kernels"]]
    bars(axes, rows, 0)
    for patch, (_, values) in zip(axes.patches, rows):
        patch.set_label("_")
        patch.set_hatch("//" if values[""] > 100 else "")
    axes.axvline(100, color="black", linewidth=0.8)
    axes.set_xlabel(
        f"% of the read bandwidth, {reports[0]['read_gb_s']:,.0f} GB/s"
        + ("; hatched: more than that, from a cache" if any(values[""] > 100 for _, values in rows) else "")
    )
    axes.set_title(f"kernels on {device_of(reports[0])}")
    return len(rows)


def draw_peers(axes: Any, reports: list[Report]) -> int:
    """Draw the decode rates of peers, and hiprt's own of the same preset on the same device."""
    asked = [each for each in reports if "peers" in each]
    rows: list[tuple[str, dict[str, float]]] = []
    for each in asked:
        preset = each["workload"]["preset"]
        rates = {peer: rates_of(answer) for peer, answer in each["peers"].items()}
        own = next((r for r in reports if r.get("preset") == preset and r.get("batch", 1) == 1), None)
        if "ours" not in rates and own is not None and any(rates.values()):
            rates = {"ours": {mode: row["tok_s"] for mode, row in own["modes"].items()}, **rates}
        rows += [(f"{OURS.get(peer, peer)}, {preset}", found) for peer, found in rates.items() if found]
    if rows:
        bars(axes, rows)
    missing = "" if any(label.startswith("hiprt") for label, _ in rows) else "; hiprt was not measured here"
    axes.set_xlabel("tokens a second" + missing)
    axes.set_title(f"decode on {device_of(asked[0])}" if asked else "")
    return sum(len(values) for _, values in rows)


def rates_of(answer: Report) -> dict[str, float]:
    """Return the decode rates in what a peer said, by mode."""
    found = {
        name.removeprefix("decode_").removesuffix("_tok_s"): value
        for name, value in answer.items()
        if name.startswith("decode_")
    }
    return {mode: found[mode] for mode in sorted(found, key=lambda mode: (mode != "graph", mode))}


Draw = Callable[[Any, list[Report]], int]
# For each picture, which reports it shows, and how it is drawn; the latter returns how many bars there are.
PICTURES: dict[str, tuple[Callable[[Report], bool], Draw]] = {
    "graph": (lambda r: "us_per_node" in r or "us_per_node" in str(r.get("modes", ""))[:2000], draw_graph),
    "decode": (lambda r: "first_token_ms" in r and "preset" in r, draw_decode),
    "time": (lambda r: "first_token_ms" in r and bool(r.get("kernels")), draw_time),
    "kernels": (
        lambda r: "kernels" in r and "read_gb_s" in r and "preset" not in r and bool(r["kernels"]),
        draw_kernels,
    ),
    "peers": (lambda r: ("peers" in r and "workload" in r) or ("first_token_ms" in r and "preset" in r), draw_peers),
}


def draw(reports: list[Report], folder: Path) -> list[Path]:
    """Draw what reports show; return the files made. What has nothing to show is left out.

    Parameters
    ----------
    reports : list of dict
    folder : Path
        The folder of the pictures; it is made if it is missing.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    """
    from matplotlib.figure import Figure

    made = []
    for name, (fits, picture) in PICTURES.items():
        chosen: defaultdict[str, list[Report]] = defaultdict(list)
        for report in filter(fits, reports):
            chosen[device_of(report)].append(report)
        for device, group in chosen.items():
            figure = Figure(figsize=(WIDTH, 1.0), layout="constrained")
            axes = figure.subplots()
            count = picture(axes, group)
            if not count:
                continue
            figure.set_figheight(1.4 + HEIGHT_OF_BAR * max(count, 3))
            shown = dict(zip(*axes.get_legend_handles_labels()[::-1]))
            if shown:
                axes.legend(shown.values(), shown, fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
            folder.mkdir(parents=True, exist_ok=True)
            made.append(folder / f"{name}-{re.sub(r'[^a-z0-9]+', '-', device.lower()).strip('-')}.png")
            figure.savefig(made[-1], dpi=130)
    return made


def device_of(report: Report) -> str:
    """Return the device on which a report was measured: a picture compares what ran on one device."""
    inner = report.get("modes") or report.get("peers") or {}
    found = (each["device"] for each in inner.values() if "device" in each)
    return str(report.get("device") or next(found, "unknown"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt bench plot``."""
    parser.add_argument("files", metavar="FILE", nargs="*", type=Path, help="results (default: bench/results/*.json)")
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("plots"), help="for pictures (default: plots)")
    set_run(parser, run)


def run(options: argparse.Namespace) -> int:
    """Draw the pictures, and print the names of their files.

    Raises
    ------
    ValueError
        There is nothing to draw, or nothing to draw it with.
    """
    files = options.files or sorted(RESULTS.glob("*.json"))
    wanted = "give files of what hiprt bench graph, decode, kernels or peers print with --json"
    if not files:
        raise ValueError(f"no file is named, and {RESULTS} holds none; {wanted}")
    try:
        made = draw(list(read(files)), options.out)
    except ImportError as error:
        raise ValueError(f"{error}: install the extra bench, hiprt[bench]") from None
    if not made:
        raise ValueError(f"nothing to draw in {', '.join(map(str, files))}; {wanted}")
    print(json.dumps([str(path) for path in made]) if options.json else "\n".join(map(str, made)))
    return 0
