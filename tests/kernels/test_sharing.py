"""How a product's rows and width are shared out: waves and threadgroups enough on AMD GPUs, as before on others."""

import re

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.bench.engine.models.presets import PRESETS
from hiprt.bench.roofline.gpus import GPUS
from hiprt.kernels.offline.report import Report
from hiprt.kernels.ops.attention.attention import SIMDGROUPS, splits_of
from hiprt.kernels.ops.quantized.qmv_kernels import SHARED
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.reference.quantize import quantize
from hiprt.kernels.tuning.sharing import UNSHARED, Sharing, sharing_of, sharings, simdgroups_of
from hiprt.kernels.tuning.target import force_generic, make_target
from hiprt.kernels.tuning.tiling import Product
from hiprt.provider import NVIDIA, ROCM

SIMDS = 4  # of what HIP counts as a compute unit
# MI300X and MI300A; RDNA as HIP counts it, pairs of units, and as AMD does.
AMD = [("gfx942", 304, 64), ("gfx942", 228, 64), ("gfx90a", 104, 64), ("gfx950", 256, 64)]
AMD += [("gfx1151", n, 32) for n in (20, 40)] + [("gfx1201", n, 32) for n in (28, 32, 56, 64)] + [("gfx1100", 48, 32)]


def target(arch, units, wave, provider=ROCM):
    return make_target(arch, units, wave, provider)


def products(settings):
    """The products of one vector of a decode step of a dense model."""
    hidden, head = settings["hidden_size"], settings["head_dim"]
    heads, pairs = settings["num_attention_heads"], settings["num_key_value_heads"]
    yield Product((heads + 2 * pairs) * head, hidden, 1, 64, 4, False)
    yield Product(hidden, heads * head, 1, 64, 4, False)
    yield Product(2 * settings["intermediate_size"], hidden, 1, 64, 4, True)
    yield Product(hidden, settings["intermediate_size"], 1, 64, 4, False)
    yield Product(settings["vocab_size"], hidden, 1, 64, 4, False)


DENSE = {
    name: settings
    for name, settings in PRESETS.items()
    if settings["model_type"] == "qwen3" and settings["hidden_size"] >= 1024
}


@pytest.mark.parametrize("preset", DENSE)
@pytest.mark.parametrize(("arch", "units", "wave"), AMD)
def test_every_product_has_enough_waves(arch, units, wave, preset):
    """Four a SIMD, where the matrix has so many; a plan that has fewer is the one with the most."""
    on = target(arch, units, wave)
    for product in products(DENSE[preset]):
        sharing = sharing_of(product, on)
        most = max(simdgroups_of(product, each) for each in sharings(product, on.table.product_rows))
        waves = simdgroups_of(product, sharing) * 32 / wave / (units * SIMDS)
        assert waves >= 4 or simdgroups_of(product, sharing) == most, (product, sharing)
        assert waves >= 4 or preset != "qwen3-4b", (product, sharing, waves)


@pytest.mark.parametrize(("arch", "units", "wave"), AMD)
@pytest.mark.parametrize("capacity", [8192, 32768])
def test_attention_has_a_threadgroup_for_each_unit(arch, units, wave, capacity):
    on = target(arch, units, wave)
    for settings in DENSE.values():
        heads, pairs = settings["num_attention_heads"], settings["num_key_value_heads"]
        groups = heads // next(size for size in on.table.attention_heads if heads // pairs % size == 0)
        assert groups * splits_of(on, capacity, groups) >= units


def test_what_needs_the_least_work_is_taken():
    """A matrix with rows enough is not shared; a gate has its pairs of rows in one simdgroup."""
    head = Product(151936, 2560, 1, 64, 4, False)
    assert sharing_of(head, target("gfx1201", 32, 32)) == UNSHARED
    assert sharing_of(head, target("gfx942", 304, 64)) == Sharing(2, 1)
    assert sharing_of(head._replace(batch=2), target("gfx942", 304, 64)) == UNSHARED
    small = Product(512, 8192, 1, 64, 4, True)
    assert sharing_of(small, target("gfx942", 304, 64)) == Sharing(2, 8)
    assert sharing_of(small._replace(is_gated=False), target("gfx942", 304, 64)) == Sharing(1, 8)
    assert {each.split for each in sharings(small._replace(width=64))} == {1}


def test_plans_of_nvidia_and_the_cpu_are_what_they_were():
    """No product of another GPU is shared, and attention's threadgroups are the measured ones."""
    for on in (target("sm_90", 132, 32, NVIDIA), target("sm_80", 108, 32, NVIDIA)):
        assert on.table.attention_groups == 128
        for settings in DENSE.values():
            assert {sharing_of(product, on) for product in products(settings)} == {UNSHARED}


