"""sample: the reference's draws, their distribution, independence of draws, temperature 0, mistakes."""

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.kernels.reference import ops as reference


def draw(logits, temperature, seed, position):
    """One draw on the device."""
    values = [np.array([temperature], np.float32), np.array([seed], np.uint32), np.array([position], np.int32)]
    return int(kernels.sample(logits, *map(hiprt.array, values)).item())


@pytest.mark.parametrize("size", [1, 6, 8, 100, 1023, 5000, 9001])
def test_draws_of_the_reference(branch, dtype, size, normal):
    logits = normal(size, dtype, size, 2.0)
    device = hiprt.array(logits)
    for i, (seed, position) in enumerate([(0, 0), (1, 0), (0, 1), (2**32 - 1, 7), (123456789, 2**31 - 1), (5, -1)]):
        temperature = [0.5, 1.0, 1.5][i % 3]
        assert draw(device, temperature, seed, position) == reference.sample(logits, temperature, seed, position)


def test_rows_are_drawn_by_themselves(branch, dtype, normal):
    logits = normal((4, 300), dtype, 9, 2.0)
    heat, seed = np.array([0, 1, 0.5, 1], np.float32), np.array([3, 3, 4, 5], np.uint32)
    position = np.array([7, 7, 8, 0], np.int32)
    got = kernels.sample(*map(hiprt.array, (logits, heat, seed, position))).numpy()
    assert got.tolist() == [reference.sample(*row) for row in zip(logits, heat, seed, position)]
    none = [hiprt.empty(0, kind) for kind in (np.float32, np.uint32, np.int32)]
    assert kernels.sample(hiprt.empty((0, 300), dtype), *none).shape == (0,)


def test_temperature_zero_takes_the_largest(branch, dtype, normal):
    for seed in range(3):
        logits = normal((1, 700), dtype, seed)
        for temperature in (0.0, -1.0, np.nan):
            assert draw(hiprt.array(logits), temperature, seed, 3) == int(reference.argmax(logits)[0])


def test_nan_and_ties_follow_argmax(branch, dtype):
    logits = np.zeros(90, dtype)
    assert draw(hiprt.array(logits), 0.0, 1, 1) == 0
    logits[[40, 70]] = np.nan
    assert draw(hiprt.array(logits), 0.0, 1, 1) == 40
    assert draw(hiprt.array(logits), 1.0, 1, 1) == 40


def test_frequencies_are_the_softmax():
    # The reference's draws are the kernel's (above), so its distribution is judged: chi-square, 4 deviations.
    logits = np.array([2.0, 1.0, 0.0, -1.0, 0.5])
    shares = np.exp(logits / 0.8) / np.exp(logits / 0.8).sum()
    draws = 4000
    counts = np.bincount([reference.sample(logits, 0.8, 42, i) for i in range(draws)], minlength=5)
    chi = ((counts - draws * shares) ** 2 / (draws * shares)).sum()
    assert chi < 4 + 4 * np.sqrt(8)


def test_noise_is_uniform_and_draws_are_independent():
    sets = [reference.noise(seed, position, 20000) for seed, position in [(0, 0), (0, 1), (1, 0), (1, 1), (7, 12345)]]
    for values in sets:
        assert 0 < values.min() < 1e-3
        assert 1 - 1e-3 < values.max() < 1
        counts = np.histogram(values, 64, (0, 1))[0]
        assert ((counts - 312.5) ** 2 / 312.5).sum() < 63 + 4 * np.sqrt(126)
        assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 4 / np.sqrt(20000)
    for i, values in enumerate(sets):
        for others in sets[:i]:
            assert abs(np.corrcoef(values, others)[0, 1]) < 4 / np.sqrt(20000)
            assert not np.intersect1d(values, others).size > 100


def test_mistakes_are_named(dtype, int32):
    logits = hiprt.array(np.zeros(8, dtype))
    heat, seed = hiprt.zeros(1, np.float32), hiprt.zeros(1, np.uint32)
    for error, message, wrong in [
        (ValueError, "logits has shape", lambda: kernels.sample(logits.reshape(1, 2, 4), heat, seed, int32(0))),
        (ValueError, "temperature has shape", lambda: kernels.sample(logits.reshape(2, 4), heat, seed, int32(0))),
        (ValueError, "logits has shape", lambda: kernels.sample(hiprt.empty(0, dtype), heat, seed, int32(0))),
        (TypeError, "seed is int32", lambda: kernels.sample(logits, heat, int32(0), int32(0))),
        (TypeError, "temperature is", lambda: kernels.sample(logits, seed, seed, int32(0))),
        (TypeError, "position is", lambda: kernels.sample(logits, heat, seed, seed)),
    ]:
        with pytest.raises(error, match=message):
            wrong()
