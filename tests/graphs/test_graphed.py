"""`hiprt.torch.graphed` on the CPU device: tensors of torch's, kernels of other code, captures of our own."""

import random
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from helpers import foreign  # noqa: E402
from helpers.gate import Gate  # noqa: E402
from helpers.torch_device import Device, N, expected, layer, stack, stand_in, tensor  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import hiprt  # noqa: E402
from hiprt import core, graphs  # noqa: E402
from hiprt.graphs.captured_pointers import Pointers  # noqa: E402
from hiprt.graphs.launch.exec import Exec  # noqa: E402
from hiprt.graphs.record.argument_difference import ArgumentDifference  # noqa: E402
from hiprt.graphs.record.recording import Recording  # noqa: E402
from hiprt.hip import call, lib  # noqa: E402
from hiprt.torch import function  # noqa: E402
from hiprt.torch.cuda import Cuda  # noqa: E402

LAYERS = 12


@pytest.fixture
def device(monkeypatch):
    made = stand_in(monkeypatch)
    yield made
    made.ours.synchronize()


def captured_again(run):
    """How often a call said that it was captured again."""
    return sum(count for reason, count in run.stats.reasons.items() if reason.startswith("capture"))


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


def test_another_shape_is_told_and_captured(device):
    weights = {"w": tensor(1)}
    run = hiprt.torch.graphed(stack(device, weights), weights=weights, name="shapes")
    for n in (N, N, N // 2, N // 2, N):
        found = run(tensor(n, n))
        device.ours.synchronize()
        assert torch.equal(found, expected(tensor(n, n), weights))
    assert [event.difference for event in run.explain() if event.rung == "eager"] == [
        "",
        f"arguments[0] shape: ({N},) -> ({N // 2},)",
    ]
    assert run.captures == 4 + captured_again(run)
    weights["w"] = tensor(7, 2 * N)[::2]
    run(tensor(N))
    assert run.explain()[-1].difference == "w strides: (1,) -> (2,)"
    weights["w"] = tensor(7, N + 4)[4:]
    run(tensor(N))
    assert run.explain()[-1].difference == "w strides: (2,) -> (1,)"
    weights["w"] = tensor(7)
    run(tensor(N))
    run(tensor(N, N + 4)[4:])
    assert run.explain()[-1].difference == "arguments[0] alignment: 0 -> 16"


def test_why_it_was_captured_again_is_told(device):
    """The first tensor that moved, by name."""
    weights = {"w": tensor(1)}
    run = hiprt.torch.graphed(stack(device, weights), weights=weights, name="moved")
    x, old = tensor(2), weights["w"]
    for _ in range(3):
        run(x)
    weights["w"] = tensor(3)
    run(x)
    (event,) = (event for event in run.explain() if event.rung == "capture")
    assert event.reason == "1 tensors lie elsewhere"
    assert event.difference == f"w: {old.data_ptr():#x} -> {weights['w'].data_ptr():#x}"


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


def test_the_memory_of_captures_is_kept_while_graphs_know_it(device):
    """Executable graphs that wait for their turn, and those made ahead of a spent budget, are patched later.

    That is legal only while memory that they copy from or to is there: CUDA takes it for the host's else.
    """

    def forward(x, y):
        out = device.empty()
        layer(device.ours.handle, x, y, out)
        return out

    run, held = hiprt.torch.graphed(forward, name="kept memory"), []
    with hiprt.flags.override(graph_update_budget=8, graph_slots=1):
        for seed in range(14):
            whole = tensor(seed, 2 * N)
            run(whole[:N], whole[16 : N + 16])  # which overlap: each move is captured
            device.ours.synchronize()
            held.append(len(run.held))
    assert run.stats.reasons["replaced: update budget spent"] == 1
    # What was launched last, and behind the fifth patch what the next graph was made of until it is patched.
    assert held[2:] == [1] * 5 + [2] * 3 + [1] * 4, held


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


def test_results_in_place_and_views(device):
    """What lies in an argument is that of the call; the graph's own is copied, or overwritten where one asks for it."""

    def forward(x, cache):
        layer(device.ours.handle, x, x, cache)
        y = device.empty()
        layer(device.ours.handle, cache, x, y)
        return {"y": y, "cache": cache, "tail": cache[8:], "number": 7}

    runs = [hiprt.torch.graphed(forward, name=f"own {own}", overwrite=own) for own in (False, True)]
    for run, own in zip(runs, (False, True)):
        found = []
        for seed in range(5):
            x, cache = tensor(seed), tensor(0)
            found.append(run(x, cache))
            device.ours.synchronize()
            assert found[-1]["cache"] is cache
            assert found[-1]["number"] == 7
            assert found[-1]["tail"].data_ptr() == cache[8:].data_ptr()
            assert torch.equal(found[-1]["y"], x * x * x)
        assert (found[-1]["y"].data_ptr() == found[-2]["y"].data_ptr()) == own


def test_a_view_that_is_conjugated_is_no_plain_view(device):
    """It has the address of the argument, and other values."""
    works = {"conjugated": torch.conj, "conjugated part": lambda x: torch.conj(x).imag}
    runs = [hiprt.torch.graphed(work, name=name) for name, work in works.items()]
    for _ in range(4):
        x = torch.view_as_complex(tensor(1).view(torch.float32).view(-1, 2))
        for run in runs:
            assert torch.equal(run(x), run.function(x))
    for run in runs:
        reason = next(reversed(run.explain())).reason
        assert reason.endswith("a result is a view of an argument as another dtype, or conjugated or negated")


def test_what_changes_in_place_changes_once_a_call(device):
    """Also in the first calls, of which some rehearse and capture."""

    def forward(x, w):
        layer(device.ours.handle, x, w, x)

    run, x, w = hiprt.torch.graphed(forward, name="once"), tensor(1), tensor(2)
    wanted = x.clone()
    for _ in range(4):
        run(x, w)
        device.ours.synchronize()
        wanted *= w
        assert torch.equal(x, wanted)


def test_what_cannot_be_a_graph_runs_eagerly(device):
    """And the reason is told: host copies, random numbers, and what fails while it is captured."""

    def copies(x):
        y = device.empty()
        call(lib.hipMemcpyAsync(y.data_ptr(), foreign.pointer(hiprt.array([1.0])), 4, lib.hipMemcpyHostToDevice, ours))
        return y

    def draws(x):
        device.drawn += 1
        return x

    def reads(x):
        if device.is_capturing:
            raise RuntimeError("operation not permitted when stream is capturing")
        return x

    ours = device.ours.handle
    for work, reason in (
        (copies, "a copy from or to the host"),
        (draws, "it draws random numbers: give them to it as an argument"),
        (reads, "it cannot be captured: operation not permitted when stream is capturing"),
    ):
        run = hiprt.torch.graphed(work)
        for _ in range(4):
            assert isinstance(run(tensor(1)), torch.Tensor)
        assert reason in run.explain()[-1].reason
        assert run.stats.rungs["eager"] == 4


@pytest.mark.parametrize("tells_first", [False, True])
def test_a_capture_that_fails_leaves_torch_as_it_was(tells_first):
    """Its allocator and its random numbers, which some versions of torch tell nothing where a capture fails."""

    class Torch:
        """Stands for torch: what of it takes part in captures."""

        def __init__(self):
            self.pools, self.taken, self.released = 0, [], []
            self.is_drawing_captured = self.has_failed = False
            self.cuda = self._C = self

        def stream(self, _):
            return nullcontext()

        def graph_pool_handle(self):
            self.pools += 1
            return (0, self.pools)

        def CUDAGraph(self, keep_graph):
            return TorchGraph()

        def zeros(self, n, device):
            assert device == "cuda"

        def _cuda_endAllocateToPool(self, index, pool):
            if pool not in self.taken:
                raise RuntimeError("not currently recording to mempool_id")
            self.taken.remove(pool)

        def _cuda_releasePool(self, index, pool):
            self.released.append((index, pool))

    class TorchGraph:
        def capture_begin(self, pool=None, capture_error_mode="global"):
            self.pool = pool or fake.graph_pool_handle()
            assert self.pool not in fake.taken
            fake.taken.append(self.pool)
            fake.is_drawing_captured, fake.has_failed = True, False

        def capture_end(self):
            if not fake.has_failed or tells_first:
                fake._cuda_endAllocateToPool(0, self.pool)
                fake.is_drawing_captured = False
            if fake.has_failed:
                raise RuntimeError("operation failed due to a previous error during capture")

        def raw_cuda_graph(self):
            return 7

    fake, device = Torch(), object.__new__(Cuda)
    device.torch, device.index, device.pool, device.side = fake, 3, None, SimpleNamespace(device="cuda")

    def waits():
        fake.has_failed = True
        raise RuntimeError("operation not permitted when stream is capturing")

    def is_given_up():
        fake.has_failed = True

    for is_first in (True, False):
        for work, reason in ((waits, "not permitted"), (is_given_up, "previous error")):
            with pytest.raises(RuntimeError, match=reason):
                device.capture(work, is_first=is_first)
            assert fake.taken == []
            assert not fake.is_drawing_captured
            assert device.capture(lambda: 1, is_first=is_first).results == 1
    assert [index for index, _ in fake.released] == [3] * 4


def test_tensors_that_do_not_tell_where_they_are_run_eagerly(device):
    """A graph of them would read the memory that the first ones had."""

    class Wrapper(torch.Tensor):
        """Made of another tensor, as sharded and quantised ones are."""

        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
            return op(*(each.inner if isinstance(each, cls) else each for each in args), **(kwargs or {}))

    x, weights = tensor(1), {"w": tensor(2)}
    nested = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=torch.jagged)
    run = hiprt.torch.graphed(lambda x: x * 2, weights=weights, name="hidden memory")
    for _ in range(3):
        assert torch.equal(run(Wrapper(x)), x * 2)
        assert torch.equal(run(torch.eye(4).to_sparse()).to_dense(), 2 * torch.eye(4))
        assert torch.equal(run(nested).values(), 2 * nested.values())
        run(x)
    weights["w"] = Wrapper(tensor(3))
    assert torch.equal(run(x), x * 2)
    assert "a tensor, sparse or made of others, does not tell where it is: a <class" in run.explain()[-1].reason
    weights["w"] = torch.empty(0)
    assert torch.equal(run(x), x * 2)
    assert run.explain()[-1].reason == "first call of this signature"


