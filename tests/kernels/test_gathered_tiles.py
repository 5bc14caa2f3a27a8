"""Products of rows that choose matrices of a stack by Hopper's matrix instructions: tiles, their order, results."""

from dataclasses import replace
from importlib import import_module
from typing import NamedTuple

import numpy as np
import pytest

import hiprt
from hiprt import graphs, kernels
from hiprt.kernels.ops.matmul.stacks import side_of
from hiprt.kernels.ops.quantized.formats import format_of
from hiprt.kernels.ops.quantized.gather_mlp import gather_mlp, gather_swiglu
from hiprt.kernels.ops.quantized.gathered_tiles import gathered_plan, run_tiles
from hiprt.kernels.ops.quantized.operands import operands_of
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.reference.quantize import quantize
from hiprt.kernels.tuning.target import force_generic, make_target, target_of
from hiprt.kernels.tuning.tiling import Product
from hiprt.kernels.tuning.wgmma_tiles import gathered_tiles_of, shared_bytes
from hiprt.provider import CPU, NVIDIA

H200 = make_target("sm_90", 132, 32, NVIDIA)
HALF, BFLOAT = np.dtype(np.float16), hiprt.bfloat16
GATE_UP = Product(1536, 2048, 4096, 64, 4, True)  # of 512 tokens of Qwen3-30B-A3B, each with 8 experts of 128
NONE = 2**32 - 1
on_hopper = pytest.mark.only(
    "nvidia", reason="the instructions exist on Hopper alone, and the CPU device has none like them"
)
gather, mlp = (import_module(f"hiprt.kernels.ops.quantized.{name}") for name in ("gather_qmm", "gather_mlp"))


@pytest.mark.parametrize(
    ("count", "stack", "rows"), [(700, 5, 32), (64, 1, 64), (1500, 12, 32), (1, 3, 32), (33, 40, 64)]
)
def test_each_matrix_has_tiles_of_its_own(stream, count, stack, rows):
    """The items of a matrix are in their order; those that name none come last."""
    random = np.random.default_rng(count)
    indices = random.integers(0, stack + 1, count).astype(np.uint32)
    indices[indices == stack] = random.choice([stack, NONE])
    matrices, order = [], []
    for matrix in range(stack + 1):
        run = np.flatnonzero(np.minimum(indices, stack) == matrix)
        for first in range(0, len(run), rows):
            matrices.append(matrix)
            order.append([*run[first : first + rows], *[NONE] * (first + rows - len(run))])
    with force_generic():
        found = run_tiles(count, stack, rows)
        got_order, got_matrices = found.run(stream, hiprt.array(indices))
    assert len(matrices) <= found.most
    np.testing.assert_array_equal(got_matrices.numpy()[: 1 + len(matrices)], [len(matrices), *matrices])
    np.testing.assert_array_equal(got_order.numpy()[: len(order) * rows], np.concatenate(order).astype(np.uint32))


@pytest.mark.parametrize(("count", "stack"), [(0, 4), (4, 0), (4, 1025)])
def test_wrong_numbers_of_items_and_matrices_are_named(count, stack):
    with pytest.raises(ValueError, match=f"{count} items of {stack} matrices"):
        run_tiles(count, stack, 32)


@pytest.mark.parametrize(("tokens", "rows"), [(32, 32), (512, 64), (1024, 128), (4096, 256)])
def test_tiles_are_as_tall_as_the_rows_of_a_matrix(tokens, rows):
    product = GATE_UP._replace(batch=8 * tokens)
    assert gathered_tiles_of(product, 128, H200) == rows
    plan = gathered_plan(product, 128, 8, BFLOAT, H200)
    shared = shared_bytes(dict(zip(plan.launch.kernel.template, plan.launch.template)), H200)
    assert plan.launch.grid[0] % H200.compute_units == 0
    assert shared * plan.launch.grid[0] // H200.compute_units <= 226 << 10


def test_other_products_have_other_kernels():
    assert gathered_plan(GATE_UP, 128, 8, HALF, H200) is not None
    assert gathered_plan(GATE_UP, 128, 8, np.dtype(np.float32), H200) is None
    for target in (make_target("sm_80", 108, 32, NVIDIA), make_target("hiprt-cpu", 2, 32, CPU, is_generic=True)):
        assert gathered_plan(GATE_UP, 128, 8, HALF, target) is None
    for unfit in ({"bits": 2}, {"group": 16}, {"width": 2112}, {"rows": 1544}):
        assert gathered_plan(GATE_UP._replace(**unfit), 128, 8, HALF, H200) is None
    assert gathered_plan(GATE_UP, 1025, 8, HALF, H200) is None
    for rows, stack in ((96, 128), (64, 1025)):
        with pytest.raises(ValueError, match="do not fit"):
            gathered_plan(GATE_UP, stack, 8, HALF, H200, rows)


