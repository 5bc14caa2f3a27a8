"""rms_norm: short and long rows, with and without weights, mistakes."""

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.kernels.reference import ops as reference


@pytest.mark.parametrize(
    "shape", [(1, 256), (16, 128), (5, 7), (3, 33), (2, 1000), (3, 1024), (2, 1031), (2, 4, 96), (2049,)]
)
@pytest.mark.parametrize("weighted", [True, False])
def test_matches_the_reference(branch, dtype, shape, weighted, normal, close):
    x, weight = normal(shape, dtype, 1, 4.0), normal(shape[-1:], dtype, 2)
    got = kernels.rms_norm(hiprt.array(x), hiprt.array(weight) if weighted else None, 1e-6)
    close(got, reference.rms_norm(x, weight if weighted else None, 1e-6), steps=16 + shape[-1] / 64)


def test_eps_keeps_zero_rows_zero_and_small_rows_small(branch, dtype, close):
    x = np.array([[0.0] * 64, [2.0**-13] * 64], dtype)
    close(kernels.rms_norm(hiprt.array(x), None, 1e-5), reference.rms_norm(x, None, 1e-5), steps=20)


def test_large_values_do_not_overflow_half(branch, close):
    x = np.full((2, 256), 60000.0, np.float16)
    close(kernels.rms_norm(hiprt.array(x), None, 1e-6), np.ones((2, 256)), steps=20)


def test_in_place(branch, dtype, normal, close):
    for width in (96, 2048):
        x = normal((3, width), dtype, width)
        target = hiprt.array(x)
        close(kernels.rms_norm(target, None, 1e-6, out=target), reference.rms_norm(x, None, 1e-6), steps=64)


def test_views_that_are_not_aligned(branch, dtype, normal, close):
    x = normal((2048 + 1,), dtype, 3)
    got = kernels.rms_norm(hiprt.array(x)[1:].reshape(1, 2048), None, 1e-6)
    close(got, reference.rms_norm(x[1:].reshape(1, 2048), None, 1e-6), steps=64)


def test_nothing_to_normalise(branch, dtype):
    assert kernels.rms_norm(hiprt.empty((0, 8), dtype), None, 1e-6).shape == (0, 8)
    assert kernels.rms_norm(hiprt.empty((8, 0), dtype), None, 1e-6).shape == (8, 0)


def test_mistakes_are_named(dtype):
    x = hiprt.array(np.zeros((4, 8), dtype))
    other = hiprt.array(np.zeros(8, hiprt.bfloat16 if dtype == np.float32 else np.float32))
    for error, message, wrong in [
        (ValueError, "no axis", lambda: kernels.rms_norm(hiprt.array(np.zeros((), dtype)), None, 1e-6)),
        (ValueError, r"weight has shape \(4,\)", lambda: kernels.rms_norm(x, hiprt.array(np.zeros(4, dtype)), 1e-6)),
        (TypeError, "weight is", lambda: kernels.rms_norm(x, other, 1e-6)),
        (TypeError, "x is int32", lambda: kernels.rms_norm(hiprt.array(np.zeros((4, 8), np.int32)), None, 1e-6)),
        (ValueError, "not contiguous", lambda: kernels.rms_norm(x.T, None, 1e-6)),
    ]:
        with pytest.raises(error, match=message):
            wrong()
