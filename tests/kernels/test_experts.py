"""moe_gate_up and moe_down: formats, odd shapes, experts that do not exist, the unfused ops, mistakes."""

from copy import copy
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import hiprt
from hiprt import kernels
from hiprt.kernels.ops.experts import experts as experts_module
from hiprt.kernels.ops.quantized.integer_rings import MISLEADS
from hiprt.kernels.ops.quantized.reference import weights as values_of
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.reference.quantize import quantize
from hiprt.kernels.tuning.dots import Dots
from hiprt.kernels.tuning.rings import Ring, ring_of
from hiprt.kernels.tuning.target import force_generic, make_target
from hiprt.kernels.tuning.tiling import Product
from hiprt.objects import Planned
from hiprt.provider import NVIDIA, ROCM

gate_up_module, down_module = (
    import_module(f"hiprt.kernels.ops.experts.{name}") for name in ("moe_gate_up", "moe_down")
)
HALF = np.dtype(np.float16)
FORMATS = [(group, bits) for group in (32, 64, 128) for bits in (4, 8)]
OTHERS = [(32, 2), (128, 2), (64, 3), (32, 5), (128, 6)]  # whose codes cross words, or are small


def stack(shape, dtype, group, bits, seed=0):
    """A random stack of matrices, its exact values, and the sizes of the terms they are made of."""
    random = np.random.default_rng(seed)
    flat = (random.normal(size=(shape[0] * shape[1], shape[2])) * shape[2] ** -0.5).astype(dtype)
    packed, scales, biases = quantize(flat, group, bits)
    exact, sizes = (values_of(packed, f(scales), f(biases), group, bits).reshape(shape) for f in (np.array, np.abs))
    return [hiprt.array(part.reshape(*shape[:2], -1)) for part in (packed, scales, biases)], exact, sizes


def indices_of(tokens, chosen, experts, seed=0):
    """Experts of each token, one of which does not exist where there are fewer than chosen."""
    random = np.random.default_rng(seed)
    return np.array([random.permutation(max(experts, chosen))[:chosen] for _ in range(tokens)], np.int32).reshape(
        tokens, chosen
    )


def check_gate_up(
    close, normal, tokens, chosen, experts, columns, width, dtype, group=64, bits=4, seed=0, steps=30, tiling=None
):
    x, norm = normal((tokens, width), dtype, seed), normal(width, dtype, seed + 1)
    parts, w, sizes = stack((experts, 2 * columns, width), dtype, group, bits, seed)
    indices = indices_of(tokens, chosen, experts, seed)
    options = {"group_size": group, "bits": bits, "tiling": tiling}
    got = kernels.moe_gate_up(hiprt.array(x), hiprt.array(indices), *parts, **options)
    hosts = [part.numpy() for part in parts]
    halves = [hiprt.array(np.concatenate([each[:, :columns], each[:, columns:]])) for each in hosts]
    other = kernels.moe_gate_up(hiprt.array(x), hiprt.array(indices), *halves, apart=True, **options)
    if tiling is None:  # gates and ups in two stacks have no kernel of dot instructions
        assert other.numpy().tobytes() == got.numpy().tobytes()
    terms = np.abs(x.astype(np.float64)) @ sizes.transpose(0, 2, 1)
    largest = terms.max(initial=0)
    close(got, reference.moe_gate_up(x, indices, w), magnitude=largest * (largest + 1), steps=steps)
    # The norm is rounded to the dtype before the products, as it is without fusion.
    vectors = kernels.rms_norm(hiprt.array(x), hiprt.array(norm), 1e-6)
    apart = kernels.moe_gate_up(vectors, hiprt.array(indices), *parts, **options).numpy().astype(np.float64)
    fused = kernels.moe_gate_up(hiprt.array(x), hiprt.array(indices), *parts, norm=hiprt.array(norm), **options)
    exact = reference.moe_gate_up(x, indices, w, norm, 1e-6)
    bound = np.abs(exact).max(initial=0) * {"float16": 2.0**-9, "bfloat16": 2.0**-6, "float32": 2.0**-18}[dtype.name]
    np.testing.assert_allclose(fused.numpy().astype(np.float64), exact, rtol=0, atol=bound)
    np.testing.assert_allclose(fused.numpy().astype(np.float64), apart, rtol=0, atol=bound)


