"""The functions simd_ and quad_ in whole and partial groups, in branches and loops, and with lanes that have left."""

import functools

import numpy as np
import pytest

import hiprt

LANES = np.arange(32)
SIZES = [32, 64, 40, 7, 1, 95]
OPERATIONS = {
    "sum": np.add,
    "product": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
TYPES = {
    "float": np.float32,
    "half": np.float16,
    "bfloat": hiprt.bfloat16,
    "int": np.int32,
    "uint": np.uint32,
    "long": np.int64,
    "ulong": np.uint64,
    "short": np.int16,
    "uchar": np.uint8,
}


def groups(values, width):
    """Neighbouring lanes that form simdgroups or quadgroups."""
    return [values[i : i + width] for i in range(0, len(values), width)]


@pytest.mark.every(2)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("prefix", "width"), [("simd", 32), ("quad", 4)])
@pytest.mark.parametrize("name", OPERATIONS)
def test_reductions(name, prefix, width, n, run):
    """A reduction takes the lanes that exist; the last group of a threadgroup may be partial."""
    a = np.random.default_rng(1).integers(1, 4, n).astype(np.int32)
    got = run(f"uint i = thread_index_in_threadgroup; out[i] = {prefix}_{name}(a[i]);", [a], shape=(n,), dtype=np.int32)
    exact = [functools.reduce(OPERATIONS[name], group) for group in groups(a, width) for _ in group]
    np.testing.assert_array_equal(got, exact)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("prefix", "width"), [("simd", 32), ("quad", 4)])
@pytest.mark.parametrize("name", ["sum", "product"])
def test_scans(name, prefix, width, n, run):
    a = np.random.default_rng(2).integers(1, 3, n).astype(np.int32)
    source = f"""
uint i = thread_index_in_threadgroup;
out[i] = {prefix}_prefix_inclusive_{name}(a[i]);
out[{n} + i] = {prefix}_prefix_exclusive_{name}(a[i]);
"""
    inclusive, exclusive = run(source, [a], shape=(2, n), grid=(n, 1, 1), threadgroup=(n, 1, 1), dtype=np.int32)
    accumulate = OPERATIONS[name].accumulate
    scans = [accumulate(group) for group in groups(a, width)]
    first = 0 if name == "sum" else 1
    np.testing.assert_array_equal(inclusive, np.concatenate(scans))
    np.testing.assert_array_equal(exclusive, np.concatenate([[first, *scan[:-1]] for scan in scans]))


@pytest.mark.parametrize("word", TYPES)
def test_types(word, run):
    a = np.arange(1, 33).astype(TYPES[word])
    source = "uint i = thread_index_in_threadgroup; out[i] = simd_shuffle_xor(a[i], 5); out[32 + i] = simd_max(a[i]);"
    got = run(source, [a], shape=(2, 32), grid=(32, 1, 1), dtype=TYPES[word])
    np.testing.assert_array_equal(got[0], a[LANES ^ 5])
    np.testing.assert_array_equal(got[1], np.full(32, a[31]))


def test_shuffles_of_larger_values(run):
    source = """
uint i = thread_index_in_threadgroup;
float4 v = simd_shuffle(float4(i, 2 * i, 3 * i, 4 * i), ushort(31 - i));
complex64_t z = simd_shuffle_down(complex64_t(i, -float(i)), 1);
bool odd = simd_shuffle_up(i % 2 == 1, 1);
out[i] = v.w + z.imag + (odd ? 1000 : 0) + float(simd_broadcast(long(i) << 40, 3) >> 40) * 10000;
"""
    up, down = np.maximum(LANES - 1, 0), np.minimum(LANES + 1, 31)
    exact = 4 * (31 - LANES) - down + np.where(up % 2, 1000, 0) + 30000
    np.testing.assert_array_equal(run(source, shape=(32,)), exact)


SHUFFLES = {
    "shuffle": lambda lane, by, width: by + 0 * lane,
    "broadcast": lambda lane, by, width: by + 0 * lane,
    "shuffle_xor": lambda lane, by, width: lane ^ by,
    "shuffle_up": lambda lane, by, width: np.where(lane < by, lane, lane - by),
    "shuffle_down": lambda lane, by, width: np.where(lane + by >= width, lane, lane + by),
    "shuffle_rotate_up": lambda lane, by, width: (lane - by) % width,
    "shuffle_rotate_down": lambda lane, by, width: (lane + by) % width,
}


@pytest.mark.parametrize(("prefix", "width"), [("simd", 32), ("quad", 4)])
@pytest.mark.parametrize("name", SHUFFLES)
def test_shuffles(name, prefix, width, run):
    source = f"uint i = thread_index_in_threadgroup; out[i] = {prefix}_{name}(int(i), 3);"
    within = LANES % width
    exact = LANES - within + SHUFFLES[name](within, 3, width)
    np.testing.assert_array_equal(run(source, shape=(32,), dtype=np.int32), exact)


