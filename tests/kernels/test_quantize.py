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
MODES = reference.FLOATING


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


def groups(name):
    """Return values of a dtype by what is special about their groups of 32; all are finite."""
    dtype, random = np.dtype(data_of.DTYPES[name]), np.random.default_rng(3)
    width = 32
    if dtype.itemsize == 2:  # every largest value that a group can have
        tops = np.arange(int(ml_dtypes.finfo(dtype).max.view(np.uint16)) + 1, dtype=np.uint16).view(dtype)
        words = random.integers(0, 1 << 16, (2000, width), dtype=np.uint16).view(dtype)
    else:  # largest values around those at which scales change
        powers = (np.float32(2) ** np.arange(-149, 125, dtype=np.float32)).view(np.uint32)[:, None]
        near = (np.maximum(powers.astype(np.int64) + np.arange(-3, 4), 1)).astype(np.uint32).view(np.float32)
        tops = np.concatenate([near.astype(np.float64) * top for top in (1, 6, 448)]).ravel()
        tops = tops[tops <= np.finfo(dtype).max].astype(dtype)
        words = random.integers(0, 1 << 32, (2000, width), dtype=np.uint32).view(dtype)
    with np.errstate(invalid="ignore"):
        finite = np.isfinite(words)
    near = random.uniform(-1, 1, (tops.size, width)) * tops.astype(np.float64)[:, None]
    near[:, 5], near[:, 21] = tops, -tops
    small = random.normal(size=(500, width)) * 2.0 ** random.uniform(-20, 10, (500, 1))
    halves = random.integers(-16, 17, (500, width)) / 4 * 2.0 ** random.integers(-8, 8, (500, 1))
    found = {
        "largest": near,
        "bits": np.where(finite, words, dtype.type(0)),
        "scales": small,
        "ties": halves,
        "zeros": np.array([0.0, -0.0]).repeat(16)[None] * np.ones((3, 1)),
    }
    with np.errstate(under="ignore"):
        return {kind: values.astype(dtype) for kind, values in found.items()}


@pytest.mark.parametrize("name", data_of.DTYPES)
@pytest.mark.parametrize("mode", MODES)
def test_bits_of_floating_codes(mode, name):
    """Those of the reference; and the reference's are those of MLX, where it is installed."""
    for kind, w in groups(name).items():
        with np.errstate(under="ignore", over="ignore"):
            exact = reference.quantize_floating(w, mode)
        got = kernels.quantize(hiprt.array(w), mode=mode)
        assert [v.dtype for v in got] == [np.uint32, np.uint8]
        for found, expected in zip(got, exact, strict=True):
            np.testing.assert_array_equal(found.numpy(), expected, err_msg=kind)


@pytest.mark.parametrize("name", data_of.DTYPES)
@pytest.mark.parametrize("mode", MODES)
def test_floating_codes_of_mlx(mode, name):
    mx = pytest.importorskip("mlx.core")
    for kind, w in groups(name).items():
        given = mx.array(w.view(np.uint16)).view(mx.bfloat16) if name == "bfloat16" else mx.array(w)
        theirs = [np.array(v) for v in mx.quantize(given, mode=mode, stream=mx.cpu)]
        for found, expected in zip(kernels.quantize(hiprt.array(w), mode=mode), theirs, strict=True):
            np.testing.assert_array_equal(found.numpy(), expected, err_msg=kind)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_other_groups_of_floating_codes_are_not_affected(mode, bad):
    w = np.random.default_rng(1).normal(size=(1, 96)).astype(np.float32)
    clean = [v.numpy() for v in kernels.quantize(hiprt.array(w), mode=mode)]
    w[0, 40] = bad
    for a, b in zip(clean, (v.numpy() for v in kernels.quantize(hiprt.array(w), mode=mode))):
        part = a.shape[1] // 3
        np.testing.assert_array_equal(a[:, :part], b[:, :part])
        np.testing.assert_array_equal(a[:, 2 * part :], b[:, 2 * part :])


@pytest.mark.parametrize("mode", MODES)
def test_what_floating_codes_can_say_comes_back(mode):
    """Values of the codes themselves, each group with its largest code."""
    group, bits = MODES[mode]
    codes = np.arange(1 << bits, dtype=np.uint8)
    values = (reference.e4m3 if bits == 8 else reference.e2m1)(codes)
    values = values[np.isfinite(values)]
    w = np.resize(values, (16, 256)).astype(np.float32)
    w.reshape(-1, group)[:, 0] = 448 if bits == 8 else 6
    packed, scales = kernels.quantize(hiprt.array(w), mode=mode)
    np.testing.assert_array_equal(scales.numpy(), 56 if mode == "nvfp4" else 127)
    back = kernels.dequantize(packed, scales, mode=mode, dtype=np.float32)
    np.testing.assert_array_equal(back.numpy(), w)


@pytest.mark.parametrize("shape", [(0, 64), (2, 0), (2, 1, 3, 128)])
@pytest.mark.parametrize("mode", MODES)
def test_shapes_of_floating_codes(mode, shape):
    group, bits = MODES[mode]
    w = np.random.default_rng(1).normal(size=shape).astype(np.float16)
    stored = kernels.quantize(hiprt.array(w), mode=mode)
    assert [v.shape for v in stored] == [(*shape[:-1], n) for n in (shape[-1] * bits // 32, shape[-1] // group)]
    if w.size:
        for found, expected in zip(stored, reference.quantize_floating(w, mode)):
            np.testing.assert_array_equal(found.numpy(), expected)


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
        ("mxfp8 quantization requires bits to be 8 but got 4", lambda: kernels.quantize(w, bits=4, mode="mxfp8")),
        ("nvfp4 quantization requires group size 16 but got 32", lambda: kernels.quantize(w, 32, mode="nvfp4")),
        ("divisible by the quantization group size 32", lambda: kernels.quantize(w[:, :40], mode="mxfp4")),
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