def check_down(
    close, normal, tokens, chosen, experts, columns, width, dtype, group=64, bits=4, seed=0, steps=30, tiling=None
):
    y, shares = normal((tokens, chosen, width), dtype, seed), normal((tokens, chosen), dtype, seed + 1)
    parts, w, sizes = stack((experts, columns, width), dtype, group, bits, seed)
    indices = indices_of(tokens, chosen, experts, seed)
    for residual in (None, normal((tokens, columns), dtype, seed + 2)):
        given = (hiprt.array(v) for v in (y, indices, shares))
        more = {} if residual is None else {"residual": hiprt.array(residual)}
        got = kernels.moe_down(*given, *parts, group_size=group, bits=bits, tiling=tiling, **more)
        exact = reference.moe_down(y, indices, shares, w, residual)
        last = None if residual is None else np.abs(residual)
        close(got, exact, magnitude=reference.moe_down(np.abs(y), indices, np.abs(shares), sizes, last), steps=steps)


@pytest.mark.singles
@pytest.mark.parametrize(("group", "bits"), FORMATS + OTHERS)
def test_every_format(branch, group, bits, close, normal):
    check_gate_up(close, normal, 2, 3, 5, 7, 3 * group, HALF, group, bits, seed=bits)
    check_down(close, normal, 2, 3, 2, 7, 3 * group, HALF, group, bits, seed=bits)


@pytest.mark.singles
@pytest.mark.parametrize("shape", [(1, 8, 16, 33, 2048), (2, 2, 3, 10, 5120)])
def test_gate_up_of_models_shapes(branch, dtype, shape, close, normal):
    check_gate_up(close, normal, *shape, dtype)


@pytest.mark.singles
@pytest.mark.parametrize("shape", [(1, 8, 16, 33, 768), (2, 9, 17, 20, 512)])
def test_down_of_models_shapes(branch, dtype, shape, close, normal):
    check_down(close, normal, *shape, dtype)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tokens=st.integers(1, 8), experts=st.integers(1, 9), columns=st.integers(1, 40), seed=st.integers(0, 2**31))
def test_any_shape(branch, dtype, close, normal, tokens, experts, columns, seed):
    shape = tokens, 4, experts, columns, 96
    check_gate_up(close, normal, *shape, dtype, 32, 4, seed)
    check_down(close, normal, *shape, dtype, 32, 4, seed)


def test_one_of_each_and_nothing(branch, dtype, close, normal):
    for tokens in (3, 0):
        check_gate_up(close, normal, tokens, 1, 1, 1, 64, dtype)
        check_down(close, normal, tokens, 1, 1, 1, 64, dtype)
    (w, scales, biases), _, _ = stack((3, 4, 64), dtype, 64, 4)
    x, none = hiprt.zeros((2, 64), dtype), hiprt.zeros((2, 0), np.int32)
    assert kernels.moe_gate_up(x, none, w, scales, biases).shape == (2, 0, 2)
    two = hiprt.zeros((2, 2), np.int32)
    assert kernels.moe_gate_up(x, two, w[:, :0], scales[:, :0], biases[:, :0]).shape == (2, 2, 0)


