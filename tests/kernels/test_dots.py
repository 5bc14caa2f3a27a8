"""Sharings of integer dot instructions: waves enough on AMD GPUs, and the machine code of what plans take."""

import re
from dataclasses import replace

import pytest

from hiprt.array import bfloat16
from hiprt.bench.engine.models.presets import PRESETS
from hiprt.bench.roofline.decode import plain_work, products, work_of
from hiprt.bench.roofline.gpus import GPUS, MEASURED
from hiprt.bench.roofline.machine_code import code_of, full_waits
from hiprt.kernels.offline.amd_compiler import Compiler
from hiprt.kernels.offline.resources import text_of
from hiprt.kernels.ops.quantized.qmv_kernels import DOTS, PHASED, dot_instances
from hiprt.kernels.ops.quantized.qmv_ways import chosen
from hiprt.kernels.tuning.blocks import (
    FEWEST_VECTORS as FEWEST_OF_BLOCKS,
    MOST_VECTORS as MOST_OF_BLOCKS,
    blocks_configuration,
)
from hiprt.kernels.tuning.dots import (
    MOST_SIMDGROUPS,
    SHARED_BYTES,
    dots,
    dots_configuration,
    dots_of,
    piece_codes,
    shared_bytes,
)
from hiprt.kernels.tuning.target import make_target
from hiprt.kernels.tuning.tiling import Product
from hiprt.provider import NVIDIA, ROCM

SIMDS = 4  # of what HIP counts as a compute unit
# MI300X and MI300A; RDNA as HIP counts it, pairs of units, and as AMD does.
AMD = [("gfx942", 304, 64), ("gfx942", 228, 64), ("gfx90a", 104, 64), ("gfx950", 256, 64)]
AMD += [("gfx1151", n, 32) for n in (20, 40)] + [("gfx1201", n, 32) for n in (28, 32, 56, 64)] + [("gfx1100", 48, 32)]
PLANNED = [("gfx90a", 104, 64), ("gfx942", 304, 64), ("gfx950", 256, 64), ("gfx1100", 48, 32)]
PLANNED += [("gfx1151", 20, 32), ("gfx1200", 16, 32), ("gfx1201", 32, 32)]
DENSE = [name for name, each in PRESETS.items() if each["model_type"] == "qwen3" and each["hidden_size"] >= 1024]