@pytest.mark.parametrize(("tokens", "is_gathered"), [(7, False), (8, True), (32, True)])
def test_products_are_gathered_however_large_the_stack_is(tokens, is_gathered):
    """From as many as the table has; before, those of less than two a matrix went one by one."""
    count, form = 9 * tokens, format_of("gather_qmm", 64, 4, "affine")
    x, indices, (w, scales, biases) = operands(tokens, 9, 257, 128, 128, HALF, 64, 4, each=False)
    stream = hiprt.current_stream()
    device = (hiprt.array(each) for each in (x[:, :, None], w, scales, biases))
    given = operands_of("gather_qmm", *device, True, form, stream)
    left = side_of((tokens, 1), indices.shape, tokens, None, stream)
    right = side_of(indices.shape, indices.shape, 257, hiprt.array(indices), stream)
    on = replace(H200, table=replace(H200.table, gathered_from=64))
    assert (gather.plan_of(given, 1, count, left, right, True, on) is not None) == is_gathered


def operands(tokens, chosen, stack, n, k, dtype, group, bits, each=True):
    """Vectors, choices of which some name no matrix, and a stack; few tokens choose the first matrix."""
    random = np.random.default_rng(tokens + n)
    x = random.normal(size=(tokens, chosen if each else 1, k)).astype(dtype)
    indices = random.integers(1, stack + 1, (tokens, chosen)).astype(np.int32)
    indices[5 % tokens, 0], indices[3 % tokens, 1 % chosen] = 0, -1
    return x, indices, quantize(random.normal(size=(stack, n, k)).astype(dtype), group, bits)


@pytest.mark.parametrize("each", [False, True])
def test_a_product_is_that_of_gather_qmm_behind_its_gate(each):
    x, indices, stored = operands(20, 4, 3, 48, 128, np.float32, 64, 4, each)
    device = hiprt.array(x), *map(hiprt.array, stored), hiprt.array(indices)
    got = gather_swiglu(*device, group_size=64, bits=4).numpy()
    w = reference.weights(*(part.reshape(-1, part.shape[-1]) for part in stored), 64, 4).reshape(3, 48, 128)
    exact = np.zeros((20, 4, 24))
    for token, slot in zip(*np.nonzero((indices >= 0) & (indices < 3))):
        sums = w[indices[token, slot]] @ reference.double(x[token, slot if each else 0])
        exact[token, slot] = reference.silu_mul(sums[:24], sums[24:])
    np.testing.assert_allclose(got, exact, rtol=1e-4, atol=1e-4)


