"""quantized_matmul and gather_qmm of many rows: tiles of weights that are unpacked once."""

import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import hiprt
from hiprt import graphs, kernels, library
from hiprt.kernels.ops.quantized.quantized_tiles import tile_rows
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.reference.quantize import quantize
from hiprt.kernels.tuning.target import force_generic, make_target
from hiprt.kernels.tuning.tile_splits import split_of
from hiprt.provider import CPU, ROCM

HALF = np.dtype(np.float16)


def stored(n, k, dtype, group, bits, seed=0):
    return quantize(np.random.default_rng(seed).normal(size=(n, k)).astype(dtype), group, bits)


def weights_of(matrix, dtype, group, bits, branch):
    """What the branch multiplies with: a GPU's tiles hold the weights in the dtype."""
    exact = reference.weights(*matrix, group, bits)
    is_loop = branch == "loops" and library.current().provider.takes_loops
    return exact if is_loop else reference.double(exact.astype(dtype))


def check(close, branch, m, n, k, dtype, group, bits, seed=0):
    matrix, x = (
        stored(n, k, dtype, group, bits, seed),
        np.random.default_rng(seed + 1).normal(size=(m, k)).astype(dtype),
    )
    got = kernels.quantized_matmul(*map(hiprt.array, (x, *matrix)), group_size=group, bits=bits)
    packed, scales, biases = matrix
    parts = reference.weights(packed, np.abs(scales), np.abs(biases), group, bits)
    exact = reference.double(x) @ weights_of(matrix, dtype, group, bits, branch).T
    close(got, exact, magnitude=np.abs(reference.double(x)) @ parts.T, steps=16 + k / 16)
    return got


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("m", "n", "k", "group"), [(9, 70, 256, 128), (33, 3, 96, 32), (66, 65, 320, 64)])
def test_matches_the_reference(branch, dtype, bits, m, n, k, group, close):
    check(close, branch, m, n, k, dtype, group, bits)


@pytest.mark.parametrize("bits", [2, 3, 5, 6])
@pytest.mark.parametrize(("m", "n", "k", "group"), [(9, 70, 256, 128), (33, 3, 96, 32)])
def test_codes_that_cross_words(branch, dtype, bits, m, n, k, group, close):
    check(close, branch, m, n, k, dtype, group, bits)


@pytest.mark.parametrize("rows", [256, 515])
def test_larger_tiles(branch, rows, close):
    check(close, branch, rows, 65, 96, HALF, 32, 4)


def test_tiles_leave_several_of_them():
    gpu, loops = (make_target("hiprt-cpu", 1, 32, CPU, is_generic=each) for each in (True, False))
    assert [tile_rows(HALF, rows, gpu) for rows in (9, 255, 256, 511, 512, 10**6)] == [32, 32, 64, 64, 128, 128]
    assert tile_rows(np.dtype(np.float32), 10**6, gpu) == tile_rows(HALF, 10**6, loops) == gpu.table.tile_rows[-1]


def test_tiles_of_one_matrix_take_the_least_work():
    """Of those that a family of AMD GPUs has: matrix instructions take most of each of them."""
    counts = (17, 32, 33, 64, 65, 128, 192, 512)
    chosen = {
        arch: [tile_rows(HALF, count, make_target(arch, 64, 32, ROCM), is_single=True) for count in counts]
        for arch in ("gfx942", "gfx1151", "gfx1201", "gfx1030")
    }
    assert chosen["gfx942"] == [128] * 8
    assert chosen["gfx1151"] == [32, 32, 64, 64, 128, 128, 64, 128]
    assert chosen["gfx1201"] == [64, 64, 64, 64, 128, 128, 64, 128]
    assert chosen["gfx1030"] == [tile_rows(HALF, count, make_target("gfx1030", 64, 32, ROCM)) for count in counts]
    assert tile_rows(np.dtype(np.float32), 512, make_target("gfx942", 304, 64, ROCM), is_single=True) == 32


def test_tiles_of_stacks_take_the_least_work():
    """Experts have 16 to 128 rows of a prompt of 512 or 2,048 each."""
    chosen = {
        arch: [tile_rows(HALF, count, make_target(arch, 64, 32, ROCM)) for count in (16, 32, 64, 128, 256)]
        for arch in ("gfx942", "gfx1151", "gfx1201", "gfx1030")
    }
    assert chosen["gfx942"] == [128] * 5
    assert chosen["gfx1151"] == [32, 64, 64, 128, 128]
    assert chosen["gfx1201"] == [64, 64, 64, 128, 128]
    assert chosen["gfx1030"] == [32, 32, 32, 32, 64]
    assert tile_rows(np.dtype(np.float32), 512, make_target("gfx942", 304, 64, ROCM)) == 32