def test_arguments_in_which_tensors_cannot_be_found(device):
    """Other values are part of the signature: 1, 1.0 and True differ."""
    run = hiprt.torch.graphed(lambda x, *rest: x, name="values")
    with pytest.raises(TypeError, match="an argument is a Device, in which tensors cannot be found"):
        run(tensor(1), Device())
    for value in (1, 1.0, True, None, "1", torch.int32, [1], (1,), {"a": 1}):
        run(tensor(1), value)
    assert len(run.kept) == 9
    assert run.explain()[-1].difference


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


def test_forms_of_views_are_told_apart(device):
    """What DLPack tells of tensors is what their methods tell, and what it does not tell is asked."""
    reader = hiprt.torch.graphed(lambda x: x, name="reader").reader
    whole, pair = torch.arange(4096.0), torch.view_as_complex(torch.zeros(64, 2))
    views = [whole, whole[1:], whole[64:4032], whole.view(64, 64), whole.view(64, 64).t(), whole.view(8, 8, 64)]
    views += [whole.view(2, 1, 1, 2, 2, 2, 2, 2, 2, 32), whole[:0], whole.int(), pair, pair.conj(), pair.conj().imag]
    views += [pair.imag, torch.nn.Parameter(whole), torch.tensor(1.5)]
    for _ in range(2):
        for view in views:
            tensors, words = [], bytearray()
            form = reader.read((view,), {}, None, None, tensors, words)[0][1]
            address = view.data_ptr()
            wanted = view.shape, view.stride(), view.dtype, view.device, address & -address & 255, view.is_conj()
            assert form == (*wanted, view.is_neg())
            assert (tensors[0] is view, int.from_bytes(words, "little")) == (True, address)


