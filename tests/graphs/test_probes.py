"""Probes: what they find is remembered and decides which rungs are used."""

import gc
import json

import numpy as np
import pytest
from helpers.child import child
from helpers.kernels import scale

import hiprt
from hiprt import allocator, graphs
from hiprt.graphs.launch import allowed_rungs, probes, trust


@pytest.fixture
def fresh(tmp_path):
    """An empty cache, and nothing remembered in the process."""
    forget()
    with hiprt.flags.override(cache_dir=str(tmp_path)):
        yield tmp_path
    forget()


def forget():
    """Forget what the process knows of devices."""
    probes.results.clear()
    probes.asked.clear()
    trust.decided.clear()


def test_cpu_device_passes_every_probe(fresh):
    """The base behaviour of the CPU device is right."""
    assert set(graphs.probes(hiprt.current_device()).values()) == {"ok"}


def test_probes_leave_no_memory_of_theirs_in_the_pool(fresh):
    """What a program shows of its memory is the same whether its process has run the probes or read them."""
    # What earlier tests left in circles may be collected while the probes run.
    gc.collect()
    before = allocator.stats()
    graphs.probes(hiprt.current_device())
    after = allocator.stats()
    assert {name: after[name] for name in ("reserved", "streams")} == {
        name: before[name] for name in ("reserved", "streams")
    }


def test_results_are_remembered_on_disk(fresh):
    """The second process reads them; another quirk set has its own file."""
    device = hiprt.current_device()
    graphs.probes(device)
    (file,) = (fresh / "probes").iterdir()
    wrong = dict.fromkeys(json.loads(file.read_text()), "made up")
    file.write_text(json.dumps(wrong))
    probes.results.clear()
    assert graphs.probes(device) == wrong
    with hiprt.flags.override(cpu_quirks=("another",)):
        assert probes.cache_file(device) != file


@pytest.mark.parametrize(
    "text",
    ["{", "", "null", "7", json.dumps(list(probes.PROBES)), json.dumps(dict.fromkeys(probes.PROBES, 1)), "[" * 100_000],
)
def test_corrupt_cache_is_rebuilt(fresh, text):
    """A file that does not hold results of these probes is as good as none."""
    device = hiprt.current_device()
    file = probes.cache_file(device)
    file.parent.mkdir()
    file.write_text(text)
    assert set(graphs.probes(device).values()) == {"ok"}
    assert json.loads(file.read_text()) == dict.fromkeys(probes.PROBES, "ok")


@pytest.mark.parametrize(
    ("failed", "used"),
    [
        ("patch takes effect", "update"),
        ("structures by value", "update"),
        ("update takes effect", "patch"),
        ("arguments copied", "eager"),
        ("kernel nodes", "eager"),
    ],
)
def test_rung_that_fails_its_probe_is_not_used(stream, monkeypatch, failed, used):
    """Another rung serves, with the same bits."""
    results = {**dict.fromkeys(probes.PROBES, "ok"), failed: "seen to fail"}
    rungs = frozenset(rung for rung, needs in trust.NEEDED.items() if all(results[n] == "ok" for n in needs))
    monkeypatch.setattr(allowed_rungs, "trusted", lambda device: rungs)
    x, out, factor = hiprt.array(np.arange(10, dtype=np.float32)), hiprt.empty(10), 0.0

    def function():
        out.copy_from(scale(x, factor))

    step = graphs.Step(function, stream=stream, keep=False)
    for factor in (1.0, 2.0, 3.0):
        step()
        np.testing.assert_array_equal(out.numpy(), np.arange(10, dtype=np.float32) * factor)
    assert step.rungs[used] == (3 if used == "eager" else 2)


def probes_found(values):
    """What the probes say when the first graph of a process comes under other flags."""
    with hiprt.flags.override(**values):
        return probes.run(hiprt.current_device())


@pytest.mark.parametrize("values", [{"graph_edges": "chain"}, {"graph_max_nodes": 1}, {"graph_rungs": ["eager"]}])
def test_flags_do_not_change_what_is_found(values):
    """A probe that runs under other flags sees the same defects: its results are kept for other processes."""
    found = child(probes_found, {}, quirks="multiroot_no_launch_wait,fanout_drop")
    assert found["roots ordered"] != "ok"
    assert found["fan-out kept"] != "ok"
    same = {name: result == "ok" for name, result in found.items()}
    seen = child(probes_found, values, quirks="multiroot_no_launch_wait,fanout_drop")
    assert {name: result == "ok" for name, result in seen.items()} == same


def test_errors_are_not_remembered_on_disk(fresh, monkeypatch):
    """Memory may have been short: the next process asks again. The reason for running eagerly names the probe."""

    def short(bench):
        raise hiprt.errors.HipError(2, "hipErrorOutOfMemory", "hipGraphInstantiate")

    monkeypatch.setitem(probes.PROBES, "kernel nodes", short)
    x = hiprt.array(np.ones(10, np.float32))
    step = graphs.Step(lambda: scale(x, 2.0))
    step()
    assert step.rungs["eager"] == 1
    assert any("probe 'kernel nodes': raised" in reason and "OutOfMemory" in reason for reason in step.reasons)
    assert not (fresh / "probes").exists()


def test_a_probe_that_could_not_ask_asks_again(fresh, monkeypatch):
    """One call that fails once in a process does not make it eager for life."""
    ask, asked = probes.PROBES["kernel nodes"], []

    def fails_at_first(bench):
        asked.append(bench)
        if len(asked) < 4:
            raise hiprt.errors.HipError(2, "hipErrorOutOfMemory", "hipGraphCreate")
        return ask(bench)

    monkeypatch.setitem(probes.PROBES, "kernel nodes", fails_at_first)
    x = hiprt.array(np.ones(10, np.float32))
    step = graphs.Step(lambda: scale(x, 2.0))
    for _ in range(20):
        np.testing.assert_array_equal(step().numpy(), 2.0)
    assert step.rungs["instantiate"] == 1
    assert step.rungs["replay"] > 10
    assert len(asked) == 4
    assert json.loads(probes.cache_file(hiprt.current_device()).read_text())["kernel nodes"] == "ok"


def test_a_probe_that_always_fails_is_asked_ever_less(fresh, monkeypatch):
    """It would otherwise cost every launch the time of a probe."""
    asked = []

    def fails(bench):
        asked.append(bench)
        raise hiprt.errors.HipError(801, "hipErrorNotSupported", "hipMallocAsync")

    monkeypatch.setitem(probes.PROBES, "pool ordered", fails)
    device = hiprt.current_device()
    for _ in range(1000):
        trust.trusted(device)
    assert len(asked) == 10
    assert trust.trusted(device) == frozenset(trust.NEEDED)


def test_no_probe_can_run(fresh, monkeypatch):
    """Nothing is known of the device, and the step runs eagerly."""

    def fails(device):
        raise hiprt.errors.HipError(2, "hipErrorOutOfMemory", "hipStreamCreateWithFlags")

    x = hiprt.array(np.ones(10, np.float32))
    step = graphs.Step(lambda: scale(x, 2.0))
    with monkeypatch.context() as patch:
        patch.setattr(probes, "Bench", fails)
        np.testing.assert_array_equal(step().numpy(), 2.0)
    assert step.rungs["eager"] == 1
    for _ in range(5):
        step()
    assert step.rungs["replay"] > 1
