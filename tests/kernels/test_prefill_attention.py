"""prefill_attention: rows with positions of their own, tiles of rows and of keys, gates, mistakes."""

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.kernels.ops.attention.grouped_heads import HEAD_WIDTHS
from hiprt.kernels.ops.attention.prefill_attention import KEYS, tile_rows
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.tuning.target import make_target
from hiprt.provider import ROCM

SPACING = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23}


def operands(normal, dtype, rows, heads, kv_heads, capacity, width):
    return (
        normal((rows, heads, width), dtype, 1),
        normal((kv_heads, capacity, width), dtype, 2),
        normal((kv_heads, capacity, width), dtype, 3),
    )


def check(hosts, position, gate=None):
    q, keys, values = hosts
    position = np.asarray(position, np.int32)
    scale = q.shape[-1] ** -0.5
    got = kernels.prefill_attention(
        *map(hiprt.array, (*hosts, position)), scale=scale, gate=None if gate is None else hiprt.array(gate)
    )
    exact = reference.prefill_attention(q, keys, values, position, scale, gate)
    # Shares rounded to the dtype, and the result: half a spacing of the largest value each, and float32's own errors.
    scores = scale * np.abs(reference.double(q)).sum(-1).max(initial=0) * np.abs(reference.double(keys)).max()
    bound = np.abs(reference.double(values)).max() * (SPACING[q.dtype.name] + (12 + scores / 4) * 2.0**-24)
    assert got.shape == exact.shape
    assert np.abs(got.numpy().astype(np.float64) - exact).max(initial=0) <= bound
    return got


@pytest.mark.parametrize("width", [33, 80, 128, 256])
@pytest.mark.parametrize(("heads", "kv_heads"), [(2, 2), (6, 2)])
def test_matches_the_reference(branch, dtype, heads, kv_heads, width, normal):
    check(operands(normal, dtype, 19, heads, kv_heads, 50, width), np.arange(21, 40))


@pytest.mark.parametrize("rows", [0, 1, 2, 63, 64, 65, 130])
def test_any_number_of_rows(branch, rows, normal):
    check(operands(normal, np.dtype(np.float16), rows, 1, 1, 200, 32), np.arange(rows) + 40)


def test_rows_in_any_order(branch, dtype, normal):
    check(operands(normal, dtype, 9, 2, 1, 70, 64), [69, 0, 31, 32, 5, 69, 16, 15, 1])


def test_positions_outside(branch, dtype, normal):
    got = check(operands(normal, dtype, 4, 2, 1, 9, 32), [1000, -1, 3, -(2**31)]).numpy()
    assert not got[[1, 3]].astype(np.float32).any()
    got = check(operands(normal, dtype, 2, 2, 1, 9, 32), [-1, -5]).numpy()
    assert not got.astype(np.float32).any()


def test_what_lies_beyond_all_positions_is_not_read(branch, dtype, normal):
    q, keys, values = operands(normal, dtype, 5, 2, 1, 60, 64)
    keys[:, 41:] = values[:, 41:] = np.nan
    position = np.arange(36, 41, dtype=np.int32)
    got = kernels.prefill_attention(*map(hiprt.array, (q, keys, values, position)), scale=0.125)
    part = kernels.prefill_attention(*map(hiprt.array, (q, keys[:, :41], values[:, :41], position)), scale=0.125)
    np.testing.assert_array_equal(got.numpy(), part.numpy())


def test_scores_that_only_the_relative_form_survives(branch, dtype):
    # Scores 0, 200, 0, ...: exp of the difference vanishes, and must not overflow on the way.
    keys = np.zeros((1, 50, 32), dtype)
    keys[0, 37, 0] = 200
    q = np.zeros((2, 1, 32), dtype)
    q[:, 0, 0] = 1
    values = np.arange(50 * 32).reshape(1, 50, 32).astype(dtype)
    position = hiprt.array(np.array([49, 40], np.int32))
    got = kernels.prefill_attention(*map(hiprt.array, (q, keys, values)), position, scale=1.0)
    np.testing.assert_array_equal(got.numpy()[:, 0], np.repeat(values[:, 37], 2, 0))


