"""arange: both directions, the ends of int32, nothing, mistakes."""

import numpy as np
import pytest

from hiprt import kernels
from hiprt.kernels.reference import ops as reference

LAST = 2**31 - 1


@pytest.mark.parametrize(
    "given", [(0,), (5,), (300,), (3, 9), (9, 3), (9, 3, -2), (-5, 5, 3), (LAST - 3, LAST), (-LAST, LAST, 2**30)]
)
def test_matches_numpy(given):
    got = kernels.arange(*given)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got.numpy(), reference.arange(*given))


def test_mistakes_are_named():
    for message, wrong in [
        ("must not be 0", lambda: kernels.arange(0, 5, 0)),
        ("must be int32", lambda: kernels.arange(2**31)),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()