@pytest.mark.parametrize("modulo", [32, 8])
def test_shuffles_with_filling(modulo, run):
    source = f"""
int i = int(thread_index_in_threadgroup);
out[i] = simd_shuffle_and_fill_up(i, 100 + i, 3, {modulo});
out[32 + i] = simd_shuffle_and_fill_down(i, 100 + i, 3, {modulo});
"""
    up, down = run(source, shape=(2, 32), grid=(32, 1, 1), threadgroup=(32, 1, 1), dtype=np.int32)
    base, lane = LANES // modulo * modulo, LANES % modulo
    np.testing.assert_array_equal(up, np.where(lane >= 3, LANES - 3, 100 + base + (lane - 3) % modulo))
    np.testing.assert_array_equal(down, np.where(lane + 3 < modulo, LANES + 3, 100 + base + (lane + 3) % modulo))


def test_votes(run):
    source = """
uint i = thread_index_in_threadgroup;
simd_vote odd = simd_ballot(i % 2 == 1);
out[i] = uint(ulong(odd));
out[40 + i] = uint(simd_vote::vote_t(simd_active_threads_mask()));
out[80 + i] = simd_all(i < 40) + 2 * simd_any(i == 39) + 4 * odd.any() + 8 * odd.all() + 16 * simd_is_first();
out[120 + i] = uint(ulong(quad_ballot(i % 4 == 2))) + 16 * quad_all(i > 3)
  + 32 * quad_any(i == 5) + 64 * quad_is_first();
"""
    odd, active, votes, quads = run(source, shape=(4, 40), grid=(40, 1, 1), threadgroup=(40, 1, 1), dtype=np.uint32)
    assert set(odd[:32]) == {0xAAAAAAAA}
    assert set(odd[32:]) == {0xAA}
    assert set(active[:32]) == {0xFFFFFFFF}
    assert set(active[32:]) == {0xFF}
    assert votes.tolist() == [21, *[5] * 31, 23, *[7] * 7]
    exact = [4 + 16 * (i > 3) + 32 * (4 <= i < 8) + 64 * (i % 4 == 0) for i in range(40)]
    assert quads.tolist() == exact


def test_both_arms_of_a_branch_work_among_themselves(run):
    source = """
uint i = thread_index_in_threadgroup;
if (i % 3 == 0) {
  out[i] = simd_sum(int(i)) + 1000 * simd_broadcast_first(int(i));
} else {
  out[i] = simd_max(int(i)) + 1000 * int(popcount(uint(ulong(simd_ballot(true)))));
}
"""
    got = run(source, shape=(40,), dtype=np.int32, threadgroup=(40, 1, 1))
    for first, last in [(0, 32), (32, 40)]:
        lanes = np.arange(first, last)
        third, others = lanes[lanes % 3 == 0], lanes[lanes % 3 != 0]
        assert set(got[third]) == {third.sum() + 1000 * third[0]}
        assert set(got[others]) == {others.max() + 1000 * len(others)}


def test_lanes_that_left_a_loop_or_the_kernel_take_no_part(run):
    source = """
int i = int(thread_index_in_threadgroup), total = 0;
if (i >= 24) return;
for (int k = 0; k < i % 5; k++) {
  total += simd_sum(1);
}
out[i] = total + 1000 * simd_sum(1);
"""
    got = run(source, shape=(32,), dtype=np.int32, init_value=-1)
    rounds = np.arange(24) % 5
    there = [int((rounds > k).sum()) for k in range(5)]
    assert got[:24].tolist() == [sum(there[:r]) + 24000 for r in rounds]
    assert set(got[24:]) == {-1}


def test_functions_of_a_header_called_from_a_loop(run):
    """The operation in the helper comes before the one behind the loop, wherever their lines are."""
    header = "\n\n\n\n\n\n\n\ninline int among(int v) {\n  return simd_sum(v);\n}\n"
    source = "int i = int(thread_index_in_threadgroup), t = 0;\n"
    source += "for (int k = 0; k <= i % 2; k++) t += among(1);\nout[i] = t + 100 * simd_sum(1);"
    got = run(source, shape=(32,), dtype=np.int32, header=header)
    assert got.tolist() == [3232 if i % 2 == 0 else 3248 for i in range(32)]


def test_every_lane_gets_the_same_bits(run):
    a = np.random.default_rng(3).normal(size=57).astype(np.float32)
    got = run("uint i = thread_index_in_threadgroup; out[i] = simd_sum(a[i]);", [a], shape=(57,))
    assert len(set(got[:32].view(np.uint32))) == len(set(got[32:].view(np.uint32))) == 1
    np.testing.assert_allclose(got[[0, 32]], [a[:32].sum(), a[32:].sum()], rtol=1e-5)


def test_simdgroup_barrier(run):
    source = """
threadgroup int shared[40];
uint i = thread_index_in_threadgroup;
shared[i] = int(i) * 2;
simdgroup_barrier(mem_flags::mem_threadgroup);
out[i] = shared[i ^ 7];
"""
    assert run(source, shape=(40,), dtype=np.int32, threadgroup=(40, 1, 1)).tolist() == [2 * (i ^ 7) for i in range(40)]