def test_a_gate_opens_the_result(branch, dtype, normal):
    hosts = operands(normal, dtype, 6, 3, 1, 20, 32)
    wide = normal((6, 200), dtype, 4)
    check(hosts, np.arange(6), wide[:, :96].copy())
    q, keys, values = map(hiprt.array, hosts)
    position = hiprt.array(np.arange(6, dtype=np.int32))
    view = hiprt.array(wide)[:, 64:160]
    got = kernels.prefill_attention(q, keys, values, position, scale=0.2, gate=view)
    alone = kernels.prefill_attention(q, keys, values, position, scale=0.2, gate=kernels.contiguous(view))
    np.testing.assert_array_equal(got.numpy(), alone.numpy())


def test_one_row_is_attention(branch, dtype, normal, int32):
    q, keys, values = map(hiprt.array, operands(normal, dtype, 1, 4, 2, 90, 64))
    got = kernels.prefill_attention(q, keys, values, int32(77), scale=0.125).numpy().astype(np.float64)
    alone = kernels.attention(q.reshape(4, 64), keys, values, int32(77), scale=0.125).numpy().astype(np.float64)
    np.testing.assert_allclose(got[0], alone, rtol=0, atol=8 * SPACING[dtype.name])


def test_tiles_fit_a_threadgroups_memory(dtype):
    for width in range(32, 257):
        rows = tile_rows(dtype, width)
        line = -(-width // 16) * 16 * dtype.itemsize + 16
        assert (rows + KEYS) * line + rows * (KEYS + 5) * 4 <= (32768 if dtype.itemsize == 2 else 49152)


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1151", "gfx1201", "gfx1030"])
def test_waves_share_tiles_where_rows_are_in_registers(arch, dtype):
    """On AMD with matrix instructions; elsewhere rows lie in threadgroup memory."""
    table = make_target(arch, 40, 32, ROCM).table
    for width in HEAD_WIDTHS:
        is_turned = arch != "gfx1030" and dtype.itemsize == 2
        assert tile_rows(dtype, width, table) == (table.prefill_rows[0] if is_turned else tile_rows(dtype, width))


def test_mistakes_are_named(dtype):
    q, cache = hiprt.zeros((3, 4, 32), dtype), hiprt.zeros((2, 5, 32), dtype)
    position = hiprt.zeros(3, np.int32)
    other = hiprt.zeros((2, 5, 32), hiprt.bfloat16 if dtype == np.float32 else np.float32)
    wide = hiprt.zeros((1, 5, 512), dtype)
    shifted = hiprt.zeros(3 * 4 * 32 + 1, dtype)[1:].reshape(3, 4, 32)
    op = kernels.prefill_attention
    for error, message, wrong in [
        (ValueError, "512 elements", lambda: op(wide[:, :3], wide, wide, hiprt.zeros(1, np.int32), scale=1.0)),
        (ValueError, "multiple of 2", lambda: op(q.reshape(4, 3, 32), cache, cache, position, scale=1.0)),
        (ValueError, "do not fit", lambda: op(q, cache, cache[:1], position, scale=1.0)),
        (ValueError, "3 axes", lambda: op(q[0], cache, cache, position, scale=1.0)),
        (TypeError, "values is", lambda: op(q, cache, other, position, scale=1.0)),
        (ValueError, "multiple of 16", lambda: op(shifted, cache, cache, position, scale=1.0)),
        (ValueError, "position has shape", lambda: op(q, cache, cache, position[:2], scale=1.0)),
        (ValueError, "gate has shape", lambda: op(q, cache, cache, position, scale=1.0, gate=q)),
        (TypeError, "gate is not", lambda: op(q, cache, cache, position, scale=1.0, gate=other)),
        (ValueError, "out overlaps", lambda: op(q, cache, cache, position, scale=1.0, out=q)),
    ]:
        with pytest.raises(error, match=message):
            wrong()
