"""Matrices of 8 x 8 that a simdgroup holds: loads, products, fills and stores."""

import numpy as np
import pytest

import hiprt
from hiprt.kernels.lang.metal_body import Body, Form, Operand
from hiprt.metal_compat import check_metal

DTYPES = {"float": np.dtype(np.float32), "half": np.dtype(np.float16), "bfloat": hiprt.bfloat16}
ROOM = 12  # elements in a row of the arrays, more than a matrix has


@pytest.fixture(params=DTYPES)
def word(request):
    return request.param


def numbers(word, seed):
    """An array of ROOM x ROOM small numbers, exact in every type as products and sums of eight."""
    return np.random.default_rng(seed).integers(-4, 5, (ROOM, ROOM)).astype(np.float32).astype(DTYPES[word])


def block(a, column=0, row=0):
    return a[row : row + 8, column : column + 8].astype(np.float32)


@pytest.mark.parametrize(
    ("arguments", "exact"),
    [
        (f"a, {ROOM}", lambda a: block(a)),
        (f"a + 2, {ROOM}, ulong2(1, 3)", lambda a: block(a, 3, 3)),
        (f"a, {ROOM}, 0, true", lambda a: block(a).T),
        (f"a, {ROOM}, ulong2(4, 1), true", lambda a: block(a, 4, 1).T),
        ("a", lambda a: a.reshape(-1)[:64].reshape(8, 8).astype(np.float32)),
    ],
)
def test_loads(arguments, exact, word, run):
    a = numbers(word, 1)
    source = f"simdgroup_{word}8x8 m; simdgroup_load(m, {arguments}); simdgroup_store(m, out);"
    got = run(source, [a], shape=(8, 8), dtype=DTYPES[word], grid=(32, 1, 1), threadgroup=(32, 1, 1))
    np.testing.assert_array_equal(got.astype(np.float32), exact(a))


@pytest.mark.parametrize(
    ("arguments", "exact"),
    [
        ("out, 12", lambda out, m: out[:8, :8].__setitem__(..., m)),
        ("out, 12, ulong2(4, 2)", lambda out, m: out[2:10, 4:].__setitem__(..., m)),
        ("out, 12, ulong2(4, 2), true", lambda out, m: out[2:10, 4:].__setitem__(..., m.T)),
    ],
)
def test_stores_touch_the_block_only(arguments, exact, run):
    a = numbers("float", 2)
    source = f"simdgroup_float8x8 m; simdgroup_load(m, a, {ROOM}); simdgroup_store(m, {arguments});"
    got = run(source, [a], shape=(12, 12), grid=(32, 1, 1), threadgroup=(32, 1, 1), init_value=77)
    expected = np.full((12, 12), 77, np.float32)
    exact(expected, block(a))
    np.testing.assert_array_equal(got, expected)


def test_products(word, run):
    """d = a b + c and d = a b, also into an operand, and by several simdgroups with matrices of their own."""
    a, b, c = (numbers(word, seed) for seed in (3, 4, 5))
    source = f"""
uint group = simdgroup_index_in_threadgroup;
simdgroup_{word}8x8 left, right, sum, product;
simdgroup_load(left, a, {ROOM}, ulong2(group, 0));
simdgroup_load(right, b, {ROOM}, ulong2(0, group));
simdgroup_load(sum, c, {ROOM});
simdgroup_multiply(product, left, right);
simdgroup_multiply_accumulate(sum, left, right, sum);
simdgroup_store(product, out + group * 128);
simdgroup_store(sum, out + group * 128 + 64);
"""
    got = run(source, [a, b, c], shape=(4, 2, 8, 8), dtype=DTYPES[word], grid=(128, 1, 1), threadgroup=(128, 1, 1))
    for group in range(4):
        product = block(a, group, 0) @ block(b, 0, group)
        np.testing.assert_array_equal(got[group, 0].astype(np.float32), product)
        exact = (product + block(c)).astype(DTYPES[word])
        np.testing.assert_array_equal(got[group, 1], exact)


def test_filled_and_diagonal_matrices(run):
    source = """
simdgroup_float8x8 three = make_filled_simdgroup_matrix<float, 8, 8>(3.0f), diagonal = simdgroup_float8x8(2.0f);
simdgroup_matrix<float, 8, 8> product;
simdgroup_multiply(product, diagonal, three);
simdgroup_store(diagonal, out);
simdgroup_store(product, out + 64);
"""
    got = run(source, shape=(2, 8, 8), grid=(32, 1, 1), threadgroup=(32, 1, 1))
    np.testing.assert_array_equal(got, [2 * np.eye(8), np.full((8, 8), 6)])


def test_sums_of_narrow_matrices_in_float_through_threadgroup_memory(run):
    """A product of 16 x 24 and 24 x 8 in blocks, as kernels use it; odd numbers, so that rounding shows."""
    a = np.random.default_rng(6).normal(size=(16, 24)).astype(np.float16)
    b = np.random.default_rng(7).normal(size=(24, 8)).astype(np.float16)
    source = """
threadgroup half tile[2][64];
uint group = simdgroup_index_in_threadgroup, lane = thread_index_in_simdgroup;
simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
for (int k = 0; k < 24; k += 8) {
  for (uint i = lane; i < 64; i += 32) tile[group][i] = a[(group * 8 + i / 8) * 24 + k + i % 8];
  simdgroup_barrier(mem_flags::mem_threadgroup);
  simdgroup_half8x8 left, right;
  simdgroup_load(left, &tile[group][0]);
  simdgroup_load(right, b + k * 8);
  simdgroup_multiply_accumulate(sum, left, right, sum);
  simdgroup_barrier(mem_flags::mem_threadgroup);
}
simdgroup_store(sum, out + group * 64);
"""
    got = run(source, [a, b], shape=(16, 8), grid=(64, 1, 1), threadgroup=(64, 1, 1))
    np.testing.assert_allclose(got, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-5)
    text = metal(source, a, b)
    assert source in text
    assert check_metal(text) == []


def metal(source, *inputs):
    """Return a body's Metal text."""
    names = tuple("ab"[: len(inputs)])
    operands = tuple(Operand(x.dtype, x.ndim, False) for x in inputs)
    return Body("probe", names, ("out",), source).metal(Form(operands, (np.dtype(np.float32),)))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("simdgroup_matrix<float, 16, 8> m;\nsimdgroup_store(m, out);", ""),
        ("simdgroup_float8x8 m;\nsimdgroup_load(m, 3);", "no matching function"),
        ("simdgroup_half8x8 m;\nsimdgroup_store(m, out);", "no matching function"),
        ("simdgroup_float8x8 m;\nsimdgroup_store(m, a);", "no matching function"),
    ],
)
def test_the_checker_refuses_wrong_uses(source, words):
    problems = check_metal(metal(source, np.zeros((8, 8), np.float32)))
    assert any(words in problem.text for problem in problems), problems