def test_two_stacks_one_behind_the_other():
    x, indices, stored = operands(20, 4, 3, 128, 128, np.float32, 64, 4, each=False)
    last = operands(20, 4, 3, 40, 64, np.float32, 32, 8)[2]
    device = hiprt.array(x), *map(hiprt.array, (*stored, *last, indices))
    got = gather_mlp(*device, group_size=64, bits=4, down_group_size=32, down_bits=8)
    w = reference.weights(*(part.reshape(-1, part.shape[-1]) for part in stored), 64, 4).reshape(3, 128, 128)
    down = reference.weights(*(part.reshape(-1, part.shape[-1]) for part in last), 32, 8).reshape(3, 40, 64)
    exact = np.zeros((20, 4, 40))
    for token, slot in zip(*np.nonzero((indices >= 0) & (indices < 3))):
        sums = w[indices[token, slot]] @ reference.double(x[token, 0])
        exact[token, slot] = down[indices[token, slot]] @ reference.silu_mul(sums[:64], sums[64:])
    np.testing.assert_allclose(got.numpy(), exact, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("rows", [(32, 32), (32, 64)])
def test_rows_are_put_in_order_once_for_two_products(monkeypatch, rows):
    """Where both have tiles of as many rows."""
    x, indices, stored = operands(20, 4, 3, 128, 128, np.float32, 64, 4, each=False)
    last = operands(20, 4, 3, 40, 64, np.float32, 64, 4)[2]
    taken = []

    class Plan(NamedTuple):
        """A plan that multiplies by other kernels, and notes the order that it was given."""

        runs: object
        is_gated: bool

        def run(self, stream, out, x, indices, w, scales, biases, runs=None):
            taken.append(runs)
            wide, form = x.reshape(20, -1, 1, x.shape[-1]), {"group_size": 64, "bits": 4}
            y = kernels.gather_qmm(wide, w, scales, biases, None, indices.view(np.int32), **form)[:, :, 0]
            gates = [kernels.contiguous(y[..., :64]), kernels.contiguous(y[..., 64:])] if self.is_gated else None
            out[:] = y if gates is None else kernels.silu_mul(*gates)
            return self.runs

    def plan_of(given, lines, count, left, right, is_gated, target):
        return Plan(run_tiles(80, 3, rows[not is_gated]), is_gated)

    device = hiprt.array(x), *map(hiprt.array, (*stored, *last, indices))
    form = {"group_size": 64, "bits": 4, "down_group_size": 64, "down_bits": 4}
    exact = gather_mlp(*device, **form).numpy()
    monkeypatch.setattr(mlp, "plan_of", plan_of)
    np.testing.assert_allclose(gather_mlp(*device, **form).numpy(), exact, rtol=1e-4, atol=1e-4)
    assert taken == [None, run_tiles(80, 3, 32) if rows[0] == rows[1] else None]


def test_the_gated_products_are_planned_once_where_tiles_do_not_serve(monkeypatch):
    x, indices, stored = operands(20, 4, 3, 128, 128, np.float32, 64, 4, each=False)
    last = operands(20, 4, 3, 40, 64, np.float32, 64, 4)[2]
    asked = []
    monkeypatch.setattr(mlp, "plan_of", lambda *given: asked.append(given))
    device = hiprt.array(x), *map(hiprt.array, (*stored, *last, indices))
    gather_mlp(*device, group_size=64, bits=4, down_group_size=64, down_bits=4)
    assert len(asked) == 1


@pytest.fixture
def force(monkeypatch):
    """Return a function that has products go by tiles of some rows, or by none where it is given None."""
    if "wgmma" not in target_of(hiprt.current_stream()).features:
        pytest.skip("the GPU is no Hopper")

    def forced(rows):
        def plan(product, stack, sharing, dtype, target):
            return None if rows is None else gathered_plan(product, stack, sharing, dtype, target, rows)

        monkeypatch.setattr(gather, "gathered_plan", plan)

    return forced


@on_hopper
@pytest.mark.parametrize("dtype", [HALF, BFLOAT])
@pytest.mark.parametrize(("group", "bits"), [(32, 4), (64, 4), (64, 8), (128, 4)])
@pytest.mark.parametrize("rows", [32, 64, 128, 256])
@pytest.mark.parametrize("each", [False, True])
def test_matches_the_reference(force, dtype, group, bits, rows, each, close):
    """A result full of NaN before; the last matrix's rows take several tiles, and two choices name no matrix."""
    x, indices, stored = operands(150, 3, 2, 200, 384, dtype, group, bits, each)
    force(rows)
    out = hiprt.array(np.full((150, 3, 1, 200), np.nan, dtype))
    wide = hiprt.array(x[:, :, None])
    given = *map(hiprt.array, stored), None, hiprt.array(indices)
    got = kernels.gather_qmm(wide, *given, group_size=group, bits=bits, out=out).numpy()[:, :, 0]
    flat = [part.reshape(-1, part.shape[-1]) for part in stored]
    weights = reference.double(reference.weights(*flat, group, bits).astype(dtype)).reshape(2, 200, 384)
    parts = reference.weights(flat[0], np.abs(flat[1]), np.abs(flat[2]), group, bits).reshape(2, 200, 384)
    exact, magnitude = np.zeros((150, 3, 200)), np.full((150, 3, 200), 1e-30)
    for token, slot in zip(*np.nonzero((indices >= 0) & (indices < 2))):
        vector = reference.double(x[token, slot if each else 0])
        exact[token, slot] = weights[indices[token, slot]] @ vector
        magnitude[token, slot] = parts[indices[token, slot]] @ np.abs(vector)
    close(hiprt.array(got), exact, magnitude=magnitude, steps=16 + 384 / 16)


@on_hopper
@pytest.mark.parametrize("dtype", [HALF, BFLOAT])
@pytest.mark.parametrize("rows", [32, 64, 128, 256])
def test_a_gate_gives_the_bits_of_single_ops(force, dtype, rows):
    """More tiles than threadgroups; the tile of a row does not change its bits."""
    x, indices, stored = operands(600, 4, 40, 528, 384, dtype, 64, 4, False)
    device = hiprt.array(x), *map(hiprt.array, stored), hiprt.array(indices)
    force(64)
    given = *map(hiprt.array, stored), None, device[-1]
    both = kernels.gather_qmm(hiprt.array(x[:, :, None]), *given, group_size=64, bits=4)[:, :, 0]
    exact = kernels.silu_mul(*(kernels.contiguous(half) for half in (both[..., :264], both[..., 264:]))).numpy()
    force(rows)
    got = gather_swiglu(*device, group_size=64, bits=4).numpy()
    np.testing.assert_array_equal(got.view(np.uint16), exact.view(np.uint16))


@on_hopper
def test_a_graph_gives_the_bits_of_eager(force, stream):
    x, indices, stored = operands(300, 8, 16, 256, 768, BFLOAT, 64, 4)
    device = hiprt.array(x), *map(hiprt.array, stored), hiprt.array(indices)
    force(64)
    exact = gather_swiglu(*device, group_size=64, bits=4).numpy().view(np.uint16)
    run = graphs.Step(lambda: gather_swiglu(*device, group_size=64, bits=4), stream=stream)
    for _ in range(3):
        np.testing.assert_array_equal(run().numpy().view(np.uint16), exact)
    assert run.rungs["replay"] == 2
