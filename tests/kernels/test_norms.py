"""softmax, layer_norm, gated_rms_norm, add_rms_norm: rows of every length, special values, views, mistakes."""

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.kernels.ops.norm.gated_rms_norm import gated_heads_norm
from hiprt.kernels.reference import ops as reference

SHAPES = [(1, 1), (3, 7), (2, 3, 128), (4, 1000), (1, 5000)]


@pytest.mark.parametrize("shape", SHAPES)
def test_softmax_matches_the_reference(branch, dtype, shape, normal, close):
    x = normal(shape, dtype, 1, 5.0)
    steps = 40 + shape[-1] / 16
    close(kernels.softmax(hiprt.array(x)), reference.softmax(x), steps=steps)
    got = kernels.softmax(hiprt.array(x), 0)
    exact = reference.softmax(x, 0)
    close(kernels.contiguous(got), exact, steps=steps)


def test_softmax_of_extremes(branch, dtype):
    x = np.array([[60000.0, 60000.0, -np.inf, -60000.0], [-np.inf, 0, -np.inf, -np.inf], [1, np.nan, 2, 3]], dtype)
    got = kernels.softmax(hiprt.array(x)).numpy().astype(np.float64)
    np.testing.assert_array_equal(got, [[0.5, 0.5, 0, 0], [0, 1, 0, 0], [np.nan] * 4])


