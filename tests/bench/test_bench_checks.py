"""``hiprt bench checks``: the best of the rounds counts, and every kernel runs."""

import json

import pytest

from hiprt.__main__ import main
from hiprt.bench import checks


def test_the_best_round_counts(monkeypatch, capsys):
    given = {"": iter([2.0, 1.0]), "all": iter([30.0, 40.0])}

    def in_process(kinds, threads, module, *arguments):
        assert threads == 2
        if arguments:
            return {"kernels_us": 1000.0 if kinds else 100.0}
        return {"axpy": next(given[kinds])}

    monkeypatch.setattr(checks, "in_process", in_process)
    assert main(["bench", "checks", "--rounds", "2", "--threads", "2", "--json"]) == 0
    works = json.loads(capsys.readouterr().out)["works"]
    assert works["axpy"] == {"plain_ms": 1.0, "checked_ms": 30.0, "factor": 30.0}
    assert works["decode"]["factor"] == pytest.approx(10)


@pytest.mark.wide(turn=3)
@pytest.mark.only("cpu", reason="the checks are the CPU device's")
def test_every_kernel_runs(monkeypatch):
    monkeypatch.setattr(checks, "SECONDS", 0.0)
    monkeypatch.setattr(checks, "best_of", lambda call: call() or 1.0)
    assert len(checks.KERNELS) == 10
    assert set(checks.times()) == set(checks.KERNELS)
