"""quantized_embedding: bit-exact rows, ids that do not exist, mistakes."""

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.reference.quantize import quantize


def table(vocabulary, width, dtype, group, bits, seed=0):
    return quantize(np.random.default_rng(seed).normal(size=(vocabulary, width)).astype(dtype), group, bits)


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
@pytest.mark.parametrize("group", [32, 64, 128])
def test_rows_are_bit_exact(branch, dtype, group, bits):
    packed, scales, biases = table(41, 3 * group, dtype, group, bits)
    ids = np.array([0, 40, 7, 7, 3], np.int32)
    got = kernels.quantized_embedding(*map(hiprt.array, (ids, packed, scales, biases)), group_size=group, bits=bits)
    exact = reference.quantized_embedding(ids, packed, scales, biases, group, bits)
    assert got.dtype == dtype
    assert got.numpy().tobytes() == exact.tobytes()


@pytest.mark.parametrize(("mode", "bits", "group"), [("mxfp4", 4, 32), ("mxfp8", 8, 32), ("nvfp4", 4, 16)])
def test_floating_codes(dtype, mode, bits, group):
    random = np.random.default_rng(bits)
    packed = random.integers(0, 2**32, (9, 64 * bits // 32), dtype=np.uint32)
    scales = random.integers(118, 126, (9, 64 // group)).astype(np.uint8)
    ids = np.array([8, 0, 9, 3], np.int32)
    got = kernels.quantized_embedding(*map(hiprt.array, (ids, packed, scales)), mode=mode, dtype=dtype).numpy()
    rows = kernels.dequantize(hiprt.array(packed), hiprt.array(scales), mode=mode, dtype=dtype).numpy()
    assert got[[0, 1, 3]].tobytes() == rows[[8, 0, 3]].tobytes()
    assert not got[2].any()


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
        (ValueError, r"scales with shape \(4,1\)", lambda: kernels.quantized_embedding(ids, w, s[:4], b)),
        (ValueError, "incompatible", lambda: kernels.quantized_embedding(ids, w, s, b, bits=5)),
        (ValueError, "number of bits 7", lambda: kernels.quantized_embedding(ids, w, s, b, bits=7)),
        (
            ValueError,
            "differ in type",
            lambda: kernels.quantized_embedding(
                ids, w, s, hiprt.zeros((9, 1), hiprt.bfloat16 if dtype == np.float32 else np.float32)
            ),
        ),
        (TypeError, "out is", lambda: kernels.quantized_embedding(ids, w, s, b, out=hiprt.zeros((3, 64), np.int32))),
    ]:
        with pytest.raises(error, match=message):
            wrong()
