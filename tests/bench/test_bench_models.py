"""`hiprt bench decode`, `kernels`, `peers`, `plot`, `graph --raw`: small runs on the device in use, and their forms."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import asdict

import pytest

import hiprt
from hiprt import graphs, library
from hiprt.__main__ import main
from hiprt.bench import BENCHES, decode, graph, kernel_times, kernels, peers, plot
from hiprt.bench.decode_run import MODES, Run
from hiprt.bench.engine.models import preset
from hiprt.bench.model_matrices import matrices, weight_bytes
from hiprt.bench.raw import chain, steps
from hiprt.graphs.launch.timing import read_bandwidth


@pytest.fixture(scope="module")
def report():
    """The report on two sequences of a small mixture, in every mode."""
    return decode.measure("qwen3-moe-mini", context=5, tokens=4, batch=2)


def test_modes_decode_the_same_step(report):
    """A graph is one launch for each token, an eager step one for each node; a step recorded again is replayed."""
    graph, rerecord, eager, compiled = (report.modes[mode] for mode in MODES)
    assert graph.rungs["replay"] == rerecord.rungs["replay"] == compiled.rungs["replay"] == eager.rungs["eager"] == 4
    assert graph.launches_per_token == rerecord.launches_per_token == compiled.launches_per_token == 1
    assert eager.launches_per_token == graph.nodes == rerecord.nodes > 10
    for mode in report.modes.values():
        assert mode.tok_s > 0
        assert mode.ms_per_token["mean"] > 0


def test_the_first_token_is_taken_by_graphs(stream, monkeypatch):
    """Prompt and step are replayed when they are timed; kernels that are launched one by one give the same tokens."""
    with hiprt.use_stream(stream):
        work = Run(preset("qwen3-mini"), stream, 9, 4, 1)
    first_token, replays, tokens = work.first_token, [], []

    def watched(*steps):
        before = [each.rungs["replay"] for each in steps if isinstance(each, graphs.Step)]
        taken = first_token(*steps)
        replays.append([each.rungs["replay"] - count for each, count in zip(steps, before)])
        tokens.append(work.tokens.numpy(stream).tolist())
        return taken

    monkeypatch.setattr(work, "first_token", watched)
    assert min(work.first_tokens()) > 0
    assert replays[-2:] == [[1, 1], []]
    assert tokens == tokens[:1] * len(tokens)


def test_kernels_add_up(report):
    """Every node of the step is in the table, and the shares add up to 1."""
    assert sum(kernel.nodes for kernel in report.kernels) == report.modes["graph"].nodes
    assert sum(kernel.share for kernel in report.kernels) == pytest.approx(1, abs=0.01)
    assert sum(kernel.us for kernel in report.kernels) == pytest.approx(report.kernels_us, rel=0.01)
    assert "qwen3-moe-mini" in decode.table(report)


def test_a_kernel_is_timed_with_the_one_that_it_takes_from(report, monkeypatch):
    """They are one line of the table; where a step has but one of them, it is alone."""
    counts = {kernel.name: kernel.nodes for kernel in report.kernels}
    first, second, *_ = (name for name in counts if name.startswith("moe"))
    for pair in ((first, second), (first, "of another model")):
        monkeypatch.setattr(kernel_times, "TOGETHER", pair)
        found = decode.measure("qwen3-moe-mini", context=5, tokens=2, batch=2, modes=("graph",)).kernels
        expected = dict(counts)
        if second in pair:
            expected[f"{first}+{second}"] = expected.pop(first) + expected.pop(second)
        assert {kernel.name: kernel.nodes for kernel in found} == expected
        assert [kernel.nbytes for kernel in found if first in kernel.name] == [None]


def test_the_kernels_of_a_prompt(capsys):
    """Their products are those of its rows with every matrix of a layer, and of the last one with the head."""
    options = ["--model", "qwen3-mini", "--mode", "graph", "--tokens", "2", "--context", "48", "--prompt", "--json"]
    assert main(["bench", "decode", *options]) == 0
    report, config = json.loads(capsys.readouterr().out), preset("qwen3-mini").config
    queries, pairs = (count * config.head_dim for count in (config.num_attention_heads, config.num_key_value_heads))
    layer = config.hidden_size * (2 * queries + 2 * pairs + 3 * config.intermediate_size)
    layers, head = config.num_hidden_layers * layer, config.vocab_size * config.hidden_size
    for kernels_of, rows in (("kernels", 1), ("prompt_kernels", 48)):
        found = sum(each["us"] * each["tflops"] * 1e6 for each in report[kernels_of] if each["tflops"])
        assert found == pytest.approx(2 * (rows * layers + head), rel=0.02)
    (tiles,) = (each for each in report["prompt_kernels"] if each["name"] == "quantized_tiles")
    rows = 48 * 2 * (4 * config.hidden_size + 2 * queries + 2 * pairs + 3 * config.intermediate_size)
    assert tiles["nbytes"] == config.num_hidden_layers * (rows + layer * (4 + 2 * 16 / 64) / 8)
    rounded = 0.1 / report["read_gb_s"]  # both have one decimal, and are small on a host with other work
    for each in report["kernels"] + report["prompt_kernels"]:
        if each["nbytes"] is not None:
            assert each["gb_s"] == pytest.approx(each["nbytes"] / each["us"] / 1e3, rel=0.1, abs=0.06)
            assert each["bandwidth"] == pytest.approx(each["gb_s"] / report["read_gb_s"], rel=0.1, abs=0.02 + rounded)


def test_weight_bytes(stream):
    """A step reads every matrix once, but one row of the embedding, and only the chosen experts of a mixture."""
    dense, mixture = preset("qwen3-mini"), preset("qwen3-moe-mini")
    sizes = []
    for model in (dense, mixture):
        parts = [(matrix, stack) for matrix, stack in matrices(model)]
        sizes.append(sum(p.nbytes for m, _ in parts for p in (m.weight, m.scales, m.biases)))
    assert weight_bytes(dense) == sizes[0]
    one, two, all_ = (weight_bytes(mixture, batch) for batch in (1, 2, 64))
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
    names = ("eager", "build", "instantiate", "update", "patch", "relaunch", "whole")
    changes = ("set", "after_set", "update_anew", "update_kept", "update_set")
    assert {f"{name}_us" for name in names + changes} == set(taken)
    assert min(taken.values()) > 0


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_raw_pairs(stream):
    """A step that changes all nodes is timed in turn with the driver's calls for the same work, on the same library."""
    changed, kept = (graph.measure("chain", 20, mode, seconds=0.001, raw=True) for mode in ("update", "replay"))
    assert changed.over_driver > 0
    assert kept.over_driver is None
    told = graph.table(changed).splitlines()[-1]
    assert told.split() == ["over", "the", "driver's", "build,", "update,", "launch", f"{changed.over_driver:.2f}"]
    assert "over the driver's" not in graph.table(kept)


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_raw_steps():
    """The C program times libhiprt on the null provider, whatever library this process uses."""
    taken = steps(20, 3)
    assert {"record_us", "record_changed_us", "patch_us", "replay_us", "move_us"} == set(taken)
    assert min(taken.values()) > 0