def test_mistakes_are_named(dtype):
    parts, _, _ = stack((3, 4, 64), dtype, 64, 4)
    w, scales, biases = parts
    x, y = hiprt.zeros((2, 64), dtype), hiprt.zeros((2, 2, 64), dtype)
    two, shares = hiprt.zeros((2, 2), np.int32), hiprt.zeros((2, 2), dtype)
    row, shifted = hiprt.zeros((2, 4), dtype), hiprt.zeros(129, dtype)[1:].reshape(2, 64)
    odd, _, _ = stack((3, 3, 64), dtype, 64, 4)
    for error, message, wrong in [
        (TypeError, "indices is float32", lambda: kernels.moe_gate_up(x, hiprt.zeros((2, 2)), *parts)),
        (ValueError, "indices has shape", lambda: kernels.moe_gate_up(x, two.reshape(4), *parts)),
        (ValueError, "do not fit", lambda: kernels.moe_gate_up(y.reshape(2, 128), two, *parts)),
        (ValueError, "do not fit", lambda: kernels.moe_gate_up(x, two, *odd)),
        (ValueError, "as many gates as ups", lambda: kernels.moe_gate_up(x, two, *odd, apart=True)),
        (ValueError, "3 axes", lambda: kernels.moe_gate_up(x, two, w[0], scales[0], biases[0])),
        (ValueError, "number of bits 7", lambda: kernels.moe_gate_up(x, two, *parts, bits=7)),
        (ValueError, "incompatible", lambda: kernels.moe_gate_up(x, two, *parts, bits=8)),
        (ValueError, "norm has shape", lambda: kernels.moe_gate_up(x, two, *parts, norm=x)),
        (ValueError, "does not start", lambda: kernels.moe_gate_up(shifted, two, *parts)),
        (ValueError, "out overlaps", lambda: kernels.moe_down(y, two, shares, *parts, residual=row, out=row)),
        (ValueError, "indices has shape", lambda: kernels.moe_down(y, two[:1], shares, *parts)),
        (ValueError, "weights has shape", lambda: kernels.moe_down(y, two, row, *parts)),
        (ValueError, "residual has shape", lambda: kernels.moe_down(y, two, shares, *parts, residual=x)),
        (ValueError, "do not fit", lambda: kernels.moe_down(y.reshape(2, 1, 128), two, shares, *parts)),
    ]:  # fmt: skip
        with pytest.raises(error, match=message):
            wrong()


def target(arch):
    """A target of 132 processors."""
    return make_target(arch, 132, 32, NVIDIA)


def test_rings_are_for_devices_that_have_bulk_copies():
    half, single = HALF, np.dtype(np.float32)
    gate_up, down = gate_up_module.rings_of, down_module.rings_of
    for plan, sizes in ((gate_up, (8, 768, 2048)), (down, (8, 2048, 768))):
        assert plan(target("sm_90"), half, *sizes, 64, 4) is not None
        for arch, dtype in (("sm_80", half), ("gfx1201", half), ("hiprt-cpu", half), ("sm_90", single)):
            assert plan(target(arch), dtype, *sizes, 64, 4) is None
    assert gate_up(target("sm_90"), half, 8, 766, 2048, 64, 4) is None
    assert gate_up(target("sm_90"), half, 8, 768, 2048, 64, 2) is None
    assert down(target("sm_90"), half, 8, 2048, 1024, 64, 6) is None
    assert down(target("sm_90"), half, 8, 2048, 704, 64, 4) is None


@pytest.mark.parametrize("most", [8, 32])
def test_as_many_tokens_as_the_table_has_go_by_rings(most):
    """All of them together have about as many threadgroups as the ring says."""
    on = target("sm_90")
    on = replace(on, table=replace(on.table, expert_tokens=most))
    for plan, sizes in ((gate_up_module.rings_of, (8, 768, 2048)), (down_module.rings_of, (8, 2048, 768))):
        chosen, columns, width = sizes
        is_down = plan is down_module.rings_of
        whole = (columns, chosen * width) if is_down else (2 * chosen * columns, width)
        wanted = experts_module.expert_ring_of(Product(*whole, 1, 64, 4, False), on, most).groups
        groups, tokens, _ = plan(on, HALF, *sizes, 64, 4, most).grid
        assert tokens == most
        assert wanted / 2 < groups * tokens <= wanted
        assert plan(on, HALF, *sizes, 64, 4, most + 1) is None


def test_a_token_alone_has_rings_of_its_own():
    """They divide rows as those of several tokens do, and so give the same bits."""
    on = target("sm_90")
    table = on.table
    for rows, width in {*table.expert_rings, *((rows, width) for rows, width, _ in table.many_expert_rings)}:
        product = Product(rows, width, 1, 64, 4, False)
        alone = experts_module.expert_ring_of(product, on)
        for tokens in (1, 2, 4, 8, 16):
            taken = experts_module.expert_ring_of(product, on, tokens)
            assert taken.split == alone.split
            found = experts_module.ring_configuration_of(on, HALF, product, tokens)
            assert found.template["EARLY"] == taken.early


