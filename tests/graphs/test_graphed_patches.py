"""`hiprt.torch.graphed` on the CPU device: tensors that move, whose addresses are patched in what was captured."""

import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from helpers.gate import Gate  # noqa: E402
from helpers.torch_device import N, captured_again, expected, layer, stack, tensor  # noqa: E402

import hiprt  # noqa: E402
from hiprt import core, graphs  # noqa: E402
from hiprt.graphs.captured_pointers import Pointers  # noqa: E402
from hiprt.graphs.launch.exec import Exec  # noqa: E402
from hiprt.graphs.record.recording import Recording  # noqa: E402

LAYERS = 12


def test_changes_are_patched_in(device, form):
    """Inputs and weights at other places, at random: patched, with the bits of the function itself."""
    chance = random.Random(3)
    weights = {f"w{i}": tensor(i) for i in range(LAYERS)}
    run = hiprt.torch.graphed(stack(device, weights), weights=weights, name="stack")
    inputs = [tensor(100 + i) for i in range(4)]
    x = inputs[0]
    for turn in range({"short": 100, "usual": 300}.get(form, 1000)):
        if turn > 2:
            x = chance.choice(inputs)
            for name in chance.sample(list(weights), chance.randrange(4)):
                weights[name] = tensor(chance.randrange(1 << 16))
        found = run(x)
        device.ours.synchronize()
        assert torch.equal(found, expected(x, weights)), turn
    # Two captures are for what is where; each tensor that moves for the first time asks for another.
    assert run.captures == 2 + captured_again(run)
    assert captured_again(run) <= LAYERS + 1
    assert run.stats.rungs["eager"] == 1
    assert run.stats.rungs["instantiate"] <= hiprt.flags.graph_slots
    assert run.stats.rungs["patch"] > 0


def test_a_number_that_looks_like_an_address_stays(device):
    """It does not move with the tensor, which the first capture of a move shows; it is no address from then on."""
    first = tensor(1)
    salt = first.data_ptr() + 8

    def forward(x):
        y = device.empty()
        layer(device.ours.handle, x, x, y, salt)
        return y

    run, inputs = hiprt.torch.graphed(forward, name="salt"), [first, tensor(2), tensor(3)]
    for i in (0, 0, 0, 1, 2, 0, 1):
        found = run(inputs[i])
        device.ours.synchronize()
        expected = inputs[i].numpy() * inputs[i].numpy() + np.int64(salt >> 8).astype(np.int32)
        np.testing.assert_array_equal(found.numpy(), expected)
    assert captured_again(run) == 2


def test_a_word_that_looks_like_an_address_makes_no_other_memory_unknown(device):
    """Only the tensor in whose memory it seems to lie has to be seen moving once more."""
    weights, salts = {name: tensor(i) for i, name in enumerate("abc")}, [0]

    def forward(x):
        for w in weights.values():
            x, y = device.empty(), x
            layer(device.ours.handle, y, w, x, salts[0])
        return x

    run, x = hiprt.torch.graphed(forward, weights=weights, name="seems"), tensor(9)
    run(x), run(x)
    captured = []
    for turn, name in enumerate("abcbca"):
        if turn == 2:
            salts[0] = weights["a"].data_ptr() + 8
        weights[name] = tensor(20 + turn)
        found, wanted = run(x), x
        device.ours.synchronize()
        for w in weights.values():
            wanted = wanted * w + torch.tensor(salts[0] >> 8).to(torch.int32)
        assert torch.equal(found, wanted), name
        captured.append(captured_again(run))
    assert captured == [1, 2, 3, 3, 4, 5]


def test_words_that_follow_from_nothing_are_found_out(device):
    """Junk between a library's fields, alike in the first captures by chance: one more capture each time shows it."""
    junk = iter((0, 1, 1, 2, 3, *range(4, 20)))

    def forward(x):
        y = device.empty()
        layer(device.ours.handle, x, x, y, next(junk))
        return y

    run, inputs = hiprt.torch.graphed(forward, name="junk"), [tensor(seed) for seed in range(3)]
    for i in (0, 0, 1, 2, 0, 1, 2):
        found = run(inputs[i])
        device.ours.synchronize()
        assert torch.equal(found, inputs[i] * inputs[i])
    assert captured_again(run) == 2
    assert run.captures == 5


def test_tensors_that_overlap_are_captured_again(device):
    """Which of them a word points into is not known."""
    whole = [tensor(1, 2 * N), tensor(2, 2 * N)]

    def forward(x, y):
        out = device.empty()
        layer(device.ours.handle, x, y, out)
        return out

    run = hiprt.torch.graphed(forward, name="overlap")
    for i in (0, 0, 1, 0, 1):
        x, y = whole[i][:N], whole[i][16 : N + 16]
        found = run(x, y)
        device.ours.synchronize()
        assert torch.equal(found, x * y)
    assert captured_again(run) == 3


def test_tensors_at_one_place_move_together(device):
    """Tied weights are patched; where one of them moves alone, that is captured again."""
    tied = tensor(1)
    weights = {"a": tied, "b": tied}
    run, x = hiprt.torch.graphed(stack(device, weights), weights=weights, name="tied"), tensor(2)

    def check():
        found = run(x)
        device.ours.synchronize()
        assert torch.equal(found, expected(x, weights))

    check()
    check()
    for seed in (3, 4, 5):
        weights["a"] = weights["b"] = tensor(seed)
        check()
    assert captured_again(run) == 1
    weights["a"] = tensor(6)
    check()
    assert captured_again(run) == 2


