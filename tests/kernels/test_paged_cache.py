"""Caches in blocks: bits of contiguous caches, shuffled tables, sequences that share a pool, graphs, mistakes."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import hiprt
from hiprt import kernels
from hiprt.graphs import Step
from hiprt.kernels.reference import ops as reference

BASE, EPS = 1e4, 1e-6
TWO_STEPS = {"float16": 2.0**-9, "bfloat16": 2.0**-6, "float32": 2.0**-18}


def in_blocks(caches, block_rows, spare=3, seed=0):
    """Return a pool with the blocks of caches [rows, heads, capacity, width] in random order, and the table.

    Capacities are whole blocks. Spare blocks of the pool hold NaN.
    """
    rows, heads, capacity, width = caches.shape
    blocks = capacity // block_rows
    table = np.random.default_rng(seed).permutation(rows * blocks + spare)[: rows * blocks].reshape(rows, blocks)
    pool = np.full((heads, rows * blocks + spare, block_rows, width), np.nan, caches.dtype)
    pool[:, table] = caches.transpose(1, 0, 2, 3).reshape(heads, rows, blocks, block_rows, width)
    return pool, table.astype(np.int32)


def normal(dtype, *shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def check_same(found, expected):
    """Compare with contiguous caches: bit by bit, or nearly where a GPU may have a kernel of its own for these."""
    found = found.numpy()
    if hiprt.library.current().provider.is_host:
        np.testing.assert_array_equal(found, expected)
    else:
        steps = TWO_STEPS[found.dtype.name]
        np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=steps, atol=steps)


@pytest.mark.parametrize(("block_rows", "blocks"), [(16, 3), (64, 9)])
@pytest.mark.parametrize(("heads", "pairs", "width"), [(4, 2, 64), (3, 3, 80), (8, 2, 128)])
def test_attention_has_the_bits_of_contiguous_caches(branch, dtype, heads, pairs, width, block_rows, blocks):
    """Rows of different lengths, one behind its capacity and one idle; long caches are shared out."""
    capacity = block_rows * blocks
    positions = np.array([0, capacity - 1, capacity + 5, capacity // 2, -(2**31)], np.int32)
    q, gate = normal(dtype, 5, heads, width, seed=2), normal(dtype, 5, heads * width, seed=3)
    keys, values = (normal(dtype, 5, pairs, capacity, width, seed=seed) for seed in (4, 5))
    (key_pool, table), (value_pool, _) = in_blocks(keys, block_rows), in_blocks(values, block_rows)
    at, options = hiprt.array(positions), {"scale": width**-0.5, "gate": hiprt.array(gate)}
    expected = kernels.attention(*map(hiprt.array, (q, keys, values)), at, **options).numpy()
    given = map(hiprt.array, (q, key_pool, value_pool, table))
    check_same(kernels.paged_attention(*given, at, **options), expected)


def test_runs_without_a_block_are_not_read(branch, dtype, close):
    """What the table says behind a position may be anything, as far as attention is concerned."""
    q, (keys, values) = normal(dtype, 2, 4, 64), normal(dtype, 2, 2, 2, 64, 64, seed=1)
    (key_pool, table), (value_pool, _) = in_blocks(keys, 16), in_blocks(values, 16)
    positions = np.array([15, 40], np.int32)
    exact = np.stack([
        reference.paged_attention(q[i], key_pool, value_pool, table[i], int(positions[i]), 0.125) for i in range(2)
    ])  # fmt: skip
    table[0, 1:], table[1, 3:] = -1, -1
    given = map(hiprt.array, (q, key_pool, value_pool, table, positions))
    close(kernels.paged_attention(*given, scale=0.125), exact, magnitude=4.0, steps=16)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), block_rows=st.sampled_from([16, 64, 4096]), rows=st.integers(1, 70), shared=st.booleans())
def test_slots(branch, data, block_rows, rows, shared):
    blocks = data.draw(st.integers(1, 5))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    table = random.integers(-2, 9, (blocks,) if shared else (rows, blocks)).astype(np.int32)
    position = random.integers(-3, blocks * block_rows + 3, rows).astype(np.int32)
    position[0] = -(2**31)
    found = kernels.block_slots(hiprt.array(table), hiprt.array(position), block_rows).numpy()
    np.testing.assert_array_equal(found, reference.block_slots(table, position, block_rows))


def test_rows_go_to_their_slots(branch, dtype):
    """They turn by their positions, and lie where the slots say; a row without one writes nothing."""
    heads, pairs, width, pooled = 4, 2, 64, 48
    qkv, norm = normal(dtype, 4, (heads + 2 * pairs) * width), normal(dtype, width, seed=1)
    positions, slots = np.array([3, 100, 7, 5], np.int32), np.array([40, 0, -1, pooled], np.int32)
    apart = [hiprt.zeros((4, pairs, 128, width), dtype) for _ in range(2)]
    pools = [hiprt.zeros((pairs, pooled, width), dtype) for _ in range(2)]
    given, options = [*map(hiprt.array, (qkv, norm, norm, positions))], {"heads": heads, "base": BASE, "eps": EPS}
    expected = kernels.norm_rope_write(*given, *apart, **options).numpy()
    found = kernels.norm_rope_write(*given, *pools, **options, slots=hiprt.array(slots)).numpy()
    np.testing.assert_array_equal(found, expected)
    for pool, cache in zip(pools, apart):
        wanted = np.zeros((pairs, pooled, width), dtype)
        for row in (0, 1):
            wanted[:, slots[row]] = cache.numpy()[row, :, positions[row]]
        np.testing.assert_array_equal(pool.numpy(), wanted)


def test_a_step_is_replayed_while_its_table_changes(branch):
    """Two sequences that take a block in turn: each step has the bits of one over contiguous caches."""
    width, block_rows, steps, blocks = 64, 16, 70, 5
    norm = hiprt.array(normal(np.float16, width))
    pools = [hiprt.zeros((1, 10, block_rows, width), np.float16) for _ in range(2)]
    caches = [hiprt.zeros((2, 1, blocks * block_rows, width), np.float16) for _ in range(2)]
    position, table = hiprt.zeros(2, np.int32), hiprt.array(np.full((2, blocks), -1, np.int32))
    rows, turns = hiprt.zeros((2, 4 * width), np.float16), {"heads": 2, "base": BASE, "eps": EPS}

    def work():
        slots = kernels.block_slots(table, position, block_rows)
        flat = [pool.reshape(1, 10 * block_rows, width) for pool in pools]
        query = kernels.norm_rope_write(rows, norm, norm, position, *flat, **turns, slots=slots)
        return kernels.paged_attention(query, *pools, table, position, scale=0.125)

    step, free = Step(work), [*np.random.default_rng(3).permutation(10).tolist()]
    for at in range(steps):
        places = at, max(at - 5, 0)
        for sequence, place in enumerate(places):
            entry = table[sequence, place // block_rows : place // block_rows + 1]
            if entry.numpy()[0] < 0:
                entry.set([free.pop()])
        rows.set(normal(np.float16, 2, 4 * width, seed=at))
        position.set(places)
        query = kernels.norm_rope_write(rows, norm, norm, position, *caches, **turns)
        expected = kernels.attention(query, *caches, position, scale=0.125).numpy()
        check_same(step(), expected)
    assert step.rungs["replay"] == steps - 1


def test_mistakes_are_named():
    q, pool = hiprt.zeros((2, 4, 64), np.float16), hiprt.zeros((2, 3, 16, 64), np.float16)
    table, at = hiprt.zeros((2, 4), np.int32), hiprt.zeros(2, np.int32)
    attend, slots = kernels.paged_attention, kernels.block_slots
    odd = hiprt.zeros((2, 3, 24, 64), np.float16)
    for error, message, wrong in [
        (ValueError, "blocks of 24 positions; a power of two", lambda: attend(q, odd, odd, table, at, scale=1.0)),
        (ValueError, "are not \\[Hkv, pool blocks", lambda: attend(q, pool[0], pool[0], table, at, scale=1.0)),
        (ValueError, "table has shape \\(4,\\)", lambda: attend(q, pool, pool, table[0], at, scale=1.0)),
        (ValueError, "\\[3, blocks\\] is needed", lambda: slots(table, hiprt.zeros(3, np.int32), 16)),
        (TypeError, "table is float32", lambda: slots(hiprt.zeros((2, 4)), at, 16)),
        (ValueError, "blocks of 8 positions", lambda: slots(table, at, 8)),
        (ValueError, "position has shape", lambda: slots(table, table, 16)),
    ]:
        with pytest.raises(error, match=message):
            wrong()
