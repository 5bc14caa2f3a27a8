import ml_dtypes
import numpy as np
import pytest

from hiprt.kernels.reference.quantize import BITS, GROUP_SIZES, dequantize, pack, quantize, unpack

BF16 = ml_dtypes.bfloat16
DTYPES = [np.float32, np.float16, BF16]


def codes(packed, bits=4):
    return unpack(packed, bits)[0].tolist()


def row(values, dtype=np.float32):
    return np.array([values], dtype)


@pytest.mark.parametrize("group_size", GROUP_SIZES)
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_shapes_types_and_error(bits, group_size, dtype):
    w = np.random.default_rng(bits * group_size).normal(size=(3, 5, 256)).astype(dtype)
    packed, scales, biases = quantize(w, group_size, bits)
    assert packed.dtype == np.uint32
    assert packed.shape == (3, 5, 256 * bits // 32)
    assert scales.shape == biases.shape == (3, 5, 256 // group_size)
    back = dequantize(packed, scales, biases, group_size, bits)
    assert scales.dtype == biases.dtype == back.dtype == np.dtype(dtype)
    assert back.shape == w.shape
    half_step = np.abs(scales.astype(np.float32)).repeat(group_size, -1) * 0.5
    slack = {2: 0.01, 4: 1e-6}[np.dtype(dtype).itemsize] * np.abs(w.astype(np.float32)).max()
    # The far end of a group may lie up to half a step beyond the outermost code.
    assert np.all(np.abs(back.astype(np.float32) - w.astype(np.float32)) <= 2 * half_step + 4 * slack)


@pytest.mark.parametrize("bits", BITS)
def test_packing_is_one_little_endian_bit_stream_per_row(bits):
    values = np.random.default_rng(bits).integers(0, 2**bits, (2, 64)).astype(np.uint8)
    packed = pack(values, bits)
    for line, words in zip(values.tolist(), packed.tolist()):
        stream = sum(code << (at * bits) for at, code in enumerate(line))
        assert words == [(stream >> (32 * at)) & 0xFFFFFFFF for at in range(2 * bits)]
    assert np.array_equal(unpack(packed, bits), values)
    assert np.array_equal(unpack(np.asfortranarray(packed), bits), values)


def test_packed_words_by_hand():
    assert pack(np.array([[1, 2, 3, 4, 5, 6, 7, 8]], np.uint8), 4).tolist() == [[0x87654321]]
    assert pack(np.array([[1, 2, 3, 255]], np.uint8), 8).tolist() == [[0xFF030201]]
    assert pack(np.array([[3, 0, 1, 2] * 4], np.uint8), 2).tolist() == [[0x93939393]]
    # Three-bit codes straddle words: 32 codes of 0b101 are 96 bits of 101101...
    assert pack(np.full((1, 32), 0b101, np.uint8), 3).tolist() == [[0x6DB6DB6D, 0xDB6DB6DB, 0xB6DB6DB6]]


def test_group_from_zero_up_keeps_its_top_as_bias_and_meets_zero():
    packed, scales, biases = quantize(row([*range(16)] * 2), 32)
    assert scales.tolist() == [[-1.0]]
    assert biases.tolist() == [[15.0]]
    assert codes(packed) == [15 - value for value in range(16)] * 2


def test_the_end_farther_from_zero_is_the_bias():
    packed, scales, biases = quantize(row([-8.0, 7.0] * 16), 32)
    assert (scales.item(), biases.item()) == (1.0, -8.0)
    assert codes(packed) == [0, 15] * 16
    packed, scales, biases = quantize(row([-7.0, 8.0] * 16), 32)
    assert (scales.item(), biases.item()) == (-1.0, 8.0)
    assert codes(packed) == [15, 0] * 16


def test_all_negative_group_spans_its_own_range_alone():
    packed, scales, biases = quantize(row(np.linspace(-5, -2, 32)), 32)
    assert scales.item() == np.float32(-5) / np.float32(-25)
    assert biases.item() == -5.0
    assert codes(packed)[0] == 0
    assert codes(packed)[-1] == 15
    assert np.abs(dequantize(packed, scales, biases, 32) - np.linspace(-5, -2, 32)).max() < 0.1001


def test_all_positive_group_counts_down_from_its_top():
    packed, scales, biases = quantize(row([1.0, 16.0] * 16), 32)
    assert (scales.item(), biases.item()) == (-1.0, 16.0)
    assert codes(packed) == [15, 0] * 16


def test_ties_round_to_even():
    # Scale 1, bias -8: -6.5, -5.5 and -4.5 lie between codes 1|2, 2|3 and 3|4.
    packed, scales, biases = quantize(row([-8.0, 7.0, -6.5, -5.5, -4.5, *[0.0] * 27]), 32)
    assert (scales.item(), biases.item()) == (1.0, -8.0)
    assert codes(packed)[:5] == [0, 15, 2, 2, 4]


def test_the_scale_is_stretched_so_that_zero_is_a_code():
    # (2.6 + 1) / 3 = 1.2 would miss zero; 2.6 / 2 = 1.3 meets it, and -1 is then clipped to the last code.
    packed, scales, biases = quantize(row([2.6, -1.0, 0.0, 1.3] * 8), 32, 2)
    assert scales.item() == np.float32(2.6) / np.float32(-2)
    assert biases.item() == np.float32(2.6)
    assert codes(packed, 2) == [0, 3, 2, 1] * 8
    assert dequantize(packed, scales, biases, 32, 2)[0, 2] == 0.0


@pytest.mark.parametrize("bits", BITS)
def test_zero_groups(bits):
    packed, scales, biases = quantize(np.zeros((2, 64), np.float32), 64, bits)
    assert not packed.any()
    assert np.all(np.abs(scales) == np.float32(1e-7))
    assert not dequantize(packed, scales, biases, 64, bits).any()


@pytest.mark.parametrize("value", [3.0, -3.0])
def test_constant_groups_are_exact(value):
    packed, scales, biases = quantize(np.full((1, 32), value, np.float32), 32)
    assert np.array_equal(dequantize(packed, scales, biases, 32), np.full((1, 32), value, np.float32))


def test_a_bias_of_zero_where_the_edge_is_within_half_a_step_of_zero():
    # Zeros with one value below 1e-7 / 2: the smallest scale makes its code 0, so there is nothing to meet.
    values = [4e-8] + [0.0] * 31
    packed, scales, biases = quantize(row(values), 32)
    assert (scales.item(), biases.item()) == (-np.float32(1e-7), 0.0)
    assert codes(packed) == [0] * 32


def test_codes_are_taken_with_the_unrounded_scale():
    rng = np.random.default_rng(7)
    w = rng.normal(size=(64, 64)).astype(BF16)
    wide, narrow = quantize(w.astype(np.float32)), quantize(w)
    assert np.array_equal(wide[0], narrow[0])
    assert np.array_equal(wide[1].astype(BF16), narrow[1])
    assert np.array_equal(wide[2].astype(BF16), narrow[2])


def test_dequantize_rounds_the_product_and_then_the_sum():
    # 3 * (1 + 1/128) lies between two bfloat16 and rounds up to 3 + 1/32; with one rounding the sum would be 1 + 3/128.
    packed = pack(np.full((1, 32), 3, np.uint8), 4)
    back = dequantize(packed, row([1 + 1 / 128], BF16), row([-2.0], BF16), 32)
    assert np.all(back == BF16(1 + 1 / 32))
    assert BF16(3 * (1 + 1 / 128) - 2) == BF16(1 + 3 / 128)


def test_mistakes_are_named():
    w = np.zeros((2, 64), np.float32)
    for wrong, message in [
        (lambda: quantize(w, 16), "group size 16"),
        (lambda: quantize(w, 64, 7), "7 bits"),
        (lambda: quantize(w.astype(np.int32)), "dtype int32"),
        (lambda: quantize(w[0]), "whole groups"),
        (lambda: quantize(w[:, :60]), "whole groups"),
        (lambda: dequantize(np.zeros((2, 8), np.uint32), w[:, :2], w[:, :2]), "do not fit"),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()