def test_a_tensor_that_comes_again_is_asked_what_it_is_where_that_may_have_changed(device):
    """The same object with other axes, another one at the same address, and one that is negated."""
    reader = hiprt.torch.graphed(lambda x: x, name="again").reader
    whole, pair = torch.arange(64.0), torch.view_as_complex(torch.zeros(64, 2))

    def form(value):
        return reader.read((value,), {}, None, None, [], bytearray())[0][1]

    first = form(whole)
    assert form(whole) is first
    assert form(whole[:64]) is first
    whole.resize_(8, 8)
    assert form(whole).shape == (8, 8)
    negated = pair.conj().imag
    assert not form(pair.imag).is_negated
    assert pair.imag.data_ptr() == negated.data_ptr()
    assert form(negated).is_negated
    assert not form(pair.imag).is_negated
    del negated
    assert form(pair.conj().imag).is_negated


@pytest.mark.parametrize("has_handles", [True, False])
def test_weights_that_change_in_place_are_seen(has_handles):
    """A tensor that gets other memory, with torch's stable C functions and without them; None is no tensor."""
    pairs = function.handles(torch) if has_handles else []
    weights = {"w": torch.nn.Parameter(tensor(1).view(torch.float32)), "v": tensor(2)}
    places, numbers = [(weights, name) for name in weights], {}
    asked = torch.Tensor, function.Form, function.described, 256, pairs
    reader = function.tensors_module.Reader(*asked, places, numbers)

    def look():
        words = bytearray()
        number = reader.read((), {}, None, None, [], words)[-1]
        assert all(each is now for each, now in zip(reader.weights(), weights.values(), strict=True))
        assert np.frombuffer(words, np.uint64).tolist() == [each.data_ptr() for each in weights.values()]
        assert [form.shape for form in list(numbers)[number]] == [each.shape for each in weights.values()]
        return number

    assert look() == 0
    assert look() == 0
    weights["w"].data = tensor(3).view(torch.float32)
    assert look() == 0
    kept = weights["v"]
    kept.set_(tensor(4, 2 * N))
    assert look() == 1
    weights["v"] = None
    for _ in range(2):
        with pytest.raises(TypeError):
            look()
    weights["w"] = tensor(5, 3 * N)
    with pytest.raises(TypeError):
        look()
    weights["v"] = kept
    assert look() == 2


