"""Integers that are recorded: what sums keep, and which uses tie a recording to the number."""

import copy
import math
import operator
import pickle

import numpy as np
import pytest

from hiprt.graphs.trace.integer import Integer, Recording


@pytest.fixture
def recording():
    """A recording that is open in this thread."""
    with Recording() as made:
        yield made


def test_sums_are_kept_and_nothing_is_noted(recording):
    n, m = recording.read(0, 7), recording.read(1, 5)
    made = 3 * (n + 2) - m - 1
    assert type(made) is Integer
    assert made.value == 21
    assert (made.constant, made.terms) == (5, ((0, 3), (1, -1)))
    assert type((n + 4) - n) is int
    assert (n + 4) - n == 4
    assert type(-n) is Integer
    assert (-n).terms == ((0, -1),)
    assert isinstance(n, int)
    assert not isinstance(n, bool)
    assert not recording.tests


@pytest.mark.parametrize("test", ["lt", "le", "eq", "ne", "ge", "gt"])
@pytest.mark.parametrize("other", [6, 7, 8])
def test_a_comparison_is_noted_as_it_holds(recording, test, other):
    n = recording.read(0, 7)
    compare = getattr(operator, test)
    assert compare(n, other) is compare(7, other)
    ((constant, terms, holds),) = recording.tests
    assert (constant, terms) == (-other, ((0, 1),))
    symbol = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt}
    assert symbol.get(holds, operator.ge)(7 - other, 0)


def test_numbers_that_are_one_are_compared_without_a_test(recording):
    n = recording.read(0, 7)
    assert n + 1 > n
    assert n == n + 0
    assert min(n, n + 3) is n
    assert not recording.tests


@pytest.mark.parametrize(
    "use",
    [
        int, float, hash, str, repr, math.sqrt, range, bin, copy.copy, copy.deepcopy, abs, bool,
        lambda n: [0] * 9 + [n][0:1] and [*range(9)][n], lambda n: n // 2, lambda n: n % 4, lambda n: 20 // n,
        lambda n: n / 2, lambda n: n * n, lambda n: n**2, lambda n: n & 1, lambda n: 1 << n, lambda n: f"{n:03}",
        lambda n: np.asarray([n])[0], lambda n: n.bit_length(), lambda n: n == 7.0, lambda n: divmod(n, 2),
        lambda n: slice(0, n).indices(20), lambda n: pickle.loads(pickle.dumps(n)), lambda n: round(n),
    ],
)  # fmt: skip
def test_every_other_use_gives_what_an_int_gives_and_is_noted(recording, use):
    assert use(recording.read(0, 7)) == use(7)
    assert recording.tests


def test_a_closed_recording_notes_nothing():
    with Recording() as recording:
        n = recording.read(0, 7)
    assert n + 1 == 8
    assert n > 3
    assert int(n) == 7
    assert not recording.tests
