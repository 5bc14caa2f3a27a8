"""Products of many rows by Hopper's matrix instructions: which tiles are chosen, and what the kernel computes there."""

from importlib import import_module

import numpy as np
import pytest

import hiprt
from hiprt import graphs, kernels
from hiprt.kernels.ops.quantized.product import product
from hiprt.kernels.ops.quantized.wgmma_tiles import wgmma_plan
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.reference.quantize import quantize
from hiprt.kernels.tuning.target import make_target, target_of
from hiprt.kernels.tuning.tiling import Product
from hiprt.kernels.tuning.wgmma_tiles import (
    WgmmaTiles,
    shared_bytes,
    wgmma_configuration,
    wgmma_tiles,
    wgmma_tiles_of,
)
from hiprt.provider import CPU, NVIDIA

H200 = make_target("sm_90", 132, 32, NVIDIA)
HALF, BFLOAT = np.dtype(np.float16), hiprt.bfloat16
DOWN = Product(2560, 9728, 512, 64, 4, False)
on_hopper = pytest.mark.only(
    "nvidia", reason="the instructions exist on Hopper alone, and the CPU device has none like them"
)
modules = [import_module(f"hiprt.kernels.ops.quantized.{name}") for name in ("gather_qmm", "product")]


@pytest.mark.parametrize(
    ("product", "tiles"),
    [
        (DOWN, WgmmaTiles(256, 3)),
        (DOWN._replace(batch=4096), WgmmaTiles(256)),
        (Product(19456, 2560, 512, 64, 4, True), WgmmaTiles(256)),
        (Product(19456, 2560, 4096, 64, 4, True), WgmmaTiles(256)),
        (Product(6144, 2560, 512, 64, 4, False), WgmmaTiles(256)),
        (Product(2560, 4096, 512, 64, 4, False), WgmmaTiles(256, 3)),
    ],
)
def test_the_fastest_measured_tiles_are_chosen(product, tiles):
    assert wgmma_tiles_of(product, H200) == tiles


@pytest.mark.parametrize(
    "unfit",
    [
        {"batch": 8},
        {"bits": 2},
        {"group": 16},
        {"width": 9664},
        {"rows": 2564},
        {"rows": 0},
        {"rows": 2568, "is_gated": True},
    ],
)
def test_other_products_have_other_kernels(unfit):
    assert wgmma_tiles_of(DOWN._replace(**unfit), H200) is None
    if unfit != {"batch": 8}:
        with pytest.raises(ValueError, match="does not fit"):
            wgmma_configuration(DOWN._replace(**unfit), WgmmaTiles(256), H200)


def test_other_targets_and_dtypes_have_other_kernels():
    assert wgmma_plan(DOWN, HALF, False, H200) is not None
    assert wgmma_plan(DOWN, np.dtype(np.float32), False, H200) is None
    for target in (make_target("sm_80", 108, 32, NVIDIA), make_target("hiprt-cpu", 2, 32, CPU, is_generic=True)):
        assert wgmma_plan(DOWN, HALF, False, target) is None


@pytest.mark.parametrize("wrong", [WgmmaTiles(96), WgmmaTiles(64, 0), WgmmaTiles(64, 77)])
def test_wrong_tiles_are_named(wrong):
    with pytest.raises(ValueError, match="does not fit"):
        wgmma_plan(DOWN, HALF, False, H200, wrong)