def test_weights_are_found_wherever_a_dictionary_has_them():
    """It may have other keys between them, another order, and keys that are equal to those that it had first."""
    weights = {"a": tensor(1), "none": None, "b": tensor(2), "c": tensor(3)}
    places = [(weights, name) for name in "abc"]
    asked = torch.Tensor, function.Form, function.described, 256, function.handles(torch)
    reader = function.tensors_module.Reader(*asked, places, {})

    def look():
        reader.read((), {}, None, None, [], bytearray())
        return all(each is weights[name] for each, name in zip(reader.weights(), "abc", strict=True))

    assert look()
    weights["a"] = weights.pop("a")
    assert look()
    kept = weights.pop("b")
    weights["".join(["b"])] = kept.clone()
    weights["c"] = tensor(4)
    assert look()
    del weights["c"]
    with pytest.raises(KeyError):
        look()


def test_the_text_of_a_difference_is_made_when_somebody_asks(device, monkeypatch):
    asked = []
    told = ArgumentDifference.__str__
    monkeypatch.setattr(ArgumentDifference, "__str__", lambda self: asked.append(1) or told(self))
    weights = {"w": tensor(1)}
    run, x = hiprt.torch.graphed(stack(device, weights), weights=weights, name="asked"), tensor(2)
    given = [tensor(seed) for seed in range(6)]  # all are kept, so that no address comes back
    for weights["w"] in given:
        run(x)
        device.ours.synchronize()
    assert not asked
    old, new = (each.data_ptr() for each in given[-2:])
    assert run.stats.latest.difference.endswith(f"argument 1: {old} -> {new}")
    assert len(asked) == 1


