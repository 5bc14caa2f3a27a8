"""How much runs with ``pytest``, ``--share``, ``--all`` and ``-m soak``, and which parametrisations do."""

import random
import zlib
from itertools import combinations
from types import SimpleNamespace

FEW = 6  # parametrisations of a test that always run
NO_MARKS = SimpleNamespace(marks=())  # of a test that is not parametrised


def form(config):
    """Return how long long tests are: ``short``, ``usual`` with ``--all`` or ``--share``, ``long`` with ``-m soak``."""
    if config.getoption("-m") == "soak":
        return "long"
    return "usual" if config.getoption("--all") or config.getoption("--share") else "short"


def values(case):
    """Return each parameter with its value."""
    return {(name, repr(value)) for name, value in case.items()}


def pairs(case):
    """Return each pair of two parameters with their values; of one parameter its value.

    Parameters
    ----------
    case : dict
        A parametrisation: names of parameters, and values.
    """
    return set(combinations(sorted(values(case)), 2)) if len(case) > 1 else values(case)


def chosen(found, seed):
    """Choose cases that together have everything that some case has.

    Those with much that is new are taken first, so that few are needed; among equals, chance decides.

    Parameters
    ----------
    found : list of set
        What each case has.
    seed : str
        The same seed and cases give the same choice in every process.

    Returns
    -------
    set of int
        Indices of the chosen cases.
    """
    left = list(range(len(found)))
    random.Random(seed).shuffle(left)
    met, taken = set(), set()
    for new in range(max(map(len, found), default=0), 0, -1):
        for i in left:
            if len(found[i] - met) >= new:
                taken.add(i)
                met |= found[i]
        left = [i for i in left if i not in taken]
    return taken


def left_out(items):
    """Return the tests that run with ``--all`` only: those marked ``wide``, and most of many parametrisations.

    What is left has every value of each parameter, and, unless it is marked ``singles``, every two values together. Of
    those marked ``every(n)``, whose cases are alike, one in n is left.

    Parameters
    ----------
    items : list of pytest.Item
        What was collected; its order is that of the files.
    """
    functions = {}
    out = [item for item in items if item.get_closest_marker("wide")]
    for item in items:
        if hasattr(item, "callspec") and item not in out:
            functions.setdefault(item.nodeid.split("[")[0], []).append(item)
    for name, cases in functions.items():
        if marker := cases[0].get_closest_marker("every"):
            (step,) = marker.args
            out += [case for i, case in enumerate(cases) if i % step]
        elif len(cases) > FEW:
            parts = values if cases[0].get_closest_marker("singles") else pairs
            kept = chosen([parts(case.callspec.params) for case in cases], name)
            out += [case for i, case in enumerate(cases) if i not in kept]
    return out


def of_other_shares(items, share):
    """Return those tests that are not in a share. Tests marked ``wide``, which are like no others, are in all.

    Parametrisations marked ``wide`` are like those of the test that run always, and in one share, as all others are.
    With ``wide(turn=n)`` that share is n of so many, for tests that take long; with ``wide(turn="each")`` it is each.

    Parameters
    ----------
    items : list of pytest.Item
        What is shared out.
    share : str
        ``K/N``: the share K, from 0, of N, which together have every test, each other test once.

    Raises
    ------
    ValueError
        It is something else.
    """
    which, count = numbers_of(share)

    def turn_of(item):
        """The number that decides which share has a test, or None for all."""
        wide = item.get_closest_marker("wide")
        turn = wide.kwargs.get("turn") if wide else None
        is_test = wide and not any(mark.name == "wide" for mark in getattr(item, "callspec", NO_MARKS).marks)
        if turn == "each" or (is_test and turn is None):
            return None
        return zlib.crc32(item.nodeid.encode()) if turn is None else turn

    turns = [(item, turn_of(item)) for item in items]
    return [item for item, turn in turns if turn is not None and turn % count != which]


def is_in_turn(nodeid, share):
    """Whether a test runs long in a share, which it does in one, or without shares."""
    which, count = numbers_of(share or "0/1")
    return zlib.crc32(nodeid.encode()) % count == which


def numbers_of(share):
    """Return K and N of a share ``K/N``; raise ValueError if it is something else."""
    which, _, count = share.partition("/")
    if not (which.isdecimal() and count.isdecimal() and int(which) < int(count)):
        raise ValueError(f"--share {share}: give K/N, two numbers of which K is less than N, such as 0/3")
    return int(which), int(count)