def test_few_tiles_share_the_width():
    """A short prompt of the 4B preset on an MI300X; other GPUs have fewer compute units than tiles."""
    chip = make_target("gfx942", 304, 64, ROCM)
    products = (6144, 2560), (2560, 4096), (19456, 2560), (2560, 9728)
    assert [split_of(*product, 512, 128, chip) for product in products] == [3, 5, 1, 7]
    assert [split_of(*product, 8192, 128, chip) for product in products] == [1, 1, 1, 1]
    assert split_of(64, 32, 1, 128, chip) == split_of(0, 64, 9, 128, chip) == 1
    assert split_of(2560, 96, 1, 128, chip) <= 3
    for arch in ("gfx1201", "gfx906", "sm_80"):
        assert split_of(2560, 4096, 512, 128, make_target(arch, 304, 64 if arch == "gfx906" else 32, ROCM)) == 1


@pytest.mark.parametrize(
    ("m", "n", "k", "split"), [(33, 70, 224, 2), (130, 3, 160, 3), (9, 130, 96, 3), (40, 65, 1120, 8)]
)
def test_threadgroups_share_the_width(stream, monkeypatch, close, m, n, k, split):
    """Also again, with the counters that the first launch leaves, and in a graph."""
    monkeypatch.setattr(sys.modules[tile_rows.__module__], "split_of", lambda *_: split)
    with force_generic():
        first = check(close, "generic", m, n, k, HALF, 32, 4).numpy()
        np.testing.assert_array_equal(check(close, "generic", m, n, k, HALF, 32, 4).numpy(), first)
        matrix = list(map(hiprt.array, stored(n, k, HALF, 32, 4)))
        x = hiprt.array(np.random.default_rng(1).normal(size=(m, k)).astype(HALF))
        step = graphs.Step(lambda: kernels.quantized_matmul(x, *matrix, group_size=32), stream=stream)
        for _ in range(2):
            np.testing.assert_array_equal(step().numpy(), first)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(m=st.integers(9, 70), n=st.integers(1, 90), groups=st.integers(1, 9), seed=st.integers(0, 2**31))
def test_any_shape(branch, dtype, close, m, n, groups, seed):
    check(close, branch, m, n, 32 * groups, dtype, 32, 4, seed)


def test_a_row_has_the_same_bits_in_any_tile(branch, dtype, close):
    matrix = list(map(hiprt.array, stored(70, 128, dtype, 64, 4)))
    x = np.random.default_rng(3).normal(size=(600, 128)).astype(dtype)
    whole = kernels.quantized_matmul(hiprt.array(x), *matrix).numpy()
    for start, end in ((0, 9), (100, 140), (300, 600)):
        part = kernels.quantized_matmul(hiprt.array(x[start:end]), *matrix).numpy()
        np.testing.assert_array_equal(part, whole[start:end])


def test_every_code_counts(branch, dtype):
    codes = np.tile(np.arange(16), 4)
    packed = (codes.reshape(-1, 8) << (4 * np.arange(8))).sum(1).astype(np.uint32)[None].repeat(3, 0)
    ones = np.ones((3, 1), dtype)
    got = kernels.quantized_matmul(*map(hiprt.array, (np.eye(64, dtype=dtype), packed, ones, 0 * ones)))
    np.testing.assert_array_equal(got.numpy().astype(int), np.repeat(codes[:, None], 3, 1))


@pytest.mark.parametrize("bits", [4, 8])
def test_rows_sorted_by_matrix(branch, dtype, bits, normal, close):
    """Runs of one row, of many, across tiles; matrices nobody takes; an index that names none."""
    matrices = stored(5 * 70, 64, dtype, 32, bits)
    chosen = np.array([0] * 3 + [1] + [3] * 40 + [4] * 7 + [9], np.int32)
    x = normal((len(chosen), 1, 64), dtype, 2)
    stack = [hiprt.array(part.reshape(5, 70, -1)) for part in matrices]
    options = {"rhs_indices": hiprt.array(chosen), "group_size": 32, "bits": bits}
    got = kernels.gather_qmm(hiprt.array(x), *stack, **options, sorted_indices=True)
    w = weights_of(matrices, dtype, 32, bits, branch).reshape(5, 70, 64)
    close(got, reference.gather_qmm(x, w, None, chosen), magnitude=np.full(got.shape, 400.0), steps=4)
    assert not got.numpy()[-1].astype(np.float32).any()