def test_what_was_pointed_is_compared_by_where_its_memory_is(device):
    """And by its arguments, once something else has changed them."""
    weights = {f"w{i}": tensor(i) for i in range(4)}
    run, x = hiprt.torch.graphed(stack(device, weights), weights=weights, name="pointed"), tensor(9)
    for _ in range(2):
        run(x)
    table = run.latest.pointers
    starts = list(table.starts)
    first, second = (table.recording.copy() for _ in range(2))
    starts[0] += 4096  # what the stack reads first
    second.point(table.pointers, core.ffi.new("uint64_t[]", starts))
    exec_ = graphs.Exec(first, 0)
    assert exec_.patch(second) == 1
    starts[1] += 4096
    third = second.copy()
    third.point(table.pointers, core.ffi.new("uint64_t[]", starts))
    assert exec_.patch(third) == second.changed(third)[0] == 1
    captured = device.capture(lambda: run.function(tensor(10)), is_first=False)
    fourth = Recording.of_graph(captured.graph, 0, is_given=False, like=third)
    assert exec_.patch(fourth) == third.changed(fourth)[0] == 4


def moving(device, monkeypatch, weights):
    """A graphed stack whose weights may all move, its input, and a list of the calls that made another recording."""
    run, x = hiprt.torch.graphed(stack(device, weights), weights=weights, name="moving"), tensor(9)
    run(x), run(x)
    for name in weights:
        weights[name] = tensor(1000 + len(name))
        run(x)
    x = tensor(10)
    run(x)
    device.ours.synchronize()
    recorded, at = [], Pointers.at
    monkeypatch.setattr(Pointers, "at", lambda *given: recorded.append(1) or at(*given))
    return run, x, recorded


def test_what_is_not_in_flight_is_patched_where_it_is(device, monkeypatch):
    """Without another recording, and what was launched last says what differs."""
    weights = {f"w{i}": tensor(i) for i in range(4)}
    run, x, recorded = moving(device, monkeypatch, weights)
    given, patches = [tensor(seed) for seed in range(20, 40)], run.stats.rungs["patch"]
    for turn, new in enumerate(given):
        old, weights[f"w{turn % 4}"] = weights[f"w{turn % 4}"], new
        found = run(x)
        device.ours.synchronize()
        assert torch.equal(found, expected(x, weights))
        told = f"node {turn % 4} (layer) argument 1: {old.data_ptr()} -> {new.data_ptr()}"
        assert run.stats.latest.difference == told
    assert not recorded
    assert run.stats.rungs["patch"] == patches + len(given)
    # The budget counts these nodes too: behind half of it, a successor is made of another recording.
    with hiprt.flags.override(graph_update_budget=60):
        for weights["w0"] in [tensor(seed) for seed in range(40, 120)]:
            found = run(x)
            device.ours.synchronize()
            assert torch.equal(found, expected(x, weights))
    assert recorded
    assert run.stats.reasons["replaced: update budget spent"] > 0


def test_what_is_in_flight_is_not_changed(device, monkeypatch):
    """A call with other memory takes another graph, and the one before keeps its arguments."""
    weights = {"w": tensor(1)}
    run, x, recorded = moving(device, monkeypatch, weights)
    gate = Gate(device.ours)
    monkeypatch.setattr(device, "copy", lambda found: found)
    given = [tensor(seed) for seed in (70, 71, 72)]  # all are kept until the work is done
    gate.shut()
    for weights["w"] in given:
        found = run(x)
        assert gate.is_closed
    assert recorded
    gate.open()
    gate.close()
    assert torch.equal(found, expected(x, weights))


def test_memory_that_takes_turns_gets_a_graph_for_each(device, monkeypatch):
    weights = {"w": tensor(1)}
    run, x, _ = moving(device, monkeypatch, weights)
    pair = tensor(80), tensor(81)
    for turn in range(12):
        weights["w"] = pair[turn % 2]
        found = run(x)
        device.ours.synchronize()
        assert torch.equal(found, expected(x, weights))
    rungs = dict(run.stats.rungs)
    for turn in range(12):
        weights["w"] = pair[turn % 2]
        run(x)
        device.ours.synchronize()
    assert run.stats.rungs == {**rungs, "replay": rungs["replay"] + 12}


def test_a_patch_or_launch_that_fails_runs_eagerly(device, monkeypatch):
    """With the memory of this call; the next call makes another graph."""
    weights = {f"w{i}": tensor(i) for i in range(2)}
    run, x, recorded = moving(device, monkeypatch, weights)
    eager, original = run.stats.rungs["eager"], Exec.launch

    def fail(*_):
        monkeypatch.setattr(Exec, "launch", original)
        raise hiprt.HipError(1, "hipErrorInvalidValue", "hipGraphLaunch")

    monkeypatch.setattr(Exec, "launch", fail)
    given = [tensor(seed) for seed in (90, 91, 92)]  # all are kept, so that no address comes back
    for weights["w1"] in given:
        found = run(x)
        device.ours.synchronize()
        assert torch.equal(found, expected(x, weights))
    assert run.stats.rungs["eager"] == eager + 1
    assert len(recorded) == 1