def test_what_arguments_are_is_looked_at_each_time(device):
    """A tensor whose shape changes in place, names of dictionaries, and what cannot be read."""
    weights = {"w": tensor(1)}
    run = hiprt.torch.graphed(stack(device, weights), weights=weights, name="forms")
    given = hiprt.torch.graphed(lambda cache: run(cache["x"]), name="named")
    x = tensor(2)
    given({"x": x})
    x.unsqueeze_(0)
    given({"x": x})
    assert given.explain()[-1].difference == f"arguments[0]['x'] shape: ({N},) -> (1, {N})"
    x.squeeze_(0)
    run(x)
    kept = weights.pop("w")
    with pytest.raises(KeyError):
        run(x)
    weights["w"] = kept.double()
    run(x.double())
    weights["w"] = kept
    assert torch.equal(run(x), expected(x, weights))
    nested = []
    nested.append(nested)
    with pytest.raises(RecursionError):
        run(nested)
    device.ours.synchronize()


def test_kernels_of_hidden_arguments(device, monkeypatch):
    """Where HIP does not tell what a kernel was given, each move is captured."""
    monkeypatch.setenv("HIPRT_CPU_QUIRKS", "param_info_missing")
    weights = {"w": tensor(1)}
    run = hiprt.torch.graphed(stack(device, weights), weights=weights, name="hidden")
    for seed in (1, 1, 2, 3, 4):
        x = tensor(seed)
        found = run(x)
        device.ours.synchronize()
        assert torch.equal(found, expected(x, weights))
    assert graphs.stats()["hidden"]["rungs"]["eager"] == 1


def test_a_module_in_another_mode_is_other_work(device):
    """A layer that drops out, or keeps statistics, launches something else while it trains."""

    class Layer(torch.nn.Module):
        def forward(self, x):
            y = device.empty(x.numel())
            layer(device.ours.handle, x, x, y, 256 * self.training)
            return y

    module, x = Layer().eval(), tensor(1)
    run = hiprt.torch.graphed(module, name="modes")
    for is_training in (False, False, False, True, True, True, False):
        module.train(is_training)
        found = run(x)
        device.ours.synchronize()
        assert torch.equal(found, x * x + is_training)
    told = [event.difference for event in run.explain() if event.rung == "eager"]
    assert told == ["", "training of Layer: False -> True"]


def test_a_module_inside_of_another_has_a_mode_too(device):
    """A block of which one layer is frozen launches something else than one that trains as a whole."""

    class Layer(torch.nn.Module):
        def forward(self, x):
            y = device.empty(x.numel())
            layer(device.ours.handle, x, x, y, 256 * self.training)
            return y

    block, x = torch.nn.Sequential(Layer(), Layer()).eval(), tensor(1)
    run = hiprt.torch.graphed(block, name="inner modes")
    for is_training in (False, False, False, True, True, True, False):
        block[1].train(is_training)
        found = run(x)
        device.ours.synchronize()
        assert torch.equal(found, (x * x) * (x * x) + is_training)
    told = [event.difference for event in run.explain() if event.rung == "eager"]
    assert told == ["", "training of 1: False -> True"]


def test_a_module_that_is_given_twice_has_one_mode():
    """As weights, and inside of another one: each call reads all modes."""
    block = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.ReLU())
    run = hiprt.torch.graphed(torch.relu, weights=[block, block[0]])
    assert run.modules == [block, *block]


