"""``hiprt bench graph``: every mode and topology runs, on the CPU device and on nothing, and says what it measured."""

import argparse
import json
import math
import os
import subprocess
import sys

import pytest

import hiprt
from hiprt import __main__
from hiprt.bench import graph

KEYS = "topology nodes mode changed provider device us_per_node us_per_step python_share rungs over_driver".split()
MEASURE = """
import itertools, json
from dataclasses import asdict
from hiprt.bench import graph
for topology, mode in itertools.product(graph.TOPOLOGIES, graph.MODES):
    print(json.dumps(asdict(graph.measure(topology, 12, mode, changed=3, seconds=0.001))))
"""


def child(root, *arguments, provider):
    """Run Python in a process with a provider; return its output."""
    environment = os.environ | {"HIPRT_PROVIDER": provider}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(report, provider):
    """Check what every report must hold."""
    assert list(report) == KEYS
    assert report["provider"] == provider
    assert report["device"]
    for key in ("us_per_node", "us_per_step"):
        assert list(report[key]) == ["median", "p99"]
        assert 0 <= report[key]["median"] <= report[key]["p99"] < math.inf
    assert 0 <= report["python_share"] <= 1
    taken = {rung: count for rung, count in report["rungs"].items() if count}
    expected = {"record": {"replay"}, "change": {"patch", "update"}}.get(report["mode"], {report["mode"]})
    assert set(taken) <= expected, report
    assert sum(taken.values()) >= graph.REPETITIONS


@pytest.mark.parametrize("provider", ["null", "cpu"])
def test_all_modes_of_all_topologies(root, provider):
    """Each mode takes its own rung and no other."""
    reports = [json.loads(line) for line in child(root, "-c", MEASURE, provider=provider).splitlines()]
    assert [(r["topology"], r["mode"]) for r in reports] == [(t, m) for t in graph.TOPOLOGIES for m in graph.MODES]
    for report in reports:
        check(report, provider)
        changed = {"patch": 3, "update": 12, "change": 12, "instantiate": 12}.get(report["mode"], 0)
        assert report["changed"] == changed
        assert report["nodes"] == 12


def test_the_command_prints_one_json_object(root):
    """``--provider`` wins over the environment, and ``--json`` prints nothing else."""
    arguments = ["--json", "--provider", "null", "--mode", "patch", "--nodes", "5", "--changed", "100"]
    report = json.loads(child(root, "-m", "hiprt", "bench", "graph", *arguments, provider="cpu"))
    check({name: report[name] for name in KEYS}, "null")
    assert report.keys() >= {"hiprt", "commit", "date", "host"}
    assert (report["topology"], report["nodes"], report["changed"]) == ("chain", 5, 5)


def test_the_command_prints_a_table(root):
    """Without ``--json`` the command prints rows for people."""
    arguments = ["--provider", "null", "--mode", "record", "--topology", "fan", "--nodes", "7"]
    text = child(root, "-m", "hiprt", "bench", "graph", *arguments, provider="cpu")
    assert text.startswith("record of fan, 7 nodes, on null (null)\n")
    assert [line.split()[0] for line in text.splitlines()[1:]] == ["host", "per", "per", "Python", "rungs"]


@pytest.mark.parametrize("nodes", [1, 2, 3])
@pytest.mark.parametrize("topology", graph.TOPOLOGIES)
def test_smallest_steps(stream, topology, nodes):
    """Every topology can be built of one node."""
    work = graph.Work(topology, nodes, 1, stream)
    assert len(work.record()) == nodes


def test_topologies_are_what_their_names_say(stream):
    """The edges of a recording are those of its topology."""

    def edges(topology):
        nodes = graph.Work(topology, 40, 0, stream).record().nodes()
        return [node.dependencies for node in nodes]

    assert edges("chain") == [(), *((i,) for i in range(39))]
    assert edges("branch2") == [(), (), *((i,) for i in range(38))]
    assert edges("branch4") == [(), (), (), (), *((i,) for i in range(36))]
    assert edges("fan") == [(), *[(0,)] * 38, tuple(range(1, 39))]
    assert len({len(each) for each in edges("random")}) > 1


def test_patched_nodes_are_spread_over_the_step(stream):
    """As many nodes change as the step has arguments."""
    work = graph.Work("chain", 100, 10, stream)
    assert work.changed == list(range(0, 100, 10))
    addresses = {recorded.arguments["x"] for recorded in work.record().nodes()}
    assert addresses == {work.pairs[0][0].address, *(array.address for array in work.sets[0])}


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5"])
def test_counts_are_positive(text, capsys):
    """Nodes and changed nodes are at least one."""
    parser = argparse.ArgumentParser()
    graph.add_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--nodes", text])
    assert "at least 1" in capsys.readouterr().err


def test_another_provider_than_the_one_in_use_is_refused(stream):
    """A process has one library, so another provider is refused."""
    other = "null" if stream.device.provider.name != "null" else "cpu"
    with pytest.raises(ValueError, match="uses"):
        graph.choose(other)
    assert hiprt.library.current().provider == stream.device.provider


def test_interrupting_is_clean(monkeypatch, capsys):
    """Ctrl-C ends the command without a traceback."""

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(graph, "measure", interrupt)
    assert __main__.main(["bench", "graph"]) == 130
    assert capsys.readouterr().err == "\nhiprt: interrupted\n"
