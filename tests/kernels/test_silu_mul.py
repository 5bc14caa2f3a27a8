"""silu_mul: the whole range of the gate, shapes, mistakes."""

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.kernels.reference import ops as reference


@pytest.mark.parametrize("shape", [(1,), (9,), (3, 70), (1, 3072), (5, 4099)])
def test_matches_the_reference(branch, dtype, shape, normal, close):
    gate, up = normal(shape, dtype, 1, 3.0), normal(shape, dtype, 2)
    close(kernels.silu_mul(hiprt.array(gate), hiprt.array(up)), reference.silu_mul(gate, up))


def test_every_size_of_gate(branch, dtype, close):
    # exp overflows below -88 and vanishes above; the quotient must follow down to float32's smallest normal number.
    gate = np.concatenate([np.linspace(-80, 80, 4000), 2.0 ** np.arange(-14, 7), -(2.0 ** np.arange(-14, 6))]).astype(
        dtype
    )
    up = np.ones_like(gate)
    close(kernels.silu_mul(hiprt.array(gate), hiprt.array(up)), reference.silu_mul(gate, up))


def test_specials(branch, dtype):
    gate = np.array([0.0, -0.0, np.inf, np.nan, -200.0] * 4, dtype)
    up = np.array([5.0, 5.0, 2.0, 1.0, 1.0] * 4, dtype)
    got = kernels.silu_mul(hiprt.array(gate), hiprt.array(up)).numpy().astype(np.float32)
    np.testing.assert_array_equal(got, np.array([0.0, -0.0, np.inf, np.nan, -0.0] * 4, np.float32))


def test_in_place_over_either_operand(branch, dtype, normal, close):
    gate, up = normal(100, dtype, 3), normal(100, dtype, 4)
    for target in (0, 1):
        operands = [hiprt.array(gate), hiprt.array(up)]
        close(kernels.silu_mul(*operands, out=operands[target]), reference.silu_mul(gate, up))


def test_mistakes_are_named(dtype):
    x = hiprt.array(np.zeros((4, 6), dtype))
    with pytest.raises(ValueError, match="gate has shape"):
        kernels.silu_mul(x, x.reshape(6, 4))
    with pytest.raises(TypeError, match="gate is int32"):
        kernels.silu_mul(hiprt.array(np.zeros(3, np.int32)), x)
