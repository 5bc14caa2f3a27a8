"""attention: grouped heads, every position, sharp and flat softmax, mistakes."""

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.graphs import Step
from hiprt.kernels.reference import ops as reference


def check(close, int32, q, keys, values, position, scale):
    got = kernels.attention(*map(hiprt.array, (q, keys, values)), int32(position), scale=scale)
    exact = reference.attention(q, keys, values, position, scale)
    # A share's relative error is its score's absolute error: that of a sum of D products, and of exp.
    scores = np.abs(scale) * np.abs(reference.double(q)).sum(-1).max() * np.abs(reference.double(keys)).max()
    close(got, exact, magnitude=np.full(exact.shape, np.abs(reference.double(values)).max()), steps=12 + scores / 4)


@pytest.mark.parametrize("width", [32, 33, 64, 80, 128, 256])
@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (6, 2), (4, 4)])
def test_matches_the_reference(branch, dtype, heads, kv_heads, width, normal, close, int32):
    q = normal((heads, width), dtype, 1)
    keys, values = normal((kv_heads, 70, width), dtype, 2), normal((kv_heads, 70, width), dtype, 3)
    for position in (0, 1, 31, 32, 63, 69):
        check(close, int32, q, keys, values, position, width**-0.5)


def test_what_lies_beyond_the_position_is_not_read(branch, dtype, normal, close, int32):
    q, keys, values = normal((2, 64), dtype, 1), normal((1, 40, 64), dtype, 2), normal((1, 40, 64), dtype, 3)
    keys[:, 11:] = np.nan
    values[:, 11:] = np.nan
    check(close, int32, q, keys[:, :11], values[:, :11], 10, 0.125)
    got = kernels.attention(*map(hiprt.array, (q, keys, values)), int32(10), scale=0.125)
    assert np.isfinite(got.numpy().astype(np.float32)).all()


def test_positions_outside(branch, dtype, normal, close, int32):
    q, keys, values = normal((2, 32), dtype, 1), normal((1, 9, 32), dtype, 2), normal((1, 9, 32), dtype, 3)
    check(close, int32, q, keys, values, 1000, 0.2)
    for position in (-1, -(2**31)):
        got = kernels.attention(*map(hiprt.array, (q, keys, values)), int32(position), scale=0.2)
        assert not got.numpy().astype(np.float32).any()


def test_one_position_wins(branch, dtype, int32):
    # Scores 0, 200, 0, ...: exp of the difference vanishes, and must not overflow on the way.
    keys = np.zeros((1, 50, 32), dtype)
    keys[0, 37, 0] = 200
    q = np.zeros((1, 32), dtype)
    q[0, 0] = 1
    values = np.arange(50 * 32).reshape(1, 50, 32).astype(dtype)
    got = kernels.attention(*map(hiprt.array, (q, keys, values)), int32(49), scale=1.0)
    np.testing.assert_array_equal(got.numpy(), values[:, 37])


def test_equal_scores_give_the_mean(branch, dtype, int32):
    values = np.repeat(np.arange(64, dtype=np.float64)[None, :, None], 32, axis=2).astype(dtype)
    zeros = np.zeros((1, 64, 32), dtype)
    got = kernels.attention(*map(hiprt.array, (zeros[0, :2], zeros, values)), int32(63), scale=1.0)
    np.testing.assert_array_equal(got.numpy().astype(np.float64), np.full((2, 32), 31.5))


def test_long_cache(branch, dtype, normal, close, int32):
    q, keys, values = normal((2, 64), dtype, 1), normal((1, 1500, 64), dtype, 2), normal((1, 1500, 64), dtype, 3)
    check(close, int32, q, keys, values, 1234, 0.125)


@pytest.mark.parametrize(("heads", "kv_heads", "capacity"), [(4, 2, 40), (8, 2, 700), (3, 1, 300)])
def test_rows_of_a_batch_and_a_gate(branch, dtype, heads, kv_heads, capacity, normal, close):
    width, positions = 64, np.array([5, capacity - 1, capacity // 2, -1], np.int32)
    rows = len(positions)
    q, gate = normal((rows, heads, width), dtype, 1), normal((rows, heads * width + 24), dtype, 4)
    keys, values = normal((2, rows, kv_heads, capacity, width), dtype, 2)
    strided = hiprt.array(gate)[:, 8 : 8 + heads * width]
    got = kernels.attention(*map(hiprt.array, (q, keys, values, positions)), scale=0.125, gate=strided)
    given = zip(q, keys, values, positions)
    exact = np.stack([reference.attention(*one, 0.125) for one in given])
    opened = 1 / (1 + np.exp(-reference.double(gate[:, 8 : 8 + heads * width])))
    close(got, exact * opened.reshape(exact.shape), magnitude=np.full(exact.shape, 4.0), steps=64)


def test_graph_equals_eager(branch, dtype, normal):
    q, (keys, values) = normal((2, 4, 64), dtype, 1), normal((2, 2, 2, 600, 64), dtype, 2)
    given = [hiprt.array(v) for v in (q, keys, values, np.array([599, 130], np.int32))]
    step = Step(lambda: kernels.attention(*given, scale=0.125))
    eager = step.eager().numpy()
    for _ in range(3):
        np.testing.assert_array_equal(step().numpy(), eager)


def test_mistakes_are_named(dtype, int32):
    q, cache = hiprt.array(np.zeros((4, 32), dtype)), hiprt.array(np.zeros((2, 5, 32), dtype))
    other = hiprt.array(np.zeros((2, 5, 32), hiprt.bfloat16 if dtype == np.float32 else np.float32))
    wide, narrow = hiprt.zeros((1, 5, 512), dtype), hiprt.zeros((1, 5, 16), dtype)
    for error, message, wrong in [
        (ValueError, "512 elements", lambda: kernels.attention(wide[0, :1], wide, wide, int32(0), scale=1.0)),
        (ValueError, "16 elements", lambda: kernels.attention(narrow[0, :1], narrow, narrow, int32(0), scale=1.0)),
        (ValueError, "multiple of 2", lambda: kernels.attention(q[:3], cache, cache, int32(0), scale=1.0)),
        (ValueError, "do not fit", lambda: kernels.attention(q, cache, cache[:1], int32(0), scale=1.0)),
        (ValueError, "do not fit", lambda: kernels.attention(q, cache.reshape(2, 160), cache, int32(0), scale=1.0)),
        (TypeError, "values is", lambda: kernels.attention(q, cache, other, int32(0), scale=1.0)),
        (TypeError, "position is", lambda: kernels.attention(q, cache, cache, hiprt.zeros(1, np.float32), scale=1.0)),
        (ValueError, "out overlaps", lambda: kernels.attention(q, cache, cache, int32(0), scale=1.0, out=q)),
    ]:
        with pytest.raises(error, match=message):
            wrong()


def test_no_query_heads_give_an_empty_result():
    keys = hiprt.zeros((2, 512, 64))
    out = kernels.attention(hiprt.zeros((0, 64)), keys, keys, hiprt.zeros(1, np.int32), scale=1.0)
    assert out.shape == (0, 64)
