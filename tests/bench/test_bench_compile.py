"""``hiprt bench compile``: both functions run, on the CPU device and on nothing; peers that are absent are named."""

import json
import os
import subprocess
import sys

import pytest

from hiprt.bench import compile as bench
from hiprt.graphs.trace.passes import PASSES

KEYS = "function provider device primitives nodes first_trace_ms trace_ms first_call_ms call_us whole_us".split()


def child(root, *arguments, provider):
    """Run the command in a process with a provider; return its output."""
    command = [sys.executable, "-m", "hiprt", "bench", "compile", *arguments]
    environment = os.environ | {"HIPRT_PROVIDER": provider}
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("provider", ["null", pytest.param("cpu", marks=pytest.mark.wide)])
def test_json(root, provider):
    sizes = ("--sizes", "3") if provider == "null" else ()
    told = json.loads(child(root, "--json", "--provider", provider, *sizes, provider=provider))
    assert [each["function"] for each in told["functions"]] == list(bench.FUNCTIONS)
    for each in told["functions"]:
        assert list(each) == KEYS
        assert each["provider"] == provider
        assert each["primitives"] in (198, 200)
        assert 0 < each["nodes"] <= each["primitives"]
        assert 0 < each["trace_ms"] <= each["first_call_ms"]
        assert 0 < each["call_us"]["median"] <= each["call_us"]["p99"]
    if sizes:
        assert told["sizes"]["graphs"] == 3
        assert told["sizes"]["nodes"] == 300
        reached = list(told["sizes"]["seconds"].values())
        assert reached == sorted(reached)
    assert "peers" not in told


def test_nodes_by_pass(root):
    told = json.loads(child(root, "--preset", "qwen3-mini", "--json", provider="cpu"))
    (one,) = told["presets"]
    assert list(one["after"]) == ["none", *PASSES]
    assert one["after"]["none"] > 2 * one["engine"]
    assert one["after"]["fusion"] == one["engine"] > 0
    assert any("joined" in line for line in one["told"])
    said = child(root, "--preset", "qwen3-mini", provider="cpu").splitlines()
    assert said[0].split() == ["preset", "primitives", "none", *PASSES, "engine"]
    assert said[1].split()[0] == "qwen3-mini"


@pytest.mark.every(2)
@pytest.mark.parametrize(("name", "nodes"), [("qwen3-30b-a3b", 338), ("qwen3.5-35b-a3b", 282)])
def test_nodes_of_models_that_are_published(root, name, nodes):
    """In their own sizes, on no device, plain ops have the nodes of the kernels that the engine calls by hand."""
    (one,) = json.loads(child(root, "--preset", name, "--json", provider="null"))["presets"]
    assert one["after"]["fusion"] == one["engine"] == nodes


def test_absent_peers_are_named(root):
    names = [peer.removesuffix("_compile") for peer in bench.PEERS]
    pythons = [part for name in names for part in ("--python", f"{name}={sys.executable}.missing")]
    said = child(root, "--function", "decode", "--peers", *pythons, provider="null")
    for name in names:
        assert f"{name} is absent: " in said


def test_a_peers_answer_is_a_row():
    report = bench.Report("decode", "null", "null", 198, 198, 1.0, 0.5, 2.0, {"median": 2.5, "p99": 3.0}, 4.0)
    answer = {"version": "9.8", "device": "cpu", "decode": {"first_call_ms": 7.0, "call_us": 123.25, "whole_us": 124.5}}
    lines = bench.table([report], {"jax": answer}).splitlines()
    assert lines[1].split() == ["decode", "hiprt,", "null", "198", "198", "1.00", "0.50", "2.00", "2.50", "4.00"]
    assert lines[2].split() == ["decode", "jax", "9.8", "7.00", "123.25", "124.50"]
