"""`hiprt.torch.graphed` on the CPU device: what a call gives back, and when it is captured again."""

import pytest

torch = pytest.importorskip("torch")

from helpers.torch_device import N, captured_again, expected, floats, layer, stack, tensor  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import hiprt  # noqa: E402
from hiprt import graphs  # noqa: E402


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
