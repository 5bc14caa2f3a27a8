"""``hiprt bench plot``: pictures of results, from ``bench/results/*.json`` or files that are named.

A file holds one JSON object, or one on each line, as the other benchmarks print them with ``--json``. The keys of an
object tell which benchmark it is from; objects of other kinds are passed over.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from hiprt.command import set_run

__all__ = ["add_arguments", "draw", "read", "run"]

RESULTS = Path(__file__).parent / "results"
WIDTH, HEIGHT = 9.0, 5.0
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
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
        for each in found:
            if isinstance(each, dict):
                yield each


def draw_graph(axes: Any, reports: list[Report]) -> None:
    """Draw the host's time for a node, by mode, beside the driver's own calls."""
    # A file may hold one report for each mode.
    flat = [part for each in reports for part in each.get("modes", {"": each}).values()]
    names = [each["mode"] for each in flat]
    axes.bar(names, [each["us_per_node"]["median"] for each in flat], label="hiprt, Python included")
    floor = next((each["raw"] for each in flat if "raw" in each), None)
    if floor is not None:
        nodes = flat[0]["nodes"]
        sums = {"eager": ["eager"], "replay": ["relaunch"], "patch": ["patch"], "instantiate": ["build", "instantiate"]}
        sums["update"] = sums["record"] = ["build", "update", "relaunch"]
        heights = [sum(floor[f"{part}_us"] for part in sums[name]) / nodes for name in names]
        axes.bar(names, heights, width=0.4, label="the driver's calls from C")
    axes.set_yscale("log")
    axes.set_ylabel("host us a node")
    axes.set_title(f"{flat[0]['nodes']} nodes on {flat[0]['device']}")


def draw_decode(axes: Any, reports: list[Report]) -> None:
    """Draw the tokens per second of presets, by mode."""
    modes = list(dict.fromkeys(mode for each in reports for mode in each["modes"]))
    for i, mode in enumerate(modes):
        known = [(place, each["modes"][mode]["tok_s"]) for place, each in enumerate(reports) if mode in each["modes"]]
        width = 0.8 / len(modes)
        axes.bar([place + i * width for place, _ in known], [rate for _, rate in known], width, label=mode)
    middle = 0.4 - 0.4 / len(modes)
    axes.set_xticks([place + middle for place in range(len(reports))], [each["preset"] for each in reports])
    axes.set_ylabel("tokens a second")
    axes.set_title(f"decode on {reports[0]['device']}")


def draw_time(axes: Any, reports: list[Report]) -> None:
    """Draw where a token's time goes."""
    from matplotlib import colormaps

    names = list(dict.fromkeys(kernel["name"] for each in reports for kernel in each["kernels"]))
    left = [0.0] * len(reports)
    axes.set_prop_cycle(color=[colormaps["tab20"](i) for i in range(20)])
    for name in names:
        widths = [sum(k["us"] for k in each["kernels"] if k["name"] == name) for each in reports]
        axes.barh([each["preset"] for each in reports], widths, left=left, label=name)
        left = [start + width for start, width in zip(left, widths)]
    axes.set_xlabel("us a token, each kernel timed by itself")
    axes.set_title(f"where a token's time goes on {reports[0]['device']}")


def draw_kernels(axes: Any, reports: list[Report]) -> None:
    """Draw the share of the device's read bandwidth, by kernel and shape."""
    rows = [row for each in reports for row in each["kernels"]]
    axes.barh([f"{row['name']} {row['shape']}" for row in rows], [row["share"] * 100 for row in rows])
    axes.axvline(100, color="black", linewidth=0.8)
    axes.tick_params("y", labelsize=7)
    axes.set_xlabel(f"% of the read bandwidth, {reports[0]['read_gb_s']:.0f} GB/s")
    axes.set_title(f"kernels on {reports[0]['device']}")


def draw_peers(axes: Any, reports: list[Report]) -> None:
    """Draw the decode rates of peers."""
    bars: dict[str, float] = {}
    for each in reports:
        for peer, answer in each["peers"].items():
            for name, value in answer.items():
                if name.startswith("decode_"):
                    bars[f"{peer} {name.removeprefix('decode_').removesuffix('_tok_s')}"] = value
    axes.barh(list(bars), list(bars.values()))
    axes.set_xlabel("tokens a second")
    axes.set_title(f"decode of {reports[0]['workload']['preset']}")


Draw = Callable[[Any, list[Report]], None]
# For each picture, which reports it shows, and how it is drawn.
PICTURES: dict[str, tuple[Callable[[Report], bool], Draw]] = {
    "graph": (lambda r: "us_per_node" in r or "us_per_node" in str(r.get("modes", ""))[:2000], draw_graph),
    "decode": (lambda r: "first_token_ms" in r and "preset" in r, draw_decode),
    "time": (lambda r: "first_token_ms" in r and bool(r.get("kernels")), draw_time),
    "kernels": (
        lambda r: "kernels" in r and "read_gb_s" in r and "preset" not in r and bool(r["kernels"]),
        draw_kernels,
    ),
    "peers": (lambda r: "peers" in r and "workload" in r, draw_peers),
}


def draw(reports: list[Report], folder: Path) -> list[Path]:
    """Draw what reports show; return the files made.

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

    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for name, (fits, picture) in PICTURES.items():
        chosen: defaultdict[str, list[Report]] = defaultdict(list)
        for report in filter(fits, reports):
            chosen[device_of(report)].append(report)
        for device, group in chosen.items():
            figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
            axes = figure.subplots()
            picture(axes, group)
            if axes.get_legend_handles_labels()[0]:
                axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
            made.append(folder / f"{name}-{re.sub(r'[^a-z0-9]+', '-', device.lower()).strip('-')}.png")
            figure.savefig(made[-1], dpi=130)
    return made


def device_of(report: Report) -> str:
    """Return the device on which a report was measured: a picture compares what ran on one device."""
    inner = report.get("modes") or report.get("peers") or {}
    first: Report = next(iter(inner.values()), {})
    return str(report.get("device") or first.get("device", "unknown"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt bench plot``."""
    parser.add_argument("files", metavar="FILE", nargs="*", type=Path, help="results (default: bench/results/*.json)")
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("plots"), help="for pictures (default: plots)")
    set_run(parser, run)


def run(options: argparse.Namespace) -> int:
    """Draw the pictures, and print the names of their files."""
    try:
        made = draw(list(read(options.files or sorted(RESULTS.glob("*.json")))), options.out)
    except ImportError as error:
        raise ValueError(f"{error}: install the extra bench, hiprt[bench]") from None
    print(json.dumps([str(path) for path in made]) if options.json else "\n".join(map(str, made)))
    return 0
