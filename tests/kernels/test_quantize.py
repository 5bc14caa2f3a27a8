"""quantize and dequantize: MLX's bits, every format, floating codes, mistakes."""

from itertools import product

import ml_dtypes
import numpy as np
import pytest
from helpers import quantized_data as data_of

import hiprt
from hiprt import kernels
from hiprt.kernels.reference import quantize as reference

FORMATS = list(product(data_of.BITS, data_of.GROUPS, data_of.DTYPES))
MODES = {"mxfp4": (32, 4), "mxfp8": (32, 8), "nvfp4": (16, 4)}


def bits_of(x):
    return x.view(np.uint16) if x.dtype.itemsize == 2 else x


@pytest.mark.parametrize(("bits", "group", "name"), FORMATS)
def test_bits_of_mlx(bits, group, name):
    found = []
    for data in data_of.kinds().values():
        w = data.astype(data_of.DTYPES[name])
        stored = kernels.quantize(hiprt.array(w), group, bits)
        back = kernels.dequantize(*stored, group, bits)
        assert [v.dtype for v in stored] == [np.uint32, w.dtype, w.dtype]
        assert back.dtype == w.dtype
        hosts = [v.numpy() for v in (*stored, back)]
        for got, exact in zip(hosts, (*reference.quantize(w, group, bits), None)):
            if exact is not None:
                np.testing.assert_array_equal(bits_of(got), bits_of(exact))
        found += hosts
    assert data_of.checksum(*found) == data_of.CHECKSUMS[bits, group, name]


def test_the_checksums_are_those_of_mlx():
    pytest.importorskip("mlx.core")
    assert data_of.measured() == data_of.CHECKSUMS


