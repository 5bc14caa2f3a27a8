"""rope: both pairings, partial rotation, exact angles at large positions, mistakes."""

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.kernels.ops.attention.frequencies import frequencies_of
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.tuning.target import force_generic

POSITIONS = [0, 1, 17, 4095, 131071, 999_983]


def magnitude(x, dims, traditional):
    """The sum of both terms' sizes for each result."""
    sizes = np.abs(reference.double(x))
    return sizes + np.abs(reference.rope(sizes, 0, 1e4, dims, traditional)).max(axis=-1, keepdims=True)


@pytest.mark.parametrize("traditional", [False, True])
@pytest.mark.parametrize(
    ("heads", "width", "dims"), [(3, 64, None), (1, 2, None), (5, 80, 20), (2, 256, 256), (4, 33, 32)]
)
def test_matches_the_reference(branch, dtype, heads, width, dims, traditional, normal, close, int32):
    x = normal((heads, width), dtype, width)
    for position in POSITIONS:
        got = kernels.rope(hiprt.array(x), int32(position), base=1e6, dims=dims, traditional=traditional)
        exact = reference.rope(x, position, 1e6, dims, traditional)
        close(got, exact, magnitude=magnitude(x, dims, traditional), steps=6)


def test_position_zero_changes_nothing(branch, dtype, normal, int32):
    x = normal((4, 128), dtype)
    np.testing.assert_array_equal(kernels.rope(hiprt.array(x), int32(0), base=1e4).numpy(), x)


def test_elements_behind_dims_are_copied(branch, dtype, normal, int32):
    x = normal((4, 96), dtype)
    got = kernels.rope(hiprt.array(x), int32(5), base=1e4, dims=32).numpy()
    np.testing.assert_array_equal(got[:, 32:], x[:, 32:])
    np.testing.assert_array_equal(kernels.rope(hiprt.array(x), int32(5), base=1e4, dims=0).numpy(), x)


@pytest.mark.parametrize("traditional", [False, True])
def test_both_branches_give_the_same_bits(dtype, traditional, normal, int32):
    x = hiprt.array(normal((6, 128), dtype, 7))
    for position in POSITIONS:
        first = kernels.rope(x, int32(position), base=5e5, traditional=traditional).numpy()
        with force_generic():
            assert (
                kernels.rope(x, int32(position), base=5e5, traditional=traditional).numpy().tobytes() == first.tobytes()
            )


def test_angles_are_exact_at_every_position(branch, int32):
    # cos and sin themselves: rotate (1, 0).
    x = np.zeros((1, 128), np.float32)
    x[:, :64] = 1
    for position in (1, 1000, 999_999, 2**31 - 1):
        got = kernels.rope(hiprt.array(x), int32(position), base=1e4).numpy()[0].astype(np.float64)
        turns = [int(f) * position % 2**64 / 2**64 for f in frequencies_of(1e4, 128)]
        angle = 2 * np.pi * np.array(turns)
        np.testing.assert_allclose(got, np.concatenate([np.cos(angle), np.sin(angle)]), rtol=0, atol=1.2e-7)


def test_frequencies_are_fractions_of_a_turn():
    table = frequencies_of(1e4, 8)
    exact = 1e4 ** (-np.arange(0, 8, 2) / 8) / (2 * np.pi)
    np.testing.assert_allclose(table.astype(np.float64) / 2.0**64, exact, rtol=1e-15)
    assert frequencies_of(1e4, 0).shape == (0,)
    # A base below 1 turns more than once a step: only the fraction matters.
    np.testing.assert_allclose(frequencies_of(1e-4, 4)[1] / 2.0**64, 100 / (2 * np.pi) % 1, rtol=1e-12)


def test_in_place(branch, dtype, normal, close, int32):
    x = normal((3, 64), dtype)
    target = hiprt.array(x)
    assert kernels.rope(target, int32(9), base=1e4, out=target) is target
    close(target, reference.rope(x, 9, 1e4), magnitude=magnitude(x, None, False), steps=6)


@pytest.mark.parametrize("traditional", [False, True])
def test_rows_have_positions_of_their_own(branch, dtype, traditional, normal, close, int32):
    x, positions = normal((5, 3, 40), dtype), np.array([7, 0, 99_991, 7, 3], np.int32)
    options = {"base": 1e4, "dims": 32, "traditional": traditional}
    got = kernels.rope(hiprt.array(x), hiprt.array(positions), **options)
    close(got, reference.rope(x, positions, **options), magnitude=magnitude(x, 32, traditional), steps=6)
    for row, position in enumerate(positions):
        alone = kernels.rope(hiprt.array(x[row]), int32(position), **options)
        np.testing.assert_array_equal(got[row].numpy(), alone.numpy())
    assert kernels.rope(hiprt.empty((0, 3, 40), dtype), hiprt.empty(0, np.int32), base=1e4).shape == (0, 3, 40)


def test_no_heads(branch, dtype, int32):
    assert kernels.rope(hiprt.empty((0, 64), dtype), int32(1), base=1e4).shape == (0, 64)


def test_mistakes_are_named(dtype, int32):
    x = hiprt.array(np.zeros((2, 8), dtype))
    for error, message, wrong in [
        (ValueError, "dims=3", lambda: kernels.rope(x, int32(0), base=1e4, dims=3)),
        (ValueError, "dims=10", lambda: kernels.rope(x, int32(0), base=1e4, dims=10)),
        (ValueError, "dims=7", lambda: kernels.rope(hiprt.array(np.zeros((2, 7), dtype)), int32(0), base=1e4)),
        (ValueError, "base=0", lambda: kernels.rope(x, int32(0), base=0)),
        (TypeError, "position is int64", lambda: kernels.rope(x, hiprt.zeros(1, np.int64), base=1e4)),
        (ValueError, "position has shape", lambda: kernels.rope(x, hiprt.zeros(2, np.int32), base=1e4)),
        (ValueError, "position has shape", lambda: kernels.rope(x.reshape(2, 1, 8), int32(0), base=1e4)),
        (ValueError, "2 or 3 axes", lambda: kernels.rope(x[0], int32(0), base=1e4)),
    ]:
        with pytest.raises(error, match=message):
            wrong()
