"""`hiprt bench decode`, `kernels`, `peers`, `plot`, `graph --raw`: small runs on the device in use, and their forms."""

import json
import shutil
import subprocess
import sys

import pytest

from hiprt import library
from hiprt.bench import BENCHES, decode, kernels, peers, plot
from hiprt.bench.engine.models import preset
from hiprt.bench.raw import chain
from hiprt.graphs.launch.timing import read_bandwidth


@pytest.fixture(scope="module")
def report():
    """The report on two sequences of a small mixture, in every mode."""
    return decode.measure("qwen3-moe-mini", context=5, tokens=4, batch=2)


def test_modes_decode_the_same_step(report):
    """A graph is one launch for each token, an eager step one for each node; a step recorded again is replayed."""
    graph, rerecord, eager = (report.modes[mode] for mode in decode.MODES)
    assert graph.rungs["replay"] == rerecord.rungs["replay"] == eager.rungs["eager"] == 4
    assert graph.launches_per_token == rerecord.launches_per_token == 1
    assert eager.launches_per_token == graph.nodes == rerecord.nodes > 10
    for mode in report.modes.values():
        assert mode.tok_s > 0
        assert mode.ms_per_token["median"] <= mode.ms_per_token["p99"]


def test_kernels_add_up(report):
    """Every node of the step is in the table, and the shares add up to 1."""
    assert sum(kernel.nodes for kernel in report.kernels) == report.modes["graph"].nodes
    assert sum(kernel.share for kernel in report.kernels) == pytest.approx(1, abs=0.01)
    assert sum(kernel.us for kernel in report.kernels) == pytest.approx(report.kernels_us, rel=0.01)
    assert "qwen3-moe-mini" in decode.table(report)


def test_weight_bytes(stream):
    """A step reads every matrix once, but one row of the embedding, and only the chosen experts of a mixture."""
    dense, mixture = preset("qwen3-mini"), preset("qwen3-moe-mini")
    sizes = []
    for model in (dense, mixture):
        parts = [(matrix, stack) for matrix, stack in decode.matrices(model)]
        sizes.append(sum(p.nbytes for m, _ in parts for p in (m.weight, m.scales, m.biases)))
    assert decode.weight_bytes(dense) == sizes[0]
    one, two, all_ = (decode.weight_bytes(mixture, batch) for batch in (1, 2, 64))
    assert one < two < all_ == sizes[1]


def test_bandwidth(stream):
    """A bandwidth is measured."""
    assert read_bandwidth(stream, 1 << 20) > 0


def test_kernels(stream):
    """A case is timed over copies of its operands, and every case has a name of its own."""
    row = kernels.measure(kernels.rms_norm(64), stream, 100.0, 1 << 14)
    assert (row.name, row.nbytes) == ("rms_norm", 3 * 64 * 2)
    assert row.share == pytest.approx(row.gb_s / 100, rel=0.05, abs=0.01)
    assert len({(case.name, case.shape) for case in kernels.CASES}) == len(kernels.CASES)


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_raw_chain(stream):
    """The C program times the driver's calls on the same library."""
    taken = chain(20, 3)
    assert {"eager_us", "build_us", "instantiate_us", "update_us", "patch_us", "relaunch_us", "whole_us"} == set(taken)
    assert min(taken.values()) > 0


def test_peers_that_are_absent():
    """A peer that cannot run is named with the reason."""
    work = {"nodes": 4, "context": 2, "tokens": 2, "gguf": ""}
    assert "No such file" in peers.ask("torch_peer", work, "/nonexistent/python")["absent"]
    assert "llama-bench" in peers.ask("llama_peer", work)["absent"]
    text = peers.table({"workload": {**work, "preset": "p"}, "peers": {"torch": {"absent": "why"}, "mlx": {"a": 1.5}}})
    assert "why" in text
    assert "1.50" in text


def test_command(tmp_path):
    """Each benchmark is a subcommand, and what it prints can be drawn."""
    command = [sys.executable, "-m", "hiprt", "bench"]
    listed = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True).stdout
    assert all(name in listed for name in BENCHES)
    decoded = [*command, "decode", "--model", "qwen3-mini", "--tokens", "2", "--mode", "graph", "--json"]
    done = subprocess.run(decoded, capture_output=True, text=True, check=True)
    assert list(json.loads(done.stdout)["modes"]) == ["graph"]
    (tmp_path / "decode.json").write_text(done.stdout)
    (found,) = plot.read([tmp_path / "decode.json"])
    assert [name for name, (fits, _) in plot.PICTURES.items() if fits(found)] == ["decode", "time"]
    assert plot.device_of(found)
    assert library.current().provider


def test_plots(tmp_path, report):
    """There is a picture for each kind of report and each device."""
    pytest.importorskip("matplotlib")
    made = plot.draw([json.loads(json.dumps(decode.asdict(report)))], tmp_path / "out")
    assert [path.stem.split("-")[0] for path in made] == ["decode", "time"]
    assert all(path.stat().st_size > 1000 for path in made)
