"""Targets: what plans may know of a device, which family serves it, and that they ask nothing else."""

import ast
import re
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.tuning.arch import amd, cpu, nvidia
from hiprt.kernels.tuning.target import FAMILIES, force_generic, make_target, target_of, use_target
from hiprt.provider import CPU, NVIDIA, ROCM

ARCH = re.compile(r"^(sm_\d|gfx|hiprt-cpu)")
PLANS = ("kernels/ops", "kernels/lang", "metal_compat", "bench/engine")
TELLS = "metal_compat/mlx/streams.py"  # device_info() tells it to programs, as MLX's does


def asked(tree):
    """Yield the lines on which a program reads an architecture's name, or writes one down."""
    for node in ast.walk(tree):
        if (isinstance(node, ast.Attribute) and node.attr == "arch") or (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and ARCH.match(node.value)
        ):
            yield node.lineno


@pytest.mark.parametrize("text", ["stream.device.arch", 'x == "sm_90"', 'name.startswith("gfx")', 'T["gfx942"]'])
def test_the_search_finds_names(text):
    assert list(asked(ast.parse(text))) == [1]


def test_no_plan_reads_an_architectures_name(root):
    found = [
        f"{path.relative_to(root)}:{line}"
        for folder in PLANS
        for path in sorted((root / folder).rglob("*.py"))
        if path != root / TELLS
        for line in asked(ast.parse(path.read_text()))
    ]
    assert not found


@pytest.mark.parametrize(
    ("arch", "family", "features"),
    [
        ("sm_90", nvidia, {"arrivals", "matrix", "bulk_copies", "streams", "wgmma"}),
        ("sm_80", nvidia, {"arrivals", "matrix"}),
        ("gfx942", amd, {"arrivals", "dots", "blocks"}),
        ("gfx1201", amd, {"arrivals", "dots", "blocks"}),
        ("gfx906", amd, {"arrivals", "dots"}),
        ("gfx900", amd, {"arrivals"}),
        ("gfx1010", amd, {"arrivals"}),
        ("hiprt-cpu", cpu, {"arrivals"}),
        ("metal", cpu, set()),
    ],
)
def test_one_family_serves_an_architecture(arch, family, features):
    assert next(each for each in FAMILIES if each.serves(arch)) is family
    assert family.features(arch) == features


def test_a_target_has_what_the_device_has():
    target = make_target("gfx942", 304, 64, ROCM)
    assert (target.arch, target.compute_units, target.wave) == ("gfx942", 304, 64)
    assert not target.takes_loops
    assert not target.is_generic
    assert make_target("hiprt-cpu", 2, 32, CPU).takes_loops
    generic = make_target("hiprt-cpu", 2, 32, CPU, is_generic=True)
    assert generic.is_generic
    assert not generic.takes_loops
    assert not make_target("sm_90", 132, 32, NVIDIA, is_generic=True).is_generic


def test_a_device_has_one_target_a_way_of_running(stream):
    target = target_of(stream)
    assert target_of(stream) is target
    with force_generic():
        generic = target_of(stream)
        assert target_of(stream) is generic
        assert not generic.takes_loops
    assert target_of(stream) is target
    assert generic.is_generic == target.takes_loops


def test_plans_of_another_target_are_kept_apart(stream):
    """Within the block ops plan anew; behind it, also behind an error, the plans of before are taken."""
    x, launches, target = hiprt.array(np.ones(64, np.float32)), [], target_of(stream)
    other = replace(target, table=replace(target.table))
    before = Launch.watch(lambda launch, _: launches.append(launch))
    try:
        kernels.rms_norm(x, x, 1e-6)
        with suppress(ZeroDivisionError), use_target(stream.device, other):
            assert target_of(stream) is other
            kernels.rms_norm(x, x, 1e-6)
            raise ZeroDivisionError
        kernels.rms_norm(x, x, 1e-6)
    finally:
        Launch.watch(before)
    first, inside, again = launches
    assert first is again
    assert first is not inside
    assert target_of(stream) is target


@pytest.mark.only("cpu", reason="other devices have one branch")
def test_plans_of_both_branches_are_kept_apart(stream):
    x = hiprt.array(np.linspace(-1, 1, 64, dtype=np.float32))
    weight, launches = hiprt.full(64, 2.0), []
    before = Launch.watch(lambda launch, _: launches.append(launch))
    try:
        first = kernels.rms_norm(x, weight, 1e-6).numpy()
        with force_generic():
            second = kernels.rms_norm(x, weight, 1e-6).numpy()
        kernels.rms_norm(x, weight, 1e-6)
    finally:
        Launch.watch(before)
    np.testing.assert_allclose(first, second, rtol=1e-6)
    loops, lanes, again = launches
    assert loops is again
    assert loops is not lanes
    assert (loops.threads, lanes.threads) == ((1, 1, 1), (256, 1, 1))