@pytest.mark.parametrize("shape", [(0, 64), (1, 64), (2, 0), (2, 1, 3, 128), (1, 65600 * 64)])
def test_shapes(shape):
    w = np.random.default_rng(1).normal(size=shape).astype(np.float16)
    stored = kernels.quantize(hiprt.array(w), 64, 3)
    assert [v.shape for v in stored] == [
        (*shape[:-1], n) for n in (shape[-1] * 3 // 32, shape[-1] // 64, shape[-1] // 64)
    ]
    back = kernels.dequantize(*stored, 64, 3)
    exact = reference.dequantize(*reference.quantize(w, 64, 3), 64, 3) if w.size else w
    np.testing.assert_array_equal(back.numpy(), exact)


def test_other_groups_are_not_affected_by_nan():
    w = np.random.default_rng(1).normal(size=(1, 96)).astype(np.float32)
    clean = [v.numpy() for v in kernels.quantize(hiprt.array(w), 32, 4)]
    w[0, 40] = np.nan
    dirty = [v.numpy() for v in kernels.quantize(hiprt.array(w), 32, 4)]
    for a, b in zip(clean, dirty):
        part = a.shape[1] // 3
        np.testing.assert_array_equal(a[:, :part], b[:, :part])
        np.testing.assert_array_equal(a[:, 2 * part :], b[:, 2 * part :])


def floating(mode, seed=0):
    group, bits = MODES[mode]
    random = np.random.default_rng(seed)
    packed = random.integers(0, 2**32, (5, 128 * bits // 32), dtype=np.uint32)
    low, high = (0, 127) if mode == "nvfp4" else (90, 160)
    return packed, random.integers(low, high, (5, 128 // group)).astype(np.uint8)


@pytest.mark.parametrize("name", data_of.DTYPES)
@pytest.mark.parametrize("mode", MODES)
def test_floating_codes(mode, name):
    dtype = np.dtype(data_of.DTYPES[name])
    packed, scales = floating(mode)
    if name == "float16" and mode != "nvfp4":
        scales = scales % 15 + 118
    got = kernels.dequantize(hiprt.array(packed), hiprt.array(scales), mode=mode, dtype=dtype)
    exact = reference.dequantize_floating(packed, scales, mode).astype(dtype)
    np.testing.assert_array_equal(got.numpy().astype(np.float32), exact.astype(np.float32))
    mx = pytest.importorskip("mlx.core")
    theirs = mx.dequantize(mx.array(packed), mx.array(scales), mode=mode, dtype=getattr(mx, name)).astype(mx.float32)
    np.testing.assert_array_equal(got.numpy().astype(np.float32), np.array(theirs))


def test_every_floating_code_and_scale():
    codes = np.arange(256, dtype=np.uint8)
    packed = hiprt.array(codes.view(np.uint32).reshape(1, 64))
    ones = hiprt.full((1, 8), 127, np.uint8)
    got = kernels.dequantize(packed, ones, mode="mxfp8", dtype=np.float32).numpy()[0]
    np.testing.assert_array_equal(got, codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32))
    twos = hiprt.full((256, 4), 0x22222222, np.uint32)
    got = kernels.dequantize(twos, hiprt.array(codes[:, None]), mode="mxfp4", dtype=np.float32).numpy()[:, 7]
    np.testing.assert_array_equal(got, reference.e8m0(codes).astype(np.float32))
    narrow = hiprt.full((256, 2), 0x22222222, np.uint32)
    got = kernels.dequantize(narrow, hiprt.array(codes[:, None]), mode="nvfp4", dtype=np.float32).numpy()[:, 9]
    np.testing.assert_array_equal(got, reference.e4m3(codes).astype(np.float32))
    assert kernels.dequantize(narrow, hiprt.array(codes[:, None]), mode="nvfp4").dtype == hiprt.bfloat16


def test_mistakes_are_named():
    w = hiprt.zeros((8, 64))
    q, s, b = kernels.quantize(w)
    for message, wrong in [
        (r"\[quantize\] The requested group size 16 is not supported", lambda: kernels.quantize(w, 16)),
        (r"\[quantize\] The requested number of bits 7 is not supported", lambda: kernels.quantize(w, 64, 7)),
        (r"provided  matrix has shape \(8,64\)", lambda: kernels.quantize(w, 128)),
        ("at least 2 dimension but it has only 1", lambda: kernels.quantize(w[0])),
        ("w has type int32", lambda: kernels.quantize(w.view(np.int32))),
        ("Invalid quantization mode 'foo'", lambda: kernels.quantize(w, mode="foo")),
        ("Writing mode 'mxfp4' is not supported", lambda: kernels.quantize(w, mode="mxfp4")),
        (r"\[dequantize\] The matrix should be given as a uint32", lambda: kernels.dequantize(w, s, b)),
        ("Biases must be provided", lambda: kernels.dequantize(q, s)),
        (r"with group_size=32 and bits=4", lambda: kernels.dequantize(q, s, b, 32)),
        (r"scales with shape \(8,1\) and biases with \(4,1\)", lambda: kernels.dequantize(q, s, b[:4])),
        (
            "mxfp4 quantization requires group size 32 but got 64",
            lambda: kernels.dequantize(q, s, None, 64, mode="mxfp4"),
        ),
        ("Scale type must be uint8 but received type float32", lambda: kernels.dequantize(q, s, mode="mxfp8")),
        ("Biases must be null", lambda: kernels.dequantize(q, s, b, mode="mxfp8")),
        ("result cannot have type int32", lambda: kernels.dequantize(q, s, b, dtype=np.int32)),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()


@pytest.mark.parametrize("view", [np.s_[::2], np.s_[:, 64:192], np.s_[::-1, ::-1]])
def test_views_are_quantised_and_dequantised(view):
    """As their copies are."""
    w = hiprt.array(np.random.default_rng(5).standard_normal((16, 256)).astype(np.float32))
    whole = kernels.quantize(hiprt.array(w.numpy()[view]))
    parts = kernels.quantize(w[view])
    for got, expected in zip(parts, whole):
        np.testing.assert_array_equal(got.numpy(), expected.numpy())
    spread = [kernels.concatenate([x, x], axis=1)[:, : x.shape[1]] for x in whole]
    assert not any(x.is_contiguous for x in spread)
    np.testing.assert_array_equal(kernels.dequantize(*spread).numpy(), kernels.dequantize(*whole).numpy())
