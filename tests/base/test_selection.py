"""How tests are spread over processes, and which parametrisations run without ``--all``."""

import os
import subprocess
import sys
from itertools import product
from types import SimpleNamespace

import hypothesis
import pytest
from helpers.selection import FEW, chosen, is_in_turn, left_out, of_other_shares, pairs, values


def test_every_two_values_meet():
    cases = [dict(zip("abcd", values)) for values in product(range(5), ("x", "y"), (None, 1.5, 2.5), (True, False))]
    taken = chosen([pairs(case) for case in cases], "seed")
    assert 15 <= len(taken) < 30  # of 60; five times three are the pairs of the longest two
    assert set.union(*(pairs(cases[i]) for i in taken)) == set.union(*map(pairs, cases))


def test_the_choice_is_that_of_the_seed():
    cases = [pairs(dict(zip("abc", values))) for values in product(range(9), range(3), range(3))]
    assert chosen(cases, "one") == chosen(cases, "one")
    assert chosen(cases, "one") != chosen(cases, "two")


def test_what_has_one_or_two_parameters_runs_whole():
    assert chosen([pairs({"a": i}) for i in range(20)], "") == set(range(20))
    assert len(chosen([pairs({"a": i, "b": j}) for i in range(5) for j in range(5)], "")) == 25


def test_examples_have_no_deadline():
    """Under a sanitizer, or on a loaded machine, one takes longer than hypothesis's usual 200 ms."""
    assert hypothesis.settings.default.deadline is None


def test_examples_are_the_same_each_time_unless_new_ones_are_asked_for(request):
    option = request.config.getoption
    asks_for_new = option("-m") == "soak" or option("--hypothesis-seed") is not None
    assert hypothesis.settings.default.derandomize is not asks_for_new


class Item:
    """What `left_out` reads of a test."""

    def __init__(self, nodeid, params, marker=None, *, marks=()):
        self.nodeid, self.marker = nodeid, marker
        self.callspec = SimpleNamespace(params=params, marks=marks)

    def get_closest_marker(self, name):
        return self.marker if self.marker and self.marker.name == name else None


def test_few_parametrisations_run_whole():
    few = [Item(f"f.py::few[{i}]", dict(zip("abc", v))) for i, v in enumerate(product((0, 1, 2), (0, 1), (0,)))]
    many = [Item(f"f.py::many[{i}]", dict(zip("abc", v))) for i, v in enumerate(product((0, 1, 2), (0, 1, 2), (0, 1)))]
    assert len(few) == FEW < len(many)
    out = left_out(few + many)
    assert out
    assert {item.nodeid.split("[")[0] for item in out} == {"f.py::many"}


def test_markers_choose():
    cases = [{"a": i, "b": j} for i in range(6) for j in range(6)]
    singles = [Item(f"f.py::singles[{i}]", case, pytest.mark.singles) for i, case in enumerate(cases)]
    wide = Item("f.py::wide[0]", {"a": 0}, pytest.mark.wide)
    alike = [Item(f"f.py::alike[{i}]", {"a": i}, pytest.mark.every(4)) for i in range(9)]
    out = left_out([*singles, wide, *alike])
    assert wide in out
    assert [item.callspec.params["a"] for item in alike if item not in out] == [0, 4, 8]
    kept = [item.callspec.params for item in singles if item not in out]
    assert 6 <= len(kept) < 12
    assert set.union(*map(values, kept)) == set.union(*map(values, cases))


def test_shares_have_every_test_once():
    wide = Item("f.py::wide[0]", {"a": 0}, pytest.mark.wide)
    assert of_other_shares([wide], "0/3") == of_other_shares([wide], "1/3") == of_other_shares([wide], "2/3") == []
    each = Item("f.py::each[0]", {"a": 0}, pytest.mark.wide(turn="each"), marks=[pytest.mark.wide(turn="each")])
    assert of_other_shares([each], "0/3") == of_other_shares([each], "1/3") == of_other_shares([each], "2/3") == []
    turns = [Item("f.py::turn[0]", {"a": 0}, pytest.mark.wide(turn=4))]
    assert [of_other_shares(turns, f"{i}/3") == [] for i in range(3)] == [False, True, False]
    items = [Item(f"f.py::alike[{i}]", {"a": i}) for i in range(60)]
    items += [Item(f"f.py::wide[{i}]", {"a": i}, pytest.mark.wide, marks=[pytest.mark.wide]) for i in range(60)]
    shares = [[item for item in items if item not in of_other_shares(items, f"{i}/3")] for i in range(3)]
    assert all(len(share) > 25 for share in shares)
    assert sorted(item.nodeid for share in shares for item in share) == sorted(item.nodeid for item in items)


def test_a_test_is_long_in_one_share():
    assert all([is_in_turn(f"f.py::test_{i}", f"{k}/6") for k in range(6)].count(True) == 1 for i in range(20))
    assert is_in_turn("f.py::test", None)


@pytest.mark.parametrize("share", ["3/3", "1", "1/0", "-1/3", "a/b"])
def test_what_is_no_share_is_said(share):
    with pytest.raises(ValueError, match="give K/N"):
        of_other_shares([], share)


@pytest.mark.only("cpu", reason="a GPU has one process at a time")
def test_folders_run_in_several_processes(root):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "tests/native", "-k", "no_such_test", "-p", "no:cacheprovider"]
    child = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert child.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, child.stdout + child.stderr
    assert "bringing up nodes" in child.stdout