def test_peers_that_are_absent(tmp_path):
    """A peer that cannot run is named with the reason."""
    work = {"nodes": 4, "context": 2, "tokens": 2, "gguf": ""}
    assert "No such file" in peers.ask("torch_peer", work, str(tmp_path / "python"))["absent"]
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
    assert [name for name, (fits, _) in plot.PICTURES.items() if fits(found)] == ["decode", "time", "peers"]
    assert plot.device_of(found)
    assert library.current().provider


def figures_of(monkeypatch):
    """Keep the axes of the pictures that are drawn, by name."""
    found = {}

    def keep(name, picture):
        def drawn(axes, reports):
            found[name] = axes
            return picture(axes, reports)

        return drawn

    kept = {name: (fits, keep(name, picture)) for name, (fits, picture) in plot.PICTURES.items()}
    monkeypatch.setattr(plot, "PICTURES", kept)
    return found


def overlaps(axes):
    """Pairs of labels of the vertical axis that lie over each other."""
    axes.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
    return [(a, b) for i, a in enumerate(boxes) for b in boxes[i + 1 :] if a.overlaps(b)]


def test_plots(tmp_path, report, monkeypatch):
    """There is a picture for each kind of report and each device, and in it a row for each report."""
    one = json.loads(json.dumps(asdict(report)))
    reports = [one, {**one, "batch": 1}, {**one, "batch": 1}, *({**one, "preset": f"{i} of many"} for i in range(9))]
    found = figures_of(monkeypatch)
    made = plot.draw([*reports, {**one, "device": "another"}], tmp_path / "out")
    assert [path.stem.split("-")[0] for path in made] == ["decode", "decode", "time", "time"]
    assert all(path.stat().st_size > 1000 for path in made)
    plot.draw(reports, tmp_path / "out")
    labels = [label.get_text() for label in found["decode"].get_yticklabels()]
    assert labels[:4] == ["qwen3-moe-mini, batch 2", "qwen3-moe-mini", "qwen3-moe-mini #2", "0 of many, batch 2"]
    assert len(found["decode"].patches) == len(MODES) * len(reports)
    for axes in (found["decode"], found["time"]):
        assert not overlaps(axes)
    # Bars of one report are as long as its kernels take together, and do not add up with those of others.
    ends = [patch.get_x() + patch.get_width() for patch in found["time"].patches]
    assert max(ends) == pytest.approx(sum(kernel["us"] for kernel in one["kernels"]), rel=1e-3)


