"""`hiprt.torch.graphed` on the CPU device: how arguments, weights and modules are told apart from call to call."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from helpers.torch_device import Device, N, expected, layer, stack, tensor  # noqa: E402

import hiprt  # noqa: E402
from hiprt.graphs.record.argument_difference import ArgumentDifference  # noqa: E402
from hiprt.torch import function  # noqa: E402


def test_arguments_in_which_tensors_cannot_be_found(device):
    """Other values are part of the signature: 1, 1.0 and True differ."""
    run = hiprt.torch.graphed(lambda x, *rest: x, name="values")
    with pytest.raises(TypeError, match="an argument is a Device, in which tensors cannot be found"):
        run(tensor(1), Device())
    for value in (1, 1.0, True, None, "1", torch.int32, [1], (1,), {"a": 1}):
        run(tensor(1), value)
    assert len(run.kept) == 9
    assert run.explain()[-1].difference


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