@pytest.mark.parametrize("bits", [4, 8])
def test_threadgroups_fit_a_processor(bits):
    for tiles in wgmma_tiles(DOWN._replace(bits=bits)):
        plan = wgmma_plan(DOWN._replace(bits=bits), HALF, False, H200, tiles)
        resident = -(-plan.launch.grid[0] // H200.compute_units)
        shared = shared_bytes(dict(zip(plan.launch.kernel.template, plan.launch.template)), H200)
        assert shared <= (226 << 10) // resident
        assert (plan.parts is None) == (tiles.split == 1)


@pytest.fixture
def force(monkeypatch):
    """Return a function that has products go by some tiles, or by none where it is given None."""
    if "wgmma" not in target_of(hiprt.current_stream()).features:
        pytest.skip("the GPU is no Hopper")

    def forced(tiles):
        def plan(product, dtype, is_added, target, _=None):
            return None if tiles is None else wgmma_plan(product, dtype, is_added, target, tiles)

        for module in modules:
            monkeypatch.setattr(module, "wgmma_plan", plan)

    return forced


def operands(m, n, k, dtype, group, bits):
    random = np.random.default_rng(m + n)
    stored = quantize(random.normal(size=(n, k)).astype(dtype), group, bits)
    return random.normal(size=(m, k)).astype(dtype), *stored


@on_hopper
@pytest.mark.parametrize("dtype", [HALF, BFLOAT])
@pytest.mark.parametrize(("group", "bits"), [(group, bits) for group in (32, 64, 128) for bits in (4, 8)])
@pytest.mark.parametrize(
    ("m", "n", "k", "tiles"),
    [(300, 200, 384, WgmmaTiles(256)), (130, 136, 512, WgmmaTiles(128, 2)), (77, 328, 768, WgmmaTiles(64, 3))],
)
def test_matches_the_reference(force, dtype, group, bits, m, n, k, tiles, close):
    """Tiles that jut out beyond the rows and the columns; uneven shares of a width; a result full of NaN."""
    x, *stored = operands(m, n, k, dtype, group, bits)
    force(tiles)
    out = hiprt.array(np.full((m, n), np.nan, dtype))
    got = kernels.quantized_matmul(*map(hiprt.array, (x, *stored)), group_size=group, bits=bits, out=out)
    packed, scales, biases = stored
    weights = reference.double(reference.weights(packed, scales, biases, group, bits).astype(dtype))
    parts = reference.weights(packed, np.abs(scales), np.abs(biases), group, bits)
    magnitude = np.abs(reference.double(x)) @ parts.T
    close(got, reference.double(x) @ weights.T, magnitude=magnitude, steps=16 + k / 16)


@on_hopper
@pytest.mark.parametrize("split", [1, 3])
def test_a_threadgroup_takes_many_tiles(force, split):
    """More tiles than threadgroups: the bits of each row are those of the row in other company."""
    x, *stored = map(hiprt.array, operands(2100, 2056, 384, BFLOAT, 64, 4))
    force(WgmmaTiles(64, split))
    whole = kernels.quantized_matmul(x, *stored).numpy().view(np.uint16)
    for rows in (256, 128):
        force(WgmmaTiles(rows, split))
        for start in (0, 700, 2000):
            some = kernels.quantized_matmul(x[start : start + 100], *stored).numpy().view(np.uint16)
            np.testing.assert_array_equal(some, whole[start : start + 100])


@on_hopper
@pytest.mark.parametrize("dtype", [HALF, BFLOAT])
@pytest.mark.parametrize("tiles", [WgmmaTiles(256), WgmmaTiles(128, 2), WgmmaTiles(64, 3)])
@pytest.mark.parametrize(("swiglu", "added", "normed"), [(1, 0, 1), (0, 1, 0), (1, 1, 0)])
def test_what_is_done_to_the_result_gives_the_bits_of_single_ops(force, dtype, tiles, swiglu, added, normed):
    x, *stored = map(hiprt.array, operands(170, 400, 512, dtype, 64, 4))
    random = np.random.default_rng(7)
    columns = 200 if swiglu else 400
    residual = hiprt.array(random.normal(size=(170, columns)).astype(dtype)) if added else None
    norm = hiprt.array(random.normal(size=512).astype(dtype)) if normed else None
    force(tiles)
    got = product(x, *stored, group_size=64, bits=4, norm=norm, residual=residual, swiglu=bool(swiglu)).numpy()
    y = kernels.quantized_matmul(x if norm is None else kernels.rms_norm(x, norm, 1e-6), *stored)
    if swiglu:
        y = kernels.silu_mul(*(kernels.contiguous(half) for half in (y[:, :200], y[:, 200:])))
    exact = y if residual is None else kernels.add(residual, y)
    np.testing.assert_array_equal(got.view(np.uint16), exact.numpy().view(np.uint16))


@on_hopper
def test_a_graph_gives_the_bits_of_eager(force, stream):
    x, *stored = map(hiprt.array, operands(200, 264, 768, BFLOAT, 64, 4))
    force(WgmmaTiles(64, 3))
    exact = kernels.quantized_matmul(x, *stored).numpy().view(np.uint16)
    step = graphs.Step(lambda: kernels.quantized_matmul(x, *stored), stream=stream)
    for _ in range(3):
        np.testing.assert_array_equal(step().numpy().view(np.uint16), exact)
    assert step.rungs["replay"] == 2