def test_plots_of_peers(tmp_path, monkeypatch, report):
    """Peers without hiprt have its bar from a decode report; peers that decoded nothing have no picture."""
    found = figures_of(monkeypatch)
    answer = {"device": "a GPU", "decode_eager_tok_s": 5.0, "decode_graph_tok_s": 9.0}
    asked = {"workload": {"preset": "qwen3-moe-mini"}, "peers": {"torch": answer, "cupy": {"absent": "not installed"}}}
    plot.draw([asked], tmp_path)
    assert [label.get_text() for label in found["peers"].get_yticklabels()] == ["torch, qwen3-moe-mini"]
    assert "hiprt was not measured" in found["peers"].get_xlabel()
    own = {**json.loads(json.dumps(asdict(report))), "batch": 1, "device": "a GPU"}
    plot.draw([asked, own], tmp_path)
    labels = [label.get_text() for label in found["peers"].get_yticklabels()]
    assert labels == ["hiprt, qwen3-moe-mini", "torch, qwen3-moe-mini"]
    nothing = {"workload": {"preset": "x"}, "peers": {"cupy": {"version": "14", "chain_replay_us": 3.0}}}
    assert plot.draw([nothing], tmp_path / "none") == []
    assert not (tmp_path / "none").exists()


def test_plots_of_kernels_and_graphs(tmp_path, monkeypatch):
    """What reads from a cache goes beyond 100 %; reports of one mode are one row, the driver's calls beside it."""
    found = figures_of(monkeypatch)
    rows = [{"name": "qmv", "shape": f"{i}x64", "share": share} for i, share in enumerate((0.5, 2.5))]
    raw = {f"{name}_us": 100.0 for name in ("eager", "relaunch", "patch", "build", "instantiate", "update")}
    modes = [{"mode": "replay", "nodes": 100, "changed": 0, "us_per_node": {"median": us}} for us in (1.0, 3.0)]
    reports = [{"device": "d", "read_gb_s": 10.0, "kernels": rows}, *({"device": "d", "raw": raw, **m} for m in modes)]
    plot.draw(reports, tmp_path)
    assert found["kernels"].get_xlim()[1] > 250
    assert "from a cache" in found["kernels"].get_xlabel()
    assert [label.get_text() for label in found["graph"].get_yticklabels()] == ["replay"]
    assert [patch.get_width() for patch in found["graph"].patches] == [2.0, 1.0]


def test_plot_without_anything_says_what_to_give(tmp_path, monkeypatch, capsys):
    """No files, none that fit, and none that are JSON: one line, and what would do."""
    monkeypatch.setattr(plot, "RESULTS", tmp_path / "missing")
    wanted = "give files of what hiprt bench graph, decode, kernels or peers print with --json"
    assert main(["bench", "plot"]) == 1
    assert wanted in capsys.readouterr().err
    (tmp_path / "other.json").write_text('{"what": "something else"}')
    assert main(["bench", "plot", "--out", str(tmp_path / "out"), str(tmp_path / "other.json")]) == 1
    error = capsys.readouterr().err
    assert wanted in error
    assert error.count("\n") == 1
    (tmp_path / "text.json").write_text("no JSON")
    assert main(["bench", "plot", str(tmp_path / "text.json")]) == 1
    assert "text.json is not JSON" in capsys.readouterr().err


def test_results_say_what_they_were_made_with(capsys):
    """Version, commit, machine and device, in what the benchmarks print for files."""
    assert main(["bench", "alloc", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"hiprt", "commit", "host", "date", "device", "provider", "library", "allocate_us"} <= set(found)
    assert found["commit"] is None or re.fullmatch(r"[0-9a-f]{7,}\+?", found["commit"])


def test_the_suites_run_with_what_their_extra_installs(root):
    """Plugins of other extras are left out here: the options in pyproject.toml must not need them."""
    (extra,) = re.findall(r"^bench = \[(.*)\]$", (root / "pyproject.toml").read_text(), re.M)
    plugins = ("xdist", "hypothesispytest", "anyio", "cov", "mypy")
    left_out = [part for name in plugins for part in ("-p", f"no:{name}")]
    command = [sys.executable, "-m", "pytest", "-q", *left_out, "--benchmark-disable", "-k", "allocate", "bench/suites"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"pytest", "pytest-timeout", "pytest-benchmark"} <= set(re.findall(r'"([\w-]+)', extra))