def test_several_tokens_have_the_rings_of_the_table():
    """Where it has one for so many of them, or for fewer; others have that of the rules."""
    here, ring, product = target("sm_90"), Ring(2, 6, 4, 1, 2, 132), Product(2048, 6144, 1, 64, 4, False)
    rings = {(2048, 6144, 8): ring._replace(early=1), (2048, 6144, 5): ring, (2048, 4608, 2): ring._replace(early=3)}
    on = replace(here, table=replace(here.table, many_expert_rings=rings))
    for tokens, early in ((5, 2), (7, 2), (8, 1), (16, 1), (4, ring_of(product, on).early)):
        assert experts_module.ring_configuration_of(on, HALF, product, tokens).template["EARLY"] == early
    other = product._replace(group=128)
    assert experts_module.expert_ring_of(other, on, 5) == ring_of(other, on)


@pytest.mark.singles
@pytest.mark.parametrize(("group", "bits"), [(64, 4), (128, 4), (32, 8), (64, 8)])
@pytest.mark.parametrize("half", [HALF, hiprt.bfloat16])
@pytest.mark.parametrize(
    "ring", [Ring(2, 2, 1, 2, 1, 3), Ring(1, 1, 2, 2, 1, 2)], ids=["teams of two", "several rounds"]
)
def test_integer_instructions(close, normal, monkeypatch, half, group, bits, ring):
    """Tiles of a ring go over from one expert's matrix to the next; x is rounded to 16 bits for each scale."""
    monkeypatch.setattr(experts_module, "ring_of", lambda shape, target: ring)
    made = len(gate_up_module.RINGS.functions), len(down_module.RINGS.functions)
    with force_generic():
        # Shapes that no other test has: plans are remembered.
        for experts in (5, 2):
            columns, width = 20 + 8 * ring.split, 2048 // bits
            check_gate_up(close, normal, 1, 3, experts, columns, 2 * width, half, group, bits, steps=4096)
            check_down(close, normal, 1, 4, experts, 24 + 8 * ring.split, width, half, group, bits, steps=4096)
    assert len(gate_up_module.RINGS.functions) > made[0]
    assert len(down_module.RINGS.functions) > made[1]


@pytest.mark.parametrize("misleads", ["1", "(member % 2)", "(1 - member % 2)"], ids=["all", "odd", "even"])
@pytest.mark.parametrize(
    "ring",
    [Ring(2, 2, 1, 2, 1, 3), Ring(1, 2, 1, 1, 1, 3), Ring(1, 1, 2, 1, 2, 2)],
    ids=["teams of two", "one team", "several rounds"],
)
def test_a_wrong_guess_of_the_experts_is_corrected(normal, monkeypatch, ring, misleads):
    """A kernel, or some of its simdgroups, that reads other indices before its inputs are there has the same bits."""
    columns, width, chosen = 8 * 10, 512, 4
    monkeypatch.setattr(experts_module, "ring_of", lambda shape, target: ring)
    y, shares = hiprt.array(normal((1, chosen, width), HALF, 1)), hiprt.array(normal((1, chosen), HALF, 2))
    indices = hiprt.array(np.array([[4, 0, 2, 9]], np.int32))
    matrices = stack((5, columns, width), HALF, 64, 4)[0]
    wrong = copy(down_module.RINGS)
    wrong.functions = type(wrong.functions)()
    wrong.body = wrong.body.replace(MISLEADS, f"#define MISLEADS {misleads}")
    assert wrong.body != down_module.RINGS.body
    answers = []
    with force_generic():
        for kernel in (down_module.RINGS, wrong):
            monkeypatch.setattr(down_module, "RINGS", kernel)
            monkeypatch.setattr(down_module, "plan_of", Planned(down_module.plan_of.function))
            answers.append(kernels.moe_down(y, indices, shares, *matrices).numpy().tobytes())
            assert kernel.functions
    assert answers[0] == answers[1]
    terms = [
        values_of(*(part.numpy()[e] for part in matrices), 64, 4) @ y.numpy()[0, i] for i, e in enumerate((4, 0, 2))
    ]
    wanted = np.array(shares.numpy()[0, :3], float) @ np.array(terms, float)
    assert np.allclose(
        np.frombuffer(answers[0], HALF).astype(float), wanted, rtol=2**-8, atol=2**-8 * abs(wanted).max()
    )


