"""Which of a test's parametrisations run without ``--all``: so many that every two values have met."""

import random
from itertools import combinations

FEW = 12  # parametrisations of a test that always run


def pairs(case):
    """Return each pair of two parameters' values; the value itself where there is one parameter.

    Parameters
    ----------
    case : dict
        A parametrisation: names of parameters, and values.
    """
    values = sorted((name, repr(value)) for name, value in case.items())
    return set(combinations(values, 2)) if len(values) > 1 else set(values)


def chosen(cases, seed):
    """Choose cases such that every pair of values that is in some case is in a chosen one.

    Cases with many new pairs are taken first, so that few are needed; among equals, chance decides.

    Parameters
    ----------
    cases : list of dict
    seed : str
        The same seed and cases give the same choice in every process.

    Returns
    -------
    set of int
        Indices of the chosen cases.
    """
    found = [pairs(case) for case in cases]
    left = list(range(len(cases)))
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
    """Return the tests that run with ``--all`` only.

    Parameters
    ----------
    items : list of pytest.Item
        What was collected; its order is that of the files.
    """
    functions = {}
    for item in items:
        if hasattr(item, "callspec"):
            functions.setdefault(item.nodeid.split("[")[0], []).append(item)
    out = []
    for name, cases in functions.items():
        if len(cases) > FEW:
            kept = chosen([case.callspec.params for case in cases], name)
            out += [case for i, case in enumerate(cases) if i not in kept]
    return out
