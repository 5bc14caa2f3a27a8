"""Inputs that were damaged or made up, 200 of each kind; `faults.mutations` runs more."""

import pytest
from faults.mutations import KINDS, in_child


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", KINDS)
def test_mutated_inputs(kind):
    found = in_child(kind, 200, 2)
    assert found.get("found") == []
    assert found.get("refused", 0) > 20
    assert found.get("taken", 0) > 2