def test_tokens_have_the_bits_that_each_has_alone(normal, monkeypatch):
    """With experts that several take, and one that does not exist."""
    tokens, experts, columns, width, half = 3, 4, 36, 768, hiprt.bfloat16
    monkeypatch.setattr(experts_module, "ring_of", lambda shape, target: Ring(2, 2, 1, 1, 1, 7))
    made = len(gate_up_module.RINGS.functions), len(down_module.RINGS.functions)
    indices = np.array([[0, 3], [3, 1], [7, 3]], np.int32)
    x, norm, shares = normal((tokens, 512), half, 1), hiprt.array(normal(512, half, 2)), normal((tokens, 2), half, 3)
    y, residual = normal((tokens, 2, width), half, 4), normal((tokens, 40), half, 5)
    up, down = stack((experts, 2 * columns, 512), half, 64, 4)[0], stack((experts, 40, width), half, 64, 4)[0]

    def both(rows):
        vectors, chosen, shared, products, added = (
            hiprt.array(np.ascontiguousarray(each[rows])) for each in (x, indices, shares, y, residual)
        )
        gated = kernels.moe_gate_up(vectors, chosen, *up, norm=norm)
        return gated.numpy(), kernels.moe_down(products, chosen, shared, *down, residual=added).numpy()

    with force_generic():
        together, alone = both(slice(None)), [both(slice(i, i + 1)) for i in range(tokens)]
    for i, each in enumerate(alone):
        assert [part[i : i + 1].tobytes() for part in together] == [part.tobytes() for part in each]
    assert not together[0][2, 0].any()
    assert len(gate_up_module.RINGS.functions) > made[0]
    assert len(down_module.RINGS.functions) > made[1]


@pytest.mark.singles
@pytest.mark.parametrize(("group", "bits"), [(64, 4), (128, 4), (32, 8), (64, 8), (64, 2), (128, 3), (32, 5), (64, 6)])
@pytest.mark.parametrize("half", [HALF, hiprt.bfloat16])
@pytest.mark.parametrize(
    "tiling", [Dots(4, 2, 2, 3), Dots(2, 1, 3, 2)], ids=["the last tile lies over the one before", "rounds"]
)
def test_integer_dot_instructions(close, normal, half, group, bits, tiling):
    """Tiles end with an expert's matrix; x is rounded to 15 bits for each piece."""
    with force_generic():
        for experts in (5, 2):
            width = 1024 // bits if bits in (4, 8) else 2 * group
            check_gate_up(close, normal, 1, 3, experts, 11, 2 * width, half, group, bits, steps=4096, tiling=tiling)
            check_down(close, normal, 1, 4, experts, 13, width, half, group, bits, steps=4096, tiling=tiling)


def test_dots_are_for_one_token_of_16_bits():
    """And a stack that offsets of 32 bits do not reach is left to another kernel."""
    on, product = make_target("gfx942", 304, 64, ROCM), Product(12288, 2048, 1, 64, 4, True)
    of = experts_module.dot_configuration_of
    assert of(on, HALF, product, 768, 128, None) is not None
    assert of(on, np.dtype(np.float32), product, 768, 128, None) is None
    assert of(on, HALF, product, 768, 1024, None) is None
    assert of(on, HALF, product, 3, 128, None) is None
    assert of(target("sm_90"), HALF, product, 768, 128, None) is None
    for dtype, columns, tiling in ((np.dtype(np.float32), 768, Dots(4, 1, 8, 1)), (HALF, 1, Dots(4, 1, 8, 1))):
        with pytest.raises(ValueError, match="does not fit"):
            of(on, dtype, product, columns, 128, tiling)
