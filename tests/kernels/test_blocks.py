"""Sharings of AMD's matrix instructions for several vectors: the machine code of what plans take, and waves enough."""

import re

import pytest

from hiprt.array import bfloat16
from hiprt.bench.engine.models.presets import PRESETS
from hiprt.bench.roofline import GPUS, MEASURED, code_of, matrix_step, products
from hiprt.kernels.ops.quantized.qmv import BLOCKS
from hiprt.kernels.tuning.blocks import ROWS, blocks, blocks_configuration, blocks_of
from hiprt.kernels.tuning.tiling import Product

SIMDS = 4  # of what HIP counts as a compute unit
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
        code = code_of(BLOCKS, BLOCKS.values_of(template), gpu.arch)
        assert (code.spills, code.waves >= 4) == (0, True), (product, code.waves)
        width = 32 if gpu.arch == "gfx1151" else 64  # of a step
        if product.width < 3 * width * sharing.depth * sharing.simdgroups * 32 // gpu.wave:
            continue  # a wave takes so few rounds that there is no loop
        step = matrix_step(code, BLOCKS.name)
        nbytes = ROWS * sharing.blocks * sharing.depth * width // 2
        assert step.vectors / nbytes <= MOST[gpu.arch][not is_normed], (product, sharing, step.vectors / nbytes)


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.arch)
def test_a_matrix_is_read_once_for_all_vectors(gpu):
    """A threadgroup has all of a row's width, and a gate pairs of blocks."""
    for batch in (5, 16):
        product = Product(19456, 2560, batch, 64, 4, True)
        for sharing in blocks(product, gpu.target):
            grid = blocks_configuration(product, sharing).grid
            assert grid == (-(-product.rows // (16 * sharing.blocks)), 1, 1)
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