def test_runs_of_any_length(branch, normal, close):
    """Runs of up to a tile's rows, at any place of the tiles, longer ones, and larger tiles."""
    random = np.random.default_rng(8)
    matrices = stored(40 * 3, 64, HALF, 64, 4)
    w = weights_of(matrices, HALF, 64, 4, branch).reshape(40, 3, 64)
    drawn = random.integers(1, 33, 40), random.integers(0, 100, 40)
    for lengths in (*drawn, [32] * 9, [0, 33, 31, 65, 99], [1, 31, 900]):
        stack = [hiprt.array(part.reshape(40, 3, -1)[: len(lengths)]) for part in matrices]
        chosen = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        x = normal((len(chosen), 1, 64), HALF, 2)
        options = {"rhs_indices": hiprt.array(chosen), "sorted_indices": True}
        got = kernels.gather_qmm(hiprt.array(x), *stack, **options)
        close(got, reference.gather_qmm(x, w, None, chosen), magnitude=np.full(got.shape, 400.0), steps=4)


@pytest.mark.parametrize("rows", [63, 64, 200])
def test_rows_in_any_order_of_matrices(branch, dtype, rows, normal, close):
    matrices = stored(5 * 20, 64, dtype, 32, 4)
    random = np.random.default_rng(rows)
    chosen, left = random.integers(-1, 6, (rows, 2)).astype(np.int32), random.integers(0, rows, (rows, 1))
    x = normal((rows, 1, 64), dtype, 2)
    stack = [hiprt.array(part.reshape(5, 20, -1)) for part in matrices]
    indices = {"lhs_indices": hiprt.array(left), "rhs_indices": hiprt.array(chosen)}
    got = kernels.gather_qmm(hiprt.array(x), *stack, **indices, group_size=32)
    w = weights_of(matrices, dtype, 32, 4, branch).reshape(5, 20, 64)
    exact = reference.gather_qmm(x, w, *np.broadcast_arrays(left, chosen))
    close(got, exact, magnitude=np.full(got.shape, 400.0), steps=4)


def test_rows_that_indices_choose(branch, normal, close):
    matrices = stored(3 * 8, 64, HALF, 64, 4)
    x = normal((6, 2, 64), HALF, 2)
    left = np.array([5, 0, 0, 2, 7, 1], np.uint32)
    right = np.array([0, 0, 1, 1, 1, 2], np.uint32)
    stack = [hiprt.array(part.reshape(3, 8, -1)) for part in matrices]
    got = kernels.gather_qmm(
        hiprt.array(x), *stack, lhs_indices=hiprt.array(left), rhs_indices=hiprt.array(right), sorted_indices=True
    )
    w = weights_of(matrices, HALF, 64, 4, branch).reshape(3, 8, 64)
    close(got, reference.gather_qmm(x, w, left, right), magnitude=np.full(got.shape, 400.0), steps=4)


def test_batches_of_matrices(branch, normal, close):
    matrices = stored(2 * 10, 64, HALF, 64, 4)
    x = normal((3, 2, 9, 64), HALF, 2)
    stack = [hiprt.array(part.reshape(2, 10, -1)) for part in matrices]
    got = kernels.quantized_matmul(hiprt.array(x), *stack)
    w = weights_of(matrices, HALF, 64, 4, branch).reshape(2, 10, 64)
    close(got, reference.double(x) @ w.swapaxes(1, 2), magnitude=np.full(got.shape, 400.0), steps=4)


def test_a_graph_gives_the_bits_of_eager(branch, stream, normal):
    matrix = list(map(hiprt.array, stored(20, 64, HALF, 64, 4)))
    x = hiprt.array(normal((40, 64), HALF))
    step = graphs.Step(lambda: kernels.quantized_matmul(x, *matrix), stream=stream)
    exact = kernels.quantized_matmul(x, *matrix).numpy()
    for _ in range(2):
        np.testing.assert_array_equal(step().numpy(), exact)
    assert step.rungs["replay"] == 1


def test_no_columns(branch):
    x, matrix = hiprt.zeros((20, 64), HALF), list(map(hiprt.array, stored(4, 64, HALF, 64, 4)))
    assert kernels.quantized_matmul(x, *(part[:0] for part in matrix)).shape == (20, 0)
