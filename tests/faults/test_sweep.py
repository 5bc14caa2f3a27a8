"""The sweep itself: processes share the calls of a phase, and one that is stopped is gone on with."""

import pytest
from faults.sweep import Part, Sweep

pytestmark = pytest.mark.only("cpu", reason="the shim counts its objects")


def test_processes_share_a_phase():
    """A phase with mistakes: each call is swept once, and what is wrong is found whoever sweeps it."""
    found, written = {}, []
    for _ in range(2):
        part = Part("plain/leaky", found, only_places=False)
        Sweep([part], lambda: written.append(found["faults"])).run_all(jobs=2, seconds=None)
        assert found["left"] == []
        assert found["swept"] == found["calls"] == len(written) > 5
        assert found["faults"] == max(written) == 12 * found["calls"]
        assert {each["what"] for each in found["wrong"]} >= {"lost: {'event': 1}"}


def test_a_sweep_stops():
    part = Part("plain/leaky", found := {}, only_places=False)
    Sweep([part], lambda: None).run_all(jobs=1, seconds=0)
    assert found.get("faults", 0) == 0