def floats(value):
    """Return a tensor of one number many times, which begins where torch's tensors on a GPU do."""
    return tensor(0).view(torch.float32).fill_(float(value))


def test_what_is_left_elsewhere_runs_eagerly(device):
    """A replay sets no attributes: a weight that the function exchanges, and gradients of a backward pass."""
    cache, weight = torch.nn.Module(), torch.nn.Parameter(floats(1))
    cache.register_buffer("sums", floats(0))

    def exchanges(x):
        cache.sums = floats(0).copy_(cache.sums + x)
        return cache.sums * 1

    def differentiates(x):
        with torch.enable_grad():
            (weight * x).sum().backward()
        return x + 1

    added = hiprt.torch.graphed(exchanges, weights=cache)
    derived = hiprt.torch.graphed(differentiates, weights=[weight])
    for turn in range(1, 5):
        assert torch.equal(added(floats(1)), floats(turn))
        assert torch.equal(cache.sums, floats(turn))
        assert torch.equal(derived(floats(turn)), floats(turn + 1))
        assert torch.equal(weight.grad, floats(turn))
        weight.grad = None
    reasons = [next(reversed(run.explain())).reason for run in (added, derived)]
    told = "it leaves a gradient at {}: return gradients, or set them to None"
    assert reasons[0] == "it puts another tensor in the place of sums: write to that one, or return it"
    assert reasons[1] == told.format("weight 0")
    weight.requires_grad_(False)
    derived = hiprt.torch.graphed(differentiates, weights=[weight])
    for _ in range(2):
        x = floats(1).requires_grad_()
        derived(x)
        assert torch.equal(x.grad, weight)
    assert derived.explain()[-1].reason == told.format("tensor 0 of the arguments")


def test_a_step_that_takes_its_gradients_away_is_a_graph(device):
    """As one that trains may: what it leaves is in its weights."""
    weight, x = torch.nn.Parameter(floats(1)), tensor(1)

    def step(x):
        with torch.enable_grad():
            (weight * weight).sum().backward()
        weight.grad = None
        y = device.empty()
        layer(device.ours.handle, x, x, y)
        return y

    run = hiprt.torch.graphed(step, weights=[weight], name="step")
    for _ in range(4):
        found = run(x)
        device.ours.synchronize()
        assert torch.equal(found, x * x)
    assert run.stats.rungs["eager"] == 1


def test_results_carry_no_gradients(device):
    """Those of the capture would be of its tensors, not of the call's; an argument that carries one stays as it is."""
    weight = torch.nn.Parameter(floats(1))

    def forward(x):
        with torch.enable_grad():
            y = weight * 2
            return {"y": y, "part": y[1:], "x": x}

    run, x = hiprt.torch.graphed(forward, weights=[weight], name="recorded"), weight.view(-1)
    for _ in range(4):
        found = run(x)
        assert found["x"] is x
        assert not found["y"].requires_grad
        assert not found["part"].requires_grad
        assert torch.equal(found["y"], floats(2))
    assert run.stats.rungs["eager"] == 1


def test_casts_that_autocast_keeps_are_no_part_of_a_graph(device):
    """Their memory goes when the context ends; a graph casts weights itself."""
    weight, casts = torch.nn.Parameter(torch.ones(4, 4)), []

    class Casts(TorchDispatchMode):
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            casts[-1] += op is torch.ops.aten._to_copy.default
            return op(*args, **(kwargs or {}))

    def work(x):
        casts.append(0)
        with Casts():
            torch.nn.functional.linear(torch.ones(4, 4), weight)
        y = device.empty()
        layer(device.ours.handle, x, x, y)
        return y

    run = hiprt.torch.graphed(work, weights=[weight])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.nn.functional.linear(torch.ones(4, 4), weight)
        for _ in range(3):
            run(tensor(1))
        assert torch.is_autocast_cache_enabled()
    assert casts == [2] * len(casts)
    assert len(casts) > 2