@pytest.mark.parametrize("preset", DENSE)
@pytest.mark.parametrize(("arch", "units", "wave"), AMD)
def test_every_product_has_enough_waves(arch, units, wave, preset):
    """Four a SIMD, on every compute unit that a matrix has rows for; lanes without a piece are fewer than half."""
    on = make_target(arch, units, wave, ROCM)
    for product, _, _ in products(PRESETS[preset]):
        sharing = dots_of(product, on)
        simdgroups = sharing.teams * sharing.split
        assert sharing.groups == min(units, -(-product.rows // sharing.rows))
        assert simdgroups <= MOST_SIMDGROUPS
        assert sharing.groups * simdgroups * 32 / wave >= 4 * SIMDS * min(units, sharing.groups)
        pieces = product.width * product.bits // 128
        template = dots_configuration(product, sharing).template
        assert pieces > (template["SPLIT"] - 1) * 16 * template["DEPTH"]


def test_a_gate_has_pairs_of_rows():
    on, gate = make_target("gfx942", 304, 64, ROCM), Product(512, 8192, 1, 64, 4, True)
    on = replace(on, table=replace(on.table, dot_rows=(4, 2, 1)))
    assert {each.rows for each in dots(gate, on)} == {2, 4}
    assert {each.rows for each in dots(gate._replace(is_gated=False), on)} == {1, 2, 4}
    assert {each.split for each in dots(gate._replace(width=128), on)} == {1}
    assert dots_of(gate, make_target("sm_90", 132, 32, NVIDIA)) is None


def test_several_vectors_are_shared_out_as_one():
    """Each has its own bits then. A threadgroup takes all, with the fewest parts of x that its memory holds."""
    on, counts = make_target("gfx942", 304, 64, ROCM), range(2, 9)
    held = {2560: [0] * 7, 4096: [0, 0, 0, 0, 0, 64, 64], 9728: [0, 256, 128, 128, 128, 64, 64]}
    for width, parts in held.items():
        single = Product(2560, width, 1, 64, 4, False)
        several = [single._replace(batch=count) for count in counts]
        sharings = [dots_of(each, on) for each in several]
        assert [each.vectors for each in sharings] == [*counts]
        assert [each.held for each in sharings] == parts
        assert {each._replace(vectors=1, held=0) for each in sharings} == {dots_of(single, on)}
        assert {dots_configuration(*each).grid for each in zip(several, sharings)} == {(304, 1, 1)}
        assert all(shared_bytes(*each) <= SHARED_BYTES for each in zip(several, sharings))
    # With four rows of a tile, waves of 64 have no registers for the sums of 7 or 8 vectors beside parts of x.
    several = [Product(2560, 4096, count, 64, 8, False) for count in counts]
    sharings = [dots_of(each, on) for each in several]
    assert {each.rows for each in sharings} == {4}
    assert [each.vectors for each in sharings] == [2, 3, 4, 5, 6, 4, 4]


@pytest.mark.parametrize(("arch", "units", "wave"), PLANNED)
def test_weights_are_read_once_for_2_to_16_vectors(arch, units, wave):
    """Of every product of every dense preset, by integer dot instructions or by matrix instructions.

    Up to 4 vectors are shared out as one is, also where the sums of tiles are kept meanwhile.
    """
    on = make_target(arch, units, wave, ROCM)
    for product, is_normed, bits in product_list():
        one = product._replace(bits=bits)
        single = chosen(on, bfloat16, one, is_normed)
        for vectors in range(2, MOST_OF_BLOCKS + 1):
            several = one._replace(batch=vectors)
            rule = chosen(on, bfloat16, several, is_normed)
            if vectors < FEWEST_OF_BLOCKS:
                assert (rule.vectors, dots_configuration(several, rule).grid[1]) == (vectors, 1), several
                assert rule[:5] == single[:5], several
            else:
                grid = blocks_configuration(several, rule).grid
                assert grid[:2] == (-(-product.rows // (16 * rule.blocks)), rule.split)


def product_list():
    """Yield the products of all dense presets, whether they have a norm, and the bits of their codes."""
    for preset in DENSE:
        for product, is_normed, _ in products(PRESETS[preset]):
            for bits in (4, 8):
                yield product, is_normed, bits


def test_parts_of_x_fit_the_kernel():
    """Whole steps of a team or an even share of one, and no rounds are kept of x that is there at once."""
    on, product = make_target("gfx942", 304, 64, ROCM), Product(2560, 9728, 4, 64, 4, False)
    sharing = dots_of(product, on)
    assert (sharing.split, sharing.held, sharing.kept_rounds) == (4, 128, 1)
    for held, kept_rounds in ((64, 4), (32, 1), (128, 2)):
        dots_configuration(product, sharing._replace(held=held, kept_rounds=kept_rounds))
    for held, kept_rounds in ((0, 1), (48, 1), (16, 1), (192, 1), (256, 1), (304, 1), (128, 5), (-128, 1), (128, 0)):
        with pytest.raises(ValueError, match="does not fit"):
            dots_configuration(product, sharing._replace(held=held, kept_rounds=kept_rounds))
    with pytest.raises(ValueError, match="does not fit"):
        dots_configuration(product._replace(width=2560), sharing._replace(held=0, kept_rounds=2))


@pytest.mark.parametrize(
    "preset", ["qwen3-4b", *(pytest.param(name, marks=pytest.mark.wide) for name in MEASURED if name != "qwen3-4b")]
)
@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.arch)
def test_machine_code_of_x_in_parts(gpu, preset):
    """No spills, one wait for all loads at most for a step, four waves a SIMD, Little's law.

    Parts of one step have no loop over steps: there is one wait for each tile, and one for x.
    """
    for product, is_normed, bits in product_list():
        several = product._replace(bits=bits, batch=4)
        sharing = dots_of(several, gpu.target)
        if not sharing.held or product not in [each for each, _, _ in products(PRESETS[preset])]:
            continue
        configuration = dots_configuration(several, sharing)
        template = {"T": bfloat16, "S": bfloat16, "GROUP": 64, "BITS": bits, "WIDTH": product.width}
        template |= {"NORMED": is_normed, "ADDED": not is_normed, "GATED": product.is_gated, **configuration.template}
        code = code_of(PHASED, PHASED.values_of(template), gpu.arch)
        assert code.spills == 0, several
        has_loop = sharing.held > 32 * sharing.split
        assert full_waits(code.text) <= (1 if has_loop else sharing.kept_rounds + 1), several
        waves = configuration.grid[0] * configuration.threads[0] / gpu.wave
        resident = min(waves, code.waves * SIMDS * gpu.units)
        assert resident >= 4 * SIMDS * gpu.units
        assert resident * sharing.rows * gpu.wave * 16 >= gpu.latency * gpu.bandwidth


@pytest.mark.parametrize(
    "preset", ["qwen3-4b", *(pytest.param(name, marks=pytest.mark.wide) for name in MEASURED if name != "qwen3-4b")]
)
@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.arch)
def test_machine_code_of_presets(gpu, preset):
    """Few vector instructions a byte, one wait for all loads at most, no spills, four waves a SIMD, Little's law."""
    for product, is_normed, _ in products(PRESETS[preset]):
        work = work_of(gpu, product, is_normed)
        assert (work.kernel, work.spills) == ("qmv_dots", 0)
        assert work.full_waits <= 1, (product, work)
        assert work.density <= (0.06 if gpu.wave == 32 else 0.035), (product, work)
        assert work.density < plain_work(gpu, product, is_normed).density / 2
        assert work.resident >= 4 * SIMDS * gpu.units
        assert work.resident * work.nbytes >= gpu.latency * gpu.bandwidth


@pytest.mark.parametrize("bits", [2, 3, 5, 6])
@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.arch)
def test_machine_code_of_other_bits(gpu, bits):
    """Few vector instructions a byte, one wait for all loads at most, no spills, four waves a SIMD, Little's law."""
    product, is_normed, _ = list(products(PRESETS["qwen3-4b"]))[2]
    work = work_of(gpu, product._replace(bits=bits), is_normed)
    assert (work.kernel, work.spills) == ("qmv_dots", 0)
    assert work.full_waits <= 1
    assert work.density <= (0.13 if gpu.wave == 32 else 0.07)
    assert work.resident >= 4 * SIMDS * gpu.units
    assert work.resident * work.nbytes >= gpu.latency * gpu.bandwidth


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.arch)
def test_narrow_matrices_have_few_instructions_beside_their_dots(gpu):
    """A row of 1,024 is one piece of each lane, so that sums and addresses come with every piece."""
    product, is_normed, _ = next(products(PRESETS["qwen3-0.6b"]))
    assert product.width == 1024
    assert work_of(gpu, product, is_normed).density <= (0.06 if gpu.wave == 32 else 0.035)


