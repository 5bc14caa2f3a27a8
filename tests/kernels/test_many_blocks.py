"""Launches of more than 65,535 blocks.

Those that take less than a second by default, of every op with ``pytest -m soak tests/kernels/test_many_blocks.py``.
"""

from contextlib import nullcontext

import pytest
from helpers.many_blocks import MOST, QUICK, REFUSED, RUNS, largest, launches, run
from helpers.op_cases import CASES, call, operands_of
from helpers.selection import form

from hiprt.kernels.tuning.target import force_generic


def pytest_generate_tests(metafunc):
    """Cut what takes long without ``-m soak``."""
    if "on" in metafunc.fixturenames:
        metafunc.parametrize("name, on", RUNS if form(metafunc.config) == "long" else QUICK)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_what_repeats_in_the_operands_repeats_in_the_results(name, on):
    with force_generic() if on == "generic" else nullcontext():
        run(name)


def test_every_op_has_a_case():
    assert {name.split()[0] for name, _ in RUNS} == set(CASES)
    assert set(QUICK) < set(RUNS)


@pytest.mark.parametrize("name", REFUSED)
def test_rows_that_are_blocks_are_refused(name):
    """On the CPU device; elsewhere they are the grid's y or z, of which no more are possible."""
    with launches() as launched:
        call(name, operands_of(name, MOST))
    assert set(largest(launched).values()) == {MOST}
    with pytest.raises(ValueError, match=name):
        call(name, operands_of(name, MOST + 1))
