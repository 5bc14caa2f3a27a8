"""`hiprt bench graphed`: calls take the rungs that they should, and a wrong result is counted."""

import sys

import pytest

torch = pytest.importorskip("torch")

from helpers.torch_device import expected, stack, stand_in, tensor  # noqa: E402

from hiprt import __main__  # noqa: E402
from hiprt.bench import graphed  # noqa: E402
from hiprt.bench.graphed import INPUTS, Report, Turns, Work, compare, graphed_ways, in_turn, table  # noqa: E402

WEIGHTS = 12


@pytest.fixture
def device(monkeypatch):
    made = stand_in(monkeypatch)
    yield made
    made.ours.synchronize()


@pytest.fixture
def work(device):
    """Layers on the CPU device, on which torch's ops cannot be captured."""
    places = {f"w{i}": [tensor(3 * i + j) for j in range(3)] for i in range(WEIGHTS)}
    weights = {name: each[0] for name, each in places.items()}
    inputs = [tensor(100 + i) for i in range(INPUTS)]
    return Work(stack(device, weights), weights, {}, places, inputs, device.ours.synchronize)


def test_ways_take_their_rungs(work):
    """Nothing is captured while calls are timed: what is elsewhere is patched, and the rest replayed."""
    ways = in_turn(graphed_ways(work, others=4), work.drain, 20)
    rungs = {name: way.rungs for name, way in ways.items()}
    assert rungs["nothing changed"] == {"replay": 20}
    for name in ("other weights", "other weights, overwrite", "another input"):
        assert rungs[name].get("eager", 0) == 0
        assert rungs[name]["patch"] + rungs[name].get("instantiate", 0) + rungs[name].get("replay", 0) == 20
        assert rungs[name]["patch"] > 10
    assert [way.captures for way in ways.values()] == [0, 0, 0, 0]
    report = Report(12, WEIGHTS, 4, 20, "2", "cpu", ways, 1.0, 5, 1, 3)
    assert len(table(report).splitlines()) == 7
    assert table(report).endswith("5 random changes: 1 wrong, captured 3 times")


def test_random_changes_are_compared(work):
    """All results are those of the function, and one that is off by one is seen."""
    assert compare(work, 20, lambda x: expected(x, work.weights))[0] == 0
    assert compare(work, 20, lambda x: expected(x, work.weights) + 1)[0] == 20


def test_ways_take_turns(monkeypatch):
    """A way has some calls in a row; what undoes other turns and a change come before each, and a wait behind it."""
    monkeypatch.setattr(graphed, "TURN", 2)
    told = []

    def turns(name):
        return Turns(*(lambda part=part: told.append(f"{name} {part}") for part in ("call", "change", "settle")))

    ways = in_turn({"a": turns("a"), "b": turns("b")}, lambda: told.append("wait"), 3)
    a, b = ([f"{name} settle", "wait", f"{name} change", f"{name} call", "wait"] for name in "ab")
    assert told == [*a, *a, *b, *b, *a, *b]
    for way in ways.values():
        assert 0 < way.us["p10"] <= way.us["median"] <= way.us["p99"]


def test_a_machine_without_a_gpu_is_told(monkeypatch, capsys):
    """One line says what is missing."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert __main__.main(["bench", "graphed"]) == 1
    assert capsys.readouterr().err == "hiprt: bench graphed: torch sees no GPU here, on which it could capture\n"


def test_absent_torch_is_told(monkeypatch, capsys):
    """So does another where torch is missing."""
    monkeypatch.setitem(sys.modules, "torch", None)
    assert __main__.main(["bench", "graphed"]) == 1
    assert capsys.readouterr().err == "hiprt: bench graphed: torch is not installed\n"