@pytest.mark.parametrize("sharing", SHARED)
@pytest.mark.parametrize("dtype", [np.dtype(np.float16), hiprt.bfloat16], ids=str)
@pytest.mark.parametrize(("rows", "width"), [(6, 128), (11, 1088), (9, 9 * 1024 + 64)])
def test_shared_rows_match_the_reference(sharing, dtype, rows, width):
    """Parts that have nothing of the width, rows that are not there, and what is fused."""
    product = Product(rows, width, 1, 64, 4, False)
    random = np.random.default_rng(rows)
    stored = quantize(random.normal(size=(rows, width)).astype(dtype) * dtype.type(width**-0.5), 64, 4)
    x = np.sign(random.normal(size=(1, width))).astype(dtype)
    norm, residual = random.normal(size=width).astype(dtype), random.normal(size=(1, rows)).astype(dtype)
    given = [hiprt.array(each) for each in (x, *stored)]
    with force_generic():
        if sharing not in sharings(product):
            with pytest.raises(ValueError, match="does not fit"):
                kernels.qmv(*given, tiling=sharing)
            return
        got = kernels.qmv(
            *given, norm=hiprt.array(norm), residual=hiprt.array(residual), tiling=sharing, out_dtype=np.float32
        ).numpy()
    exact = reference.qmv(x, stored, 64, 4, norm=norm, residual=residual)
    assert np.abs(got - exact).max() <= 1e-4 * np.abs(exact).max()


def test_a_gate_is_shared_too():
    random = np.random.default_rng(1)
    stored = quantize(random.normal(size=(22, 2112)).astype(np.float16), 64, 4)
    x = random.normal(size=(1, 2112)).astype(np.float16)
    given = [hiprt.array(each) for each in (x, *stored)]
    exact = reference.qmv(x, stored, 64, 4, swiglu=True)
    with force_generic():
        for sharing in (Sharing(4, 2), Sharing(2, 2)):
            got = kernels.qmv(*given, swiglu=True, tiling=sharing, out_dtype=np.float32).numpy()
            assert np.abs(got - exact).max() <= 1e-4 * np.abs(exact).max()
        with pytest.raises(ValueError, match="does not fit"):
            kernels.qmv(*given, swiglu=True, tiling=Sharing(1, 2))


@pytest.mark.parametrize(("arch", "units", "wave"), [("gfx942", 304, 64), ("gfx1151", 20, 32), ("gfx1201", 32, 32)])
def test_registers_allow_as_many_waves(root, arch, units, wave):
    """The committed report has four waves a SIMD at least for each sharing that a plan for 4 bits takes there."""
    report = Report.parse((root / "kernels" / "offline" / "amd_report.txt").read_text())
    waves = {row.kernel: row.waves for row in report.of([arch]).rows}
    on = target(arch, units, wave)
    for settings in DENSE.values():
        for product in products(settings):
            rows, split = sharing_of(product, on)
            for dtype in ("float16", "bfloat16"):
                assert waves[f"qmv_{dtype}_{dtype}_64_4_1_{rows}_{split}"] >= 4, (product, rows, split)


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.arch)
def test_waves_of_attention_hide_the_latency_of_memory(root, gpu):
    """Little's law: what resident waves have on its way is at least the memory's latency times its bandwidth.

    A wave has keys and values of four positions a lane on their way (`one_pass.h`), whose codes count without scales.
    """
    report = Report.parse((root / "kernels" / "offline" / "amd_report.txt").read_text()).of([gpu.arch])
    planned = gpu.target.table.attention_groups * SIMDGROUPS * 32 / gpu.wave / (SIMDS * gpu.units)
    sizes = {"float32": 4, "float16": 2, "bfloat16": 2}
    found = [(row, re.fullmatch(r"(\w*attention)_(b?float\d+)_(\d+)(?:_\d+)?_\d+", row.kernel)) for row in report.rows]
    served = [(row, match) for row, match in found if match and match[1] != "prefill_attention"]
    assert len(served) == 36 + 45 + 36 + 27
    for row, (name, dtype, width) in ((row, match.groups()) for row, match in served):
        elements = 8 if int(width) in (64, 128, 256) else -(-int(width) // 32)
        nbytes = 4 * 2 * elements * (1 if name == "quantized_attention" else sizes[dtype]) * gpu.wave
        assert min(planned, row.waves) * SIMDS * gpu.units * nbytes >= gpu.latency * gpu.bandwidth, row