@pytest.mark.parametrize(
    ("arch", "hint"),
    [
        ("gfx90a", "glc slc"),
        ("gfx942", "nt"),
        ("gfx950", "nt"),
        ("gfx1030", "slc"),
        ("gfx1151", "slc dlc"),
        ("gfx1201", "th:TH_LOAD_NT"),
    ],
)
def test_the_dot_instructions_are_the_hardwares(arch, hint):
    """Each word of codes meets each digit of x in one instruction, of 4 and of 8 bits; loads go on meanwhile.

    Codes, which are read once, leave no trace in the caches.
    """
    compiler, every = Compiler(), dot_instances(False)
    for template in (*every[:3], *(each for each in every if each["BITS"] in (3, 5))):
        text = compiler.assembly(DOTS.text("hip", template), DOTS.symbol(template), arch)
        bits, field = template["BITS"], 4 if template["BITS"] <= 4 else 8
        fields = piece_codes(template["GROUP"], bits) * field // 32
        words = fields * template["ROWS"] * template["DEPTH"] * template["PLANES"] * 4 // field
        assert text.count("v_dot8" if field == 4 else "v_dot4") >= words
        width = "dwordx3|b96" if bits == 3 else "dwordx4|b128"
        hinted = re.findall(rf"global_load_(?:{width}) .* {hint}$", text, re.MULTILINE)
        assert len(hinted) >= template["ROWS"] * template["DEPTH"]
        assert "kernarg_segment_size: 68" in text, "implicit arguments are asked for"
        assert full_waits(text_of(text, DOTS.symbol(template))) <= 1