def test_softmax_of_integers_views_and_nothing(normal, close):
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    close(kernels.softmax(hiprt.array(x).T), reference.softmax(x.T), steps=40)
    assert kernels.softmax(hiprt.empty((0, 4))).shape == (0, 4)
    assert kernels.softmax(hiprt.empty((4, 0))).shape == (4, 0)
    y = hiprt.array(normal((3, 4), np.float32))
    assert kernels.softmax(y, out=y) is y
    for message, wrong in [
        ("Invalid axis 2", lambda: kernels.softmax(y, 2)),
        ("out is for the last axis", lambda: kernels.softmax(y, 0, out=y)),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("given", [0, 1, 2, 3])
def test_layer_norm_matches_the_reference(branch, dtype, shape, given, normal, close):
    x = normal(shape, dtype, 1, 3.0)
    weight = normal(shape[-1:], dtype, 2) if given & 1 else None
    bias = normal(shape[-1:], dtype, 3) if given & 2 else None
    device = [None if v is None else hiprt.array(v) for v in (weight, bias)]
    exact = reference.layer_norm(x, weight, bias, 1e-5)
    got = kernels.layer_norm(hiprt.array(x), *device, 1e-5)
    # The mean's rounding error counts as much as the values are larger than their deviation.
    size = (np.abs(exact) + 4) * (1 if weight is None else 1 + np.abs(reference.double(weight)))
    close(got, exact, magnitude=size, steps=24 + shape[-1] / 32)


def test_layer_norm_far_from_zero(branch, normal, close):
    x = normal((2, 500), np.float32, 4) + 1000
    exact = reference.layer_norm(x, None, None, 1e-5)
    close(kernels.layer_norm(hiprt.array(x), None, None, 1e-5), exact, magnitude=np.abs(exact) + 1, steps=40)


@pytest.mark.parametrize("shape", SHAPES)
def test_gated_rms_norm_matches_the_reference(branch, dtype, shape, normal, close):
    x, gate, weight = normal(shape, dtype, 1, 3.0), normal(shape, dtype, 2, 2.0), normal(shape[-1:], dtype, 3)
    got = kernels.gated_rms_norm(*map(hiprt.array, (x, gate, weight)), 1e-6)
    close(got, reference.gated_rms_norm(x, gate, weight, 1e-6), steps=24 + shape[-1] / 16)


def test_gates_of_heads_may_lie_apart(branch, dtype, normal):
    """Each head has the bits that it has beside a gate without gaps."""
    x, wide, weight = normal((5, 3, 40), dtype, 1, 3.0), normal((5, 150), dtype, 2, 2.0), normal((40,), dtype, 3)
    gate = np.ascontiguousarray(wide[:, 21:141])
    exact = kernels.gated_rms_norm(*map(hiprt.array, (x, gate.reshape(5, 3, 40), weight)), 1e-6).numpy()
    device = hiprt.array(x), hiprt.array(wide)[:, 21:141], hiprt.array(weight)
    np.testing.assert_array_equal(gated_heads_norm(*device, 1e-6).numpy(), exact)
    np.testing.assert_array_equal(gated_heads_norm(device[0], hiprt.array(gate), device[2], 1e-6).numpy(), exact)
    shape, other = "gate has shape", f"gate is not an array of {dtype.name}, which x is"
    for error, said, wrong in ((ValueError, shape, device[1][:4]), (TypeError, other, hiprt.zeros((5, 120), np.int32))):
        with pytest.raises(error, match=f"gated_heads_norm: {said}"):
            gated_heads_norm(device[0], wrong, device[2], 1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_add_rms_norm_matches_the_reference(branch, dtype, shape, normal, close):
    x, residual, weight = normal(shape, dtype, 1), normal(shape, dtype, 2), normal(shape[-1:], dtype, 3)
    total, normed = kernels.add_rms_norm(*map(hiprt.array, (x, residual, weight)), 1e-6)
    exact_total, exact = reference.add_rms_norm(x, residual, weight, 1e-6)
    np.testing.assert_array_equal(total.numpy(), exact_total.astype(dtype))
    close(normed, exact, steps=24 + shape[-1] / 16)


def test_in_place_and_many_rows(branch, dtype, normal, close):
    x, gate, weight = normal((5, 96), dtype, 1), normal((5, 96), dtype, 2), normal(96, dtype, 3)
    a, b, w = map(hiprt.array, (x, gate, weight))
    exact = reference.gated_rms_norm(x, gate, weight, 1e-6)
    assert kernels.gated_rms_norm(a, b, w, 1e-6, out=b) is b
    close(b, exact, steps=40)
    total, _ = kernels.add_rms_norm(a, a, w, 1e-6, out=(a, hiprt.empty((5, 96), dtype)))
    assert total is a
    np.testing.assert_array_equal(a.numpy(), (2 * x.astype(np.float64)).astype(dtype))
    many = normal((65600, 2), dtype, 5)
    if branch == "loops":
        close(kernels.softmax(hiprt.array(many)), reference.softmax(many), steps=40)


def test_nothing_to_normalise(branch, dtype):
    empty, narrow, weight = hiprt.empty((0, 8), dtype), hiprt.empty((8, 0), dtype), hiprt.zeros(8, dtype)
    assert kernels.layer_norm(empty, None, None, 1e-6).shape == (0, 8)
    assert kernels.gated_rms_norm(empty, empty, weight, 1e-6).shape == (0, 8)
    assert kernels.add_rms_norm(narrow, narrow, weight[:0], 1e-6)[1].shape == (8, 0)


def test_mistakes_are_named(dtype):
    x, weight = hiprt.zeros((4, 8), dtype), hiprt.zeros(8, dtype)
    other = hiprt.zeros(8, hiprt.bfloat16 if dtype == np.float32 else np.float32)
    for error, message, wrong in [
        (ValueError, "no axis", lambda: kernels.layer_norm(x[0, 0], None, None, 1e-6)),
        (ValueError, r"bias has shape \(4,\)", lambda: kernels.layer_norm(x, None, weight[:4], 1e-6)),
        (TypeError, "weight is", lambda: kernels.layer_norm(x, other, None, 1e-6)),
        (ValueError, "must be the same", lambda: kernels.gated_rms_norm(x, x[:2], weight, 1e-6)),
        (ValueError, "weight has shape", lambda: kernels.gated_rms_norm(x, x, weight[:4], 1e-6)),
        (ValueError, "must be the same", lambda: kernels.add_rms_norm(x, x[:2], weight, 1e-6)),
        (ValueError, "out overlaps", lambda: kernels.add_rms_norm(x, x, weight, 1e-6, out=(x, x))),
        (ValueError, "not contiguous", lambda: kernels.add_rms_norm(x.T, x.T, weight, 1e-6)),
    ]:
        with pytest.raises(error, match=message):
            wrong()
