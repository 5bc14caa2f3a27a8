"""Which rung is taken and why: the choice between changing an exec and making another, and what runtimes forbid."""

import numpy as np
import pytest
from helpers.kernels import scale

import hiprt
from hiprt import core, graphs, hip_versions
from hiprt.graphs.launch import allowed_rungs, trust
from hiprt.hip_versions import FANOUT, RUNTIMES, Runtime, runtime

NUMBERS = {name: getattr(core.lib, f"HIPRT_{name.upper()}") for name in graphs.RUNG_NAMES}


@pytest.mark.parametrize(
    ("same", "free", "is_drained", "comes_back", "reason"),
    [
        (0, 0, False, True, "first of this topology"),
        (2, 0, False, True, "every exec of this topology is kept for a call with other arguments"),
        (2, 2, False, True, "2 of this topology, all in flight"),
        (2, 1, True, True, "these arguments come back: they get an exec of their own"),
        (2, 1, True, False, ""),
        (4, 4, False, False, ""),
        (4, 4, True, True, ""),
    ],
)
def test_when_another_exec_is_made(same, free, is_drained, comes_back, reason):
    """Not where all slots are taken, whatever comes back."""
    said = core.ffi.new("char[]", core.lib.HIPRT_REASON)
    core.lib.hiprt_rung_why_another(same, free, is_drained, comes_back, 4, said)
    assert core.ffi.string(said).decode() == reason


@pytest.mark.parametrize(
    ("used", "change", "share"),
    [
        ((0, 0), (10, 1000), 0.1),
        ((40, 0), (10, 6000), 0.6),
        ((90, 0), (10, 0), 1),
        ((90, 0), (11, 0), 1.01),
        ((0, 9000), (1, 2000), 1.1),
        ((0, 0), (101, 0), -1),
        ((0, 0), (1, 10001), -1),
    ],
)
def test_the_update_budget_is_that_of_whichever_is_spent_first(used, change, share):
    """Nodes or bytes of arguments; a change that no exec may take has no share."""
    rules = core.ffi.new("hiprt_rules *", {"budget_nodes": 100, "budget_bytes": 10000})
    assert core.lib.hiprt_budget_used(rules, *used, *change) == pytest.approx(share)


@pytest.mark.parametrize(
    ("patch", "update", "changed", "rung"),
    [
        (-1, -1, 10, "patch"),
        (1.0, -1, 6, "patch"),
        (1.0, -1, 7, "update"),
        (1.0, 0.5, 5, "patch"),
        (1.0, 0.5, 6, "update"),
    ],
)
def test_the_cheaper_of_patch_and_update(patch, update, changed, rung):
    """Of ten nodes; an untried rung is tried where it has less to do."""
    lib, every = core.lib, ("patch", "update", "replay")
    for name, cost in (("patch", patch), ("update", update)):
        lib.hiprt_rung_set_cost(NUMBERS[name], cost)

    def cheaper(*allowed):
        return lib.hiprt_rung_cheaper(changed, 10, sum(allowed_rungs.RUNGS[name] for name in allowed))

    assert cheaper(*every) == NUMBERS[rung]
    assert cheaper("replay", "update") == NUMBERS["update"]
    assert cheaper("replay") == NUMBERS["eager"]


def test_the_row_of_an_architecture_stands_before_its_providers(monkeypatch):
    """The first row that fits holds; a provider that is not named has the last."""
    monkeypatch.setattr(hip_versions, "RUNTIMES", (Runtime("rocm", "gfx12", 70000000, 2), *RUNTIMES))
    assert runtime("rocm", "gfx1201").fanout == 2
    assert runtime("rocm", "gfx1100") == runtime("rocm") == RUNTIMES[0]
    assert runtime("cpu", "gfx1201") == RUNTIMES[-1]
    assert runtime("rocm").least_hip == 60000000


def test_graphs_are_not_used_with_a_runtime_too_old_for_the_architecture(stream, monkeypatch):
    """The step runs eagerly, with the same bits, and the reason names both versions."""
    device = hiprt.current_device()
    newer = Runtime(device.provider.name, device.arch, 990000000, FANOUT)
    monkeypatch.setattr(hip_versions, "RUNTIMES", (newer, *RUNTIMES))
    trust.decided.clear()
    try:
        x = hiprt.array(np.ones(10, np.float32))
        step = graphs.Step(lambda: scale(x, 3.0), stream=stream)
        np.testing.assert_array_equal(step().numpy(), np.full(10, 3, np.float32))
    finally:
        trust.decided.clear()
    assert step.rungs["eager"] == 1
    (reason,) = step.reasons
    assert reason.startswith("eager: HIP ")
    assert reason.endswith(f"is too old for graphs on {device.arch}: 99.0 is needed")


def test_fan_out_without_a_bound_needs_a_device_that_keeps_the_order(monkeypatch):
    """G6: where the probes failed, HIPRT_GRAPH_FANOUT=0 gives the runtime's bound, and says so."""
    device = hiprt.current_device()
    assert allowed_rungs.fanout(device) == (FANOUT, "")
    with hiprt.flags.override(graph_fanout=0):
        assert allowed_rungs.fanout(device) == (0, "")
        monkeypatch.setattr(allowed_rungs, "trusted", lambda device: frozenset(("instantiate",)))
        bound, reason = allowed_rungs.fanout(device)
    assert bound == FANOUT
    assert "loses the order of wide graphs" in reason
