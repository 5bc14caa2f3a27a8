"""Fixtures of the graph tests."""

import pytest

import hiprt
from hiprt import core, graphs


@pytest.fixture(autouse=True, scope="session")
def _probed():
    """Have the probes' answers before any test breaks what they call."""
    graphs.probes(hiprt.current_device())


@pytest.fixture(autouse=True)
def _untried_rungs():
    """Begin as a fresh process does: what patches and updates cost in other tests does not choose between them."""
    for rung in (core.lib.HIPRT_PATCH, core.lib.HIPRT_UPDATE):
        core.lib.hiprt_rung_set_cost(rung, -1)


@pytest.fixture
def calls(monkeypatch):
    """The arguments of each call of a step that Python was asked for."""
    made, call = [], graphs.Step.call

    def counted(self, *args, **keywords):
        made.append(args)
        return call(self, *args, **keywords)

    monkeypatch.setattr(graphs.Step, "call", counted)
    return made


@pytest.fixture
def device(monkeypatch):
    """What functions that are graphed take for torch's device."""
    from helpers.torch_device import stand_in

    made = stand_in(monkeypatch)
    yield made
    made.ours.synchronize()
