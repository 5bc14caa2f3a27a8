"""qmv: the kernel of each target, and matrix instructions imitated lane by lane, against float64."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from helpers.quantized_products import FORMATS, H200, call, check, operands, target
from hypothesis import HealthCheck, example, given, settings, strategies as st

import hiprt
from hiprt import kernels
from hiprt.flags import flags
from hiprt.graphs import Step
from hiprt.kernels.ops.arrivals import arrivals
from hiprt.kernels.ops.quantized.product import product
from hiprt.kernels.ops.quantized.qmv_ways import chosen
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.reference.quantize import pack
from hiprt.kernels.tuning import stages as stages_module, target as target_module
from hiprt.kernels.tuning.blocks import Blocks, blocks_configuration
from hiprt.kernels.tuning.dots import Dots, dots_configuration, dots_of
from hiprt.kernels.tuning.rings import Ring, ring_configuration, ring_of
from hiprt.kernels.tuning.stages import Stages, stages_configuration, stages_of
from hiprt.kernels.tuning.target import force_generic, make_target, target_of
from hiprt.kernels.tuning.tiling import Product, Tiling, tensor_configuration, tiling_of
from hiprt.kernels.tuning.vector_rings import VectorRing
from hiprt.provider import ROCM

OTHERS = [(group, bits) for bits in (2, 3, 5, 6) for group in (32, 64, 128)]  # whose codes cross words, or are small


@pytest.mark.parametrize(("group", "bits"), FORMATS)
@pytest.mark.parametrize(("batch", "rows", "groups"), [(1, 1, 1), (3, 35, 3), (8, 10, 2)])
def test_matches_the_reference(branch, dtype, group, bits, batch, rows, groups):
    check(batch, rows, groups * group, dtype, group, bits)


@pytest.mark.singles
@pytest.mark.parametrize(("group", "bits"), OTHERS)
def test_codes_of_other_bits(branch, dtype, group, bits):
    check(1, 11, 3 * group, dtype, group, bits)
    check(3, 22, 5 * group, dtype, group, bits, norm=True, residual=True, swiglu=True)
    check(8, 35, group, dtype, group, bits)


@pytest.mark.parametrize("batch", [1, 2, 5])
@pytest.mark.parametrize(("norm", "residual", "swiglu"), [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)])
def test_what_is_fused(branch, dtype, batch, norm, residual, swiglu):
    check(batch, 38, 192, dtype, 64, 4, norm=bool(norm), residual=bool(residual), swiglu=bool(swiglu))


@pytest.mark.parametrize(("group", "bits"), FORMATS)
@pytest.mark.parametrize(
    ("half", "batch", "tiling"), [(np.dtype(np.float16), 1, Tiling(1, 2, 1)), (hiprt.bfloat16, 3, Tiling(2, 2, 2))]
)
def test_matrix_instructions(half, group, bits, batch, tiling):
    with force_generic():
        check(batch, 24, 6144 // bits, half, group, bits, tiling=tiling)
        check(batch, 24, 2048 // bits, half, group, bits, tiling=tiling, norm=True, residual=True, swiglu=True)


@pytest.mark.singles
@pytest.mark.parametrize("group", [32, 64, 128])
@pytest.mark.parametrize("half", [np.dtype(np.float16), hiprt.bfloat16])
@pytest.mark.parametrize(
    ("form", "steps"),
    [
        (Stages(1, 1, 2, 2), 3),
        (Stages(1, 3, 1), 4),  # steps that are not there
        (Stages(2, 2, 3), 4),
        (Stages(3, 1, 4, 2), 1),
    ],
)
def test_stages(half, group, form, steps):
    with force_generic():
        for batch, rows in ((2, 16), (8, 40), (5, 134)):
            check(batch, rows, steps * 256, half, group, 4, tiling=form)
            check(batch, rows, steps * 256, half, group, 4, tiling=form, norm=True, residual=True, swiglu=True)


@pytest.mark.singles
@pytest.mark.parametrize(("group", "bits"), FORMATS + OTHERS)
@pytest.mark.parametrize("half", [np.dtype(np.float16), hiprt.bfloat16])
@pytest.mark.parametrize(
    ("sharing", "width"),
    [
        (Dots(4, 1, 2, 3), 128),
        (Dots(2, 2, 2, 1), 1152),  # pieces that are not there
        (Dots(4, 4, 1, 2), 640),  # simdgroups that have nothing of the width
        (Dots(2, 1, 3, 2), 2048),
    ],
)
def test_integer_dot_instructions(half, group, bits, sharing, width):
    with force_generic():
        check(1, 11, width, half, group, bits, tiling=sharing)
        check(1, 22, width, half, group, bits, tiling=sharing, norm=True, residual=True, swiglu=True)


@pytest.mark.singles
@pytest.mark.parametrize("bits", [4, 8, 2, 3, 5, 6])
@pytest.mark.parametrize(
    ("batch", "sharing"),
    [
        (3, Dots(4, 1, 2, 3, vectors=2)),  # one of them is in both threadgroups
        (8, Dots(2, 2, 2, 1, vectors=8)),
        (5, Dots(1, 4, 1, 2, vectors=5)),  # simdgroups that have nothing of the width
    ],
)
def test_dots_of_several_vectors_have_the_bits_of_each(batch, sharing, bits):
    parts = {"norm": True, "residual": True, "swiglu": sharing.rows > 1}
    x, stored, options = operands(batch, 22, 640, hiprt.bfloat16, 64, bits, **parts)
    with force_generic():
        check(batch, 22, 640, hiprt.bfloat16, 64, bits, tiling=sharing, **parts)
        together = call(x, stored, options, 64, bits, tiling=sharing).numpy()
        for v in range(batch):
            given = options | {"residual": options["residual"][v : v + 1]}
            alone = call(x[v : v + 1], stored, given, 64, bits, tiling=sharing._replace(vectors=1))
            assert together[v].tobytes() == alone.numpy().tobytes()


@pytest.mark.singles
@pytest.mark.parametrize("bits", [4, 8, 3, 5])
@pytest.mark.parametrize(
    ("batch", "sharing"),
    [
        (3, Dots(4, 1, 2, 1, vectors=3, held=32, kept_rounds=2)),  # the last two of six tiles are there once more
        (4, Dots(2, 2, 2, 1, vectors=4, held=64, kept_rounds=4)),  # parts of a step each
        (5, Dots(2, 8, 1, 2, vectors=3, held=128)),  # parts of half a step, some vectors in two threadgroups
        (2, Dots(4, 16, 1, 2, vectors=2, held=64)),  # of an eighth
        (1, Dots(4, 1, 2, 2, held=96, kept_rounds=2)),  # lanes have two steps on their way, of three
    ],
)
def test_x_in_parts_has_the_bits_of_x_at_once(batch, sharing, bits):
    """Lanes add up their pieces in the same order; of a norm the squares are added up as well as without parts."""
    parts, rows, width = {"norm": True, "residual": True, "swiglu": True}, 46, 5280
    x, stored, options = operands(batch, rows, width, hiprt.bfloat16, 32, bits, **parts)
    with force_generic():
        check(batch, rows, width, hiprt.bfloat16, 32, bits, tiling=sharing, **parts)
        together = call(x, stored, options, 32, bits, tiling=sharing).numpy()
        single = sharing._replace(vectors=1, held=0, kept_rounds=1)
        for v in range(batch):
            given = options | {"residual": options["residual"][v : v + 1]}
            alone = call(x[v : v + 1], stored, given, 32, bits, tiling=single)
            assert together[v].tobytes() == alone.numpy().tobytes()


@pytest.mark.parametrize("bits", [4, 8, 2, 3, 5, 6])
def test_two_planes_are_activations_of_8_bits(bits):
    """The error is what rounding to 127 parts, or 119, of the largest of each piece explains."""
    x, stored, _ = operands(1, 64, 1024, hiprt.bfloat16, 64, bits)
    exact = reference.qmv(x, stored, 64, bits)
    errors = []
    for planes in (2, 4):
        with force_generic():
            got = call(x, stored, {}, 64, bits, tiling=Dots(4, 1, 4, 2, planes), out_dtype=np.float32).numpy()
        errors.append(np.abs(got - exact).max() / np.abs(exact).max())
    assert errors[1] < 2e-5 < 1e-3 < errors[0] < 2e-2


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("place", "bits"), [(0, 4), (37, 2), (127, 6)])
def test_dots_pass_on_what_is_not_finite(wrong, place, bits):
    x, stored, _ = operands(1, 6, 128, hiprt.bfloat16, 64, bits)
    x[0, place] = wrong
    with force_generic():
        assert np.isnan(call(x, stored, {}, 64, bits, tiling=Dots(2, 1, 2, 2)).numpy().astype(np.float32)).all()


def test_dots_are_for_devices_that_have_them():
    half, product = np.dtype(np.float16), Product(4096, 2560, 1, 64, 4, False)
    amd = make_target("gfx942", 304, 64, ROCM)
    assert isinstance(chosen(amd, half, product), Dots)
    assert chosen(amd, np.dtype(np.float32), product) is None
    assert chosen(make_target("gfx900", 64, 64, ROCM), half, product) is None
    assert chosen(amd, half, product._replace(batch=4)).vectors == 4
    for wide in ({"width": 65536}, {"width": 16384, "batch": 3}):
        assert dots_of(product._replace(**wide), amd).held
    for unfit in ({"rows": 1 << 22, "width": 16384}, {"rows": 1, "is_gated": True}):
        assert dots_of(product._replace(**unfit), amd) is None
    with flags.override(qmv_planes="2"):
        assert dots_of(product, amd).planes == 2
    for bits in (2, 3, 5, 6):
        other = product._replace(bits=bits)
        assert isinstance(chosen(amd, half, other), Dots)
        assert isinstance(chosen(amd, half, other._replace(batch=5)), Dots)
        assert chosen(H200, half, other) is chosen(target("hiprt-cpu"), half, other) is None
    for unfit in (Dots(1, 1, 8, 4), Dots(3, 1, 8, 4), Dots(4, 2, 20, 4), Dots(4, 1, 8, 4, 3), Dots(4, 1, 8, 0)):
        with pytest.raises(ValueError, match="does not fit"):
            dots_configuration(product._replace(is_gated=True), unfit)


@pytest.mark.parametrize(
    ("half", "group", "bits", "batch", "sharing"),
    [
        (hiprt.bfloat16, 64, 4, 16, Blocks(1, 2, 2)),
        (np.dtype(np.float16), 32, 4, 9, Blocks(2, 1, 1)),
        (hiprt.bfloat16, 128, 8, 5, Blocks(2, 4, 1)),  # steps that are not there
        (np.dtype(np.float16), 64, 8, 13, Blocks(1, 1, 2)),
        (hiprt.bfloat16, 64, 4, 16, Blocks(1, 2, 1, 3)),  # threadgroups that share the width
        (np.dtype(np.float16), 32, 8, 7, Blocks(2, 1, 2, 4)),
    ],
)
def test_blocks(half, group, bits, batch, sharing):
    """The last block of rows is not whole; there are fewer vectors than a block has."""
    parts = {"norm": True, "residual": True, "swiglu": sharing.blocks > 1}
    with force_generic():
        check(batch, 38, 384, half, group, bits, tiling=sharing)
        check(batch, 22, 128, half, group, bits, tiling=sharing, **parts)


def test_blocks_pass_on_what_is_not_finite():
    x, stored, _ = operands(6, 17, 128, hiprt.bfloat16, 64, 4)
    x[2, 77] = np.inf
    with force_generic():
        got = call(x, stored, {}, 64, 4, tiling=Blocks(1, 1)).numpy().astype(np.float32)
    assert np.isfinite(got).all(1).tolist() == [True, True, False, True, True, True]


def test_blocks_that_share_the_width_have_the_same_bits_again():
    """They add up in the order of their numbers, whichever is the last; their counters are zeros again behind it."""
    x, stored, _ = operands(16, 70, 384, hiprt.bfloat16, 64, 4)
    with force_generic():
        arrays, stream = [hiprt.array(each) for each in (x, *stored)], hiprt.current_stream()
        step = Step(partial(kernels.qmv, *arrays, tiling=Blocks(1, 2, 1, 3)))
        results = {kernels.qmv(*arrays, tiling=Blocks(1, 2, 1, 3)).numpy().tobytes() for _ in range(4)}
        assert {step().numpy().tobytes() for _ in range(3)} | results == results
        assert len(results) == 1
        assert step.nodes == 1
        assert not arrivals(stream).numpy().any()


def test_blocks_are_for_several_vectors_on_devices_that_have_them():
    half, product = np.dtype(np.float16), Product(4096, 2560, 5, 64, 4, False)
    amd = make_target("gfx942", 304, 64, ROCM)
    for batch in (5, 16):
        assert isinstance(chosen(amd, half, product._replace(batch=batch)), Blocks)
    assert isinstance(chosen(amd, half, product._replace(batch=4)), Dots)
    assert chosen(amd, np.dtype(np.float32), product) is None
    assert isinstance(chosen(make_target("gfx906", 60, 64, ROCM), half, product), Dots)
    for unfit in (Blocks(1, 4), Blocks(8, 1), Blocks(2, 32), Blocks(2, 0), Blocks(2, 1, 3), Blocks(2, 1, 1, 5)):
        with pytest.raises(ValueError, match="does not fit"):
            blocks_configuration(product._replace(is_gated=True), unfit)
    with pytest.raises(ValueError, match="does not fit"):
        blocks_configuration(product._replace(batch=17), Blocks(2, 4))


def test_sixteen_vectors_are_one_launch(monkeypatch):
    """Where matrix instructions take them, with all that a layer does before and after."""
    half, parts = hiprt.bfloat16, {"norm": True, "residual": True, "swiglu": True}
    x, stored, options = operands(16, 22, 128, half, 64, 4, **parts)
    with force_generic():
        here = target_of(hiprt.current_stream())
        some = replace(here, features=here.features | {"blocks"})
        monkeypatch.setitem(target_module.targets, hiprt.current_device().index, some)
        arrays = {name: hiprt.array(each) for name, each in options.items() if isinstance(each, np.ndarray)}
        step = Step(partial(product, *map(hiprt.array, (x, *stored)), group_size=64, bits=4, swiglu=True, **arrays))
        got = step()
        assert step.nodes == 1
        check(16, 22, 128, half, 64, 4, tiling=Blocks(2, 16), **parts)
        with pytest.raises(ValueError, match="at most 16 vectors"):
            call(np.concatenate([x, x]), stored, {}, 64, 4)
    exact = reference.qmv(x, stored, 64, 4, **options)
    assert np.abs(got.numpy().astype(np.float64) - exact).max() <= 2.0**-5 * np.abs(exact).max()


@pytest.mark.parametrize("tiling", [Tiling(2, 1, 2, 2), Tiling(1, 1, 1, 3), Tiling(3, 1, 4, 2)])
@pytest.mark.parametrize("swiglu", [False, True])
def test_simdgroups_that_take_several_rounds(tiling, swiglu):
    with force_generic():
        for rows in (24, 40, 46):
            check(1, rows, 1024, hiprt.bfloat16, 64, 4, tiling=tiling, norm=True, residual=True, swiglu=swiglu)


@pytest.mark.parametrize(("norm", "residual", "swiglu"), [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)])
def test_more_vectors_by_eights(monkeypatch, norm, residual, swiglu):
    """Where the target reads the matrix several times, the bits are those of 8 vectors at a time; more are ops."""
    here = target_of(hiprt.current_stream())
    device, some = hiprt.current_device().index, replace(here, table=replace(here.table, vector_rows=19))
    monkeypatch.setitem(target_module.targets, device, some)
    half = np.dtype(np.float16)
    parts = {"norm": norm, "residual": residual, "swiglu": swiglu}
    for rows, launches in ((9, 2), (16, 2), (19, 3), (20, None)):
        x, stored, options = operands(rows, 6, 128, half, 64, 4, **parts)
        arrays = {name: hiprt.array(each) for name, each in options.items() if isinstance(each, np.ndarray)}
        inputs = map(hiprt.array, (x, *stored))
        step = Step(partial(product, *inputs, group_size=64, bits=4, swiglu=bool(swiglu), **arrays))
        made = step().numpy()
        if launches is None:
            np.testing.assert_allclose(made, reference.qmv(x, stored, 64, 4, **options), rtol=0.05, atol=0.05)
            continue
        assert step.nodes == launches
        for start in range(0, rows, 8):
            some_rows = slice(start, start + 8)
            given = options | ({"residual": options["residual"][some_rows]} if residual else {})
            assert made[some_rows].tobytes() == call(x[some_rows], stored, given, 64, 4).numpy().tobytes()


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e4, 1e30])
@pytest.mark.parametrize(
    ("tiling", "bound"), [(Tiling(2, 1, 2), 2e-6), (Ring(2, 1, 1, 1, 1, 4), 4e-5), (Dots(4, 1, 2, 2), 4e-5)]
)
def test_matrix_instructions_of_any_magnitude(scale, tiling, bound):
    x, stored, _ = operands(1, 16, 512, hiprt.bfloat16, 64, 4)
    x = (x.astype(np.float64) * scale).astype(x.dtype)
    x[0, 64:128] = (x[0, 64:128].astype(np.float64) * 1e-6).astype(x.dtype)
    x[0, 128:192] = 0
    with force_generic():
        got = call(x, stored, {}, 64, 4, tiling=tiling, out_dtype=np.float32).numpy()
    exact = reference.qmv(x, stored, 64, 4)
    assert np.abs(got - exact).max() <= bound * np.abs(exact).max()


def test_matrix_instructions_in_more_than_one_phase():
    with force_generic():
        check(8, 8, 256 * 11, hiprt.bfloat16, 64, 4, tiling=Tiling(4, 2, 2), norm=True)


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
def test_every_code_counts_in_matrix_instructions(bits):
    """Codes that do not divide a word have no matrix instructions, but those of dot products."""
    width = 1024 // bits if bits in (4, 8) else 256
    for place in (0, 1, 7, 8, 31, 33, 100):
        codes = np.zeros((2**bits, width), np.uint8)
        codes[:, place] = np.arange(2**bits)
        x = np.zeros((1, width), np.float16)
        x[0, place] = 1
        ones, zeros = np.ones((2**bits, width // 64), np.float16), np.zeros((2**bits, width // 64), np.float16)
        of_matrices = (Tiling(2, 1, 1), Ring(2, 1, 1, 1, 1, 4)) if bits in (4, 8) else ()
        for tiling in (Dots(2, 1, 2, 3), *of_matrices):
            with force_generic():
                got = call(x, (pack(codes, bits), ones, zeros), {}, 64, bits, tiling=tiling)
            assert got.numpy().astype(int).tolist() == [list(range(2**bits))]


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batch=st.integers(1, 8), pairs=st.integers(1, 60), groups=st.integers(1, 9), parts=st.tuples(*[st.booleans()] * 3)
)
def test_any_shape(branch, dtype, batch, pairs, groups, parts):
    norm, residual, swiglu = parts
    check(batch, 2 * pairs, 32 * groups, dtype, 32, 4, norm=norm, residual=residual, swiglu=swiglu, seed=pairs)


def test_no_vectors_and_no_rows(branch, dtype):
    x, stored, _ = operands(1, 4, 64, dtype, 64, 4)
    x, packed, scales, biases = map(hiprt.array, (x, *stored))
    assert kernels.qmv(hiprt.empty((0, 64), dtype), packed, scales, biases).shape == (0, 4)
    assert kernels.qmv(x, packed[:0], scales[:0], biases[:0]).shape == (1, 0)


def test_result_in_float32(branch, dtype):
    x, stored, options = operands(2, 6, 64, dtype, 64, 4)
    got = call(x, stored, options, 64, 4, out_dtype=np.float32)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got.numpy(), reference.qmv(x, stored, 64, 4), atol=1e-5)


def test_graph_equals_eager(branch, dtype):
    x, stored, options = operands(2, 12, 128, dtype, 64, 4, norm=True, swiglu=True)
    given, norm = [hiprt.array(v) for v in (x, *stored)], hiprt.array(options["norm"])
    step = Step(lambda: kernels.qmv(*given, norm=norm, swiglu=True))
    eager = step.eager().numpy()
    for _ in range(3):
        np.testing.assert_array_equal(step().numpy(), eager)


@pytest.mark.parametrize("batch", [1, 2, 4, 8])
@pytest.mark.parametrize(
    ("rows", "width"), [(4096, 1024), (1024, 3072), (6144, 1024), (19456, 2560), (151936, 1024), (8192, 8192), (8, 256)]
)
def test_tilings_fit(batch, rows, width):
    product = Product(rows, width, batch, 64, 4, False)
    plan = tensor_configuration(product, tiling_of(product, H200))
    tiles, split, *_ = tiling_of(product, H200)
    assert plan.threads == (32 * tiles * split, 1, 1)
    ring = ring_of(product, H200)
    assert (ring is None) == (batch > 1)
    assert ring is None or ring_configuration(product, ring, H200).threads == (32 * ring.teams * ring.split, 1, 1)


@given(
    tiles=st.integers(1, 4000),
    steps=st.integers(1, 100),
    group=st.sampled_from((32, 64, 128)),
    is_normed=st.booleans(),
)
@example(tiles=1, steps=47, group=32, is_normed=True)
def test_stages_fit(tiles, steps, group, is_normed):
    product = Product(16 * tiles, steps * 256, 8, group, 4, False)
    found = stages_of(product, is_normed, H200)
    if found is None:
        # A processor has no room for x, a norm's weights, the sums of x's groups and one tile of 16 rows.
        room = (224 << 10) - 8 * 2 * product.width - is_normed * 2 * product.width
        assert room < product.width // group * 32 + 16 * 256 // 2 + 16 * 256 // group * 4 + 512
        return
    plan = stages_configuration(product, found, is_normed)
    template = {"GROUP": group, "WIDTH": product.width, **plan.template, "NORMED": is_normed}
    assert stages_module.shared_bytes(template, H200) + 4 * 8 * plan.threads[0] // 32 + 64 <= 227 << 10
    assert plan.grid[0] * found.teams * found.turns >= tiles


def test_stages_are_refused_where_they_do_not_fit():
    product = Product(64, 1024, 8, 64, 4, False)
    for found in (Stages(1, 2, 1, 2), Stages(5, 5, 1), Stages(0, 1, 1), Stages(4, 6, 6)):
        with pytest.raises(ValueError, match="does not fit"):
            stages_configuration(product._replace(width=8192), found, True)
    for unfit in ({"bits": 8}, {"batch": 1}, {"width": 1152}):
        with pytest.raises(ValueError, match="does not fit"):
            stages_configuration(product._replace(**unfit), Stages(1, 1, 1), True)
        assert stages_of(product._replace(**unfit), True, H200) is None


def test_bulk_copies_are_for_devices_that_have_them():
    half, product = np.dtype(np.float16), Product(4096, 2560, 1, 64, 4, False)
    assert isinstance(chosen(H200, half, product), Ring)
    assert isinstance(chosen(target("sm_80"), half, product), Tiling)
    for bits in (4, 8):
        assert isinstance(chosen(H200, half, product._replace(batch=2, bits=bits)), VectorRing)
    assert isinstance(chosen(H200, half, product._replace(batch=2, group=32)), Stages)
    for batch, bits, kind in ((8, 4, VectorRing), (8, 8, VectorRing), (4, 4, Tiling)):
        rows, width = (4096, 2560) if batch == 8 else (8, 25600)  # the second has no room for the first kernel
        one = product._replace(rows=rows, width=width, batch=batch, bits=bits)
        assert isinstance(chosen(H200, half, one), kind)
    for arch, dtype in (("hiprt-cpu", half), ("sm_90", np.dtype(np.float32))):
        assert chosen(target(arch), dtype, product) is None


def test_mistakes_are_named():
    x, stored, _ = operands(2, 6, 64, np.dtype(np.float16), 64, 4)
    x, *stored = map(hiprt.array, (x, *stored))
    six, ring = (np.dtype(np.float16), 64, 6), Ring(2, 1, 1, 1, 1, 4)
    for error, message, wrong in [
        (ValueError, "at most 8 vectors", lambda: kernels.qmv(hiprt.zeros((9, 64), np.float16), *stored)),
        (ValueError, "at most 8 vectors", lambda: kernels.qmv(hiprt.zeros((1, 128), np.float16), *stored)),
        (TypeError, "must be the same", lambda: kernels.qmv(hiprt.zeros((1, 64), np.float32), *stored)),
        (ValueError, "incompatible", lambda: kernels.qmv(x, *stored, bits=2, group_size=32)),
        (ValueError, "number of bits 7", lambda: kernels.qmv(x, *stored, bits=7)),
        (ValueError, "a matrix is needed", lambda: kernels.qmv(x, *(part[None] for part in stored))),
        (
            ValueError,
            "does not fit codes of 6 bits",
            lambda: call(*operands(1, 8, 512, *six)[:2], {}, 64, 6, tiling=ring),
        ),
        (ValueError, "norm has shape", lambda: kernels.qmv(x, *stored, norm=x)),
        (ValueError, "residual has shape", lambda: kernels.qmv(x, *stored, residual=x)),
        (TypeError, "out_dtype", lambda: kernels.qmv(x, *stored, out_dtype=np.int32)),
        (ValueError, "not a gate", lambda: kernels.qmv(x, *(part[:5] for part in stored), swiglu=True)),
        (ValueError, "multiple of 16", lambda: kernels.qmv(hiprt.zeros(65, np.float16)[1:].reshape(1, 64), *stored)),
    ]:
        with pytest.raises(error, match=message):
            wrong()
