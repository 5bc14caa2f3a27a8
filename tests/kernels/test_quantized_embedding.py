"""quantized_embedding: bit-exact rows, ids that do not exist, mistakes."""

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.kernels import reference
from hiprt.kernels.quantize_reference import quantize


def table(vocabulary, width, dtype, group, bits, seed=0):
    return quantize(np.random.default_rng(seed).normal(size=(vocabulary, width)).astype(dtype), group, bits)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("group", [32, 64, 128])
def test_rows_are_bit_exact(branch, dtype, group, bits):
    packed, scales, biases = table(41, 3 * group, dtype, group, bits)
    ids = np.array([0, 40, 7, 7, 3], np.int32)
    got = kernels.quantized_embedding(*map(hiprt.array, (ids, packed, scales, biases)), group_size=group, bits=bits)
    exact = reference.quantized_embedding(ids, packed, scales, biases, group, bits)
    assert got.dtype == dtype
    assert got.numpy().tobytes() == exact.tobytes()


def test_wide_rows(branch, dtype):
    packed, scales, biases = table(5, 4096, dtype, 64, 4, seed=3)
    ids = np.array([4, 1], np.int32)
    got = kernels.quantized_embedding(*map(hiprt.array, (ids, packed, scales, biases)))
    assert got.numpy().tobytes() == reference.quantized_embedding(ids, packed, scales, biases, 64, 4).tobytes()


def test_ids_that_do_not_exist_give_zeros(branch, dtype):
    packed, scales, biases = table(9, 64, dtype, 64, 4)
    ids = np.array([-1, 9, 2, 2**31 - 1, -(2**31)], np.int32)
    got = kernels.quantized_embedding(*map(hiprt.array, (ids, packed, scales, biases))).numpy()
    assert got.tobytes() == reference.quantized_embedding(ids, packed, scales, biases, 64, 4).tobytes()
    assert not got[[0, 1, 3, 4]].any()
    assert got[2].any()


def test_no_ids(branch, dtype):
    packed, scales, biases = map(hiprt.array, table(9, 64, dtype, 64, 4))
    assert kernels.quantized_embedding(hiprt.empty(0, np.int32), packed, scales, biases).shape == (0, 64)


def test_mistakes_are_named(dtype):
    w, s, b = map(hiprt.array, table(9, 64, dtype, 64, 4))
    ids = hiprt.array(np.zeros(3, np.int32))
    for error, message, wrong in [
        (TypeError, "ids is int64", lambda: kernels.quantized_embedding(hiprt.zeros(3, np.int64), w, s, b)),
        (ValueError, "ids has shape", lambda: kernels.quantized_embedding(ids.reshape(1, 3), w, s, b)),
        (ValueError, "ids has shape", lambda: kernels.quantized_embedding(hiprt.zeros(70000, np.int32), w, s, b)),
        (ValueError, "scales has shape", lambda: kernels.quantized_embedding(ids, w, s[:4], b)),
        (ValueError, "bits=5", lambda: kernels.quantized_embedding(ids, w, s, b, bits=5)),
        (TypeError, "out is", lambda: kernels.quantized_embedding(ids, w, s, b, out=hiprt.zeros((3, 64), np.int32))),
    ]:
        with pytest.raises(error, match=message):
            wrong()
