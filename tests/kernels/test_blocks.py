"""Sharings of AMD's matrix instructions for several vectors: the machine code of what plans take, and waves enough."""

import re
from dataclasses import replace
from math import prod

import pytest

from hiprt.array import bfloat16
from hiprt.bench.engine.models.presets import PRESETS
from hiprt.bench.roofline.decode import products
from hiprt.bench.roofline.gpus import GPUS, MEASURED
from hiprt.bench.roofline.machine_code import code_of, matrix_step
from hiprt.kernels.ops.quantized.qmv_kernels import BLOCKS, SHARED_BLOCKS
from hiprt.kernels.tuning.blocks import ROWS, Blocks, blocks, blocks_configuration, blocks_of, parts_shape
from hiprt.kernels.tuning.target import make_target
from hiprt.kernels.tuning.tiling import Product
from hiprt.provider import ROCM

SIMDS = 4  # of what HIP counts as a compute unit
AMD = [("gfx942", 304, 64), ("gfx942", 228, 64), ("gfx90a", 104, 64), ("gfx950", 256, 64)]
AMD += [("gfx1151", n, 32) for n in (20, 40)] + [("gfx1201", n, 32) for n in (28, 32, 56, 64)]
# Vector instructions a byte of codes, for all vectors together: with a norm, and without.
MOST = {"gfx942": (0.21, 0.08), "gfx1201": (0.17, 0.13), "gfx1151": (0.31, 0.24)}


@pytest.mark.parametrize(
    ("preset", "places"),
    [("qwen3-4b", (2, 3)), *(pytest.param(name, range(5), marks=pytest.mark.wide) for name in MEASURED)],
)
@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.arch)
def test_machine_code_of_presets(gpu, preset, places):
    """Few vector instructions a byte for 16 vectors, no spills, four waves a SIMD."""
    every = list(products(PRESETS[preset]))
    for product, is_normed, _ in (every[place] for place in places):
        product = product._replace(batch=16)
        sharing = blocks_of(product, is_normed, gpu.target)
        parts = {"NORMED": is_normed, "ADDED": not is_normed, "GATED": product.is_gated}
        template = {"T": bfloat16, "S": bfloat16, "GROUP": product.group, "BITS": product.bits, "WIDTH": product.width}
        template |= {**blocks_configuration(product, sharing).template, **parts}
        kernel = SHARED_BLOCKS if sharing.split > 1 else BLOCKS
        code = code_of(kernel, kernel.values_of(template), gpu.arch)
        assert (code.spills, code.waves >= 4) == (0, True), (product, code.waves)
        width = 32 if gpu.arch == "gfx1151" else 64  # of a step
        if product.width < 3 * width * sharing.depth * sharing.split * sharing.simdgroups * 32 // gpu.wave:
            continue  # a wave takes so few rounds that there is no loop
        step = matrix_step(code, kernel.name)
        nbytes = ROWS * sharing.blocks * sharing.depth * width // 2
        assert step.vectors / nbytes <= MOST[gpu.arch][not is_normed], (product, sharing, step.vectors / nbytes)


@pytest.mark.parametrize("preset", ["qwen3-4b", "qwen3-8b", "qwen3-32b"])
@pytest.mark.parametrize(("arch", "units", "wave"), AMD)
def test_every_product_has_enough_waves(arch, units, wave, preset):
    """Four a SIMD; where a matrix has few rows, threadgroups share its width, which costs memory for their sums."""
    on = make_target(arch, units, wave, ROCM)
    for product, is_normed, _ in products(PRESETS[preset]):
        product = product._replace(batch=16)
        sharing = blocks_of(product, is_normed, on)
        grid = blocks_configuration(product, sharing).grid
        assert grid[1] == sharing.split
        assert round(prod(grid) * sharing.simdgroups * 32 / wave / units) >= 4 * SIMDS, (product, sharing)
        sums = prod(parts_shape(product, sharing, is_normed)) * 4
        assert sharing.split == 1 or sums < product.rows * product.width * product.bits / 8 / 4


def test_threadgroups_share_the_width_only_where_they_can_count():
    on = make_target("gfx942", 304, 64, ROCM)
    product = Product(2560, 9728, 16, 64, 4, False)
    assert blocks_of(product, False, on).split > 1
    assert {each.split for each in blocks(product, on)} == {1, 2, 3, 4}
    assert {each.split for each in blocks(product, replace(on, features=on.features - {"arrivals"}))} == {1}
    assert {each.split for each in blocks(product._replace(width=64), on)} == {1}
    with pytest.raises(ValueError, match="does not fit"):
        blocks_configuration(product._replace(rows=1 << 17), Blocks(1, 8, 2, 2))


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.arch)
def test_a_matrix_is_read_once_for_all_vectors(gpu):
    """Each threadgroup has a part of its own, and a gate pairs of blocks."""
    for batch in (5, 16):
        product = Product(19456, 2560, batch, 64, 4, True)
        for sharing in blocks(product, gpu.target):
            grid = blocks_configuration(product, sharing).grid
            assert grid == (-(-product.rows // (16 * sharing.blocks)), sharing.split, 1)
            assert sharing.blocks % 2 == 0
            assert sharing.simdgroups * 32 % gpu.wave == 0
    assert blocks_of(product._replace(batch=4), True, gpu.target) is None


@pytest.mark.parametrize(
    ("arch", "instruction"),
    [("gfx90a", "v_mfma_f32_16x16x16"), ("gfx942", "v_mfma_f32_16x16x16")]
    + [(arch, "v_wmma_f32_16x16x16") for arch in ("gfx1100", "gfx1201")]
    + [("gfx950", "v_mfma_f32_16x16x32")],
)
def test_the_matrix_instructions_are_the_hardwares(arch, instruction):
    """Codes are unpacked by a shift, a mask and a power of two, in two instructions for two."""
    template = {"T": bfloat16, "S": bfloat16, "GROUP": 64, "BITS": 4, "WIDTH": 2560, "BLOCKS": 2, "SIMDGROUPS": 4}
    template |= {"DEPTH": 1, "NORMED": False, "ADDED": False, "GATED": False}
    text = code_of(BLOCKS, BLOCKS.values_of(template), arch).text
    assert instruction in text
    assert not re.search(r"v_cvt_f32_(ubyte|u32)", text)
