"""qmv by rings: integer matrix instructions, imitated lane by lane, for one vector and for several with its bits."""

import ctypes
import mmap

import numpy as np
import pytest
from helpers.child import child
from helpers.quantized_products import FORMATS, H200, call, check, check_rows, operands, target, wide
from hypothesis import example, given, settings, strategies as st

import hiprt
from hiprt import kernels
from hiprt.graphs.launch.exec import Exec
from hiprt.graphs.record.recording import Recording
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.ops.quantized.product import rows_alike
from hiprt.kernels.ops.quantized.qmv_kernels import VECTOR_RING
from hiprt.kernels.ops.quantized.qmv_ways import chosen
from hiprt.kernels.tuning import target as target_module
from hiprt.kernels.tuning.rings import Ring, ring_configuration, ring_of, rings, shared_bytes
from hiprt.kernels.tuning.target import force_generic, target_of
from hiprt.kernels.tuning.tiling import Product
from hiprt.kernels.tuning.vector_rings import (
    VectorRing,
    shared_bytes as vector_ring_bytes,
    vector_ring_configuration,
    vector_ring_of,
)
from hiprt.provider import CPU


@pytest.mark.parametrize(("group", "bits"), [(64, 4), (128, 4), (32, 8), (64, 8), (128, 8)])
@pytest.mark.parametrize("half", [np.dtype(np.float16), hiprt.bfloat16])
@pytest.mark.parametrize(
    ("ring", "steps"),
    [
        (Ring(1, 3, 2, 2, 1, 4), 4),  # steps that are not there
        (Ring(2, 2, 4, 4, 1, 2), 4),  # two tiles on their way
        (Ring(3, 1, 3, 1, 0, 4), 6),  # twice round, several rounds of sums
        (Ring(2, 1, 1, 2, 1, 9), 2),
    ],
)
def test_integer_instructions(half, group, bits, ring, steps):
    with force_generic():
        for rows in (8, 40, 136):
            check(1, rows, steps * 1024 // bits, half, group, bits, tiling=ring)
            check(1, rows, steps * 1024 // bits, half, group, bits, tiling=ring, norm=True, residual=True, swiglu=True)


@pytest.mark.parametrize(("is_made", "edges"), [(False, 2), (True, 0)])
@pytest.mark.parametrize(
    ("batch", "ring"), [(1, Ring(1, 1, 1, 1, 1, 4)), (3, VectorRing(Ring(1, 1, 1, 1, 1, 4), 1, 1, 1, 1, 0, 4))]
)
def test_the_norm_is_read_before_the_inputs_are_there(batch, ring, is_made, edges):
    """A product starts early behind another one, with a norm or without, but not behind what makes its norm."""
    x, stored, options = operands(batch, 256, 256, hiprt.bfloat16, 64, 4, norm=True)
    x, norm, matrix = hiprt.array(x), hiprt.array(options["norm"]), [hiprt.array(part) for part in stored]
    recording, stream = Recording(edges="data"), hiprt.current_stream()
    with force_generic(), recording.record(stream):
        weights = kernels.add(norm, norm) if is_made else norm
        made = kernels.qmv(x, *matrix, norm=weights, tiling=ring)
        for more in () if is_made else ({"norm": norm}, {}):
            made = kernels.qmv(made, *matrix, **more, tiling=ring)
    assert Exec(recording, stream.device.index, overlap=True).overlaps == edges


FEW, TURNED, LONG = (  # steps that are not there; two pairs of tiles on their way; several rounds of sums, one helper
    (VectorRing(Ring(1, 3, 2, 2, 1, 4), 2, 2, 1, 1, 0, 3), 4),
    (VectorRing(Ring(2, 2, 4, 4, 1, 2), 1, 4, 2, 4, 3, 2), 4),
    (VectorRing(Ring(3, 1, 3, 1, 0, 4), 2, 2, 1, 0, 1, 9), 6),
)
BULK = FEW[0]._replace(copies=1), 4


@pytest.mark.parametrize(
    ("form", "group", "bits", "batch"),
    [
        (FEW, 64, 4, 3),
        (TURNED, 64, 8, 5),
        (FEW, 64, 4, 8),
        (BULK, 64, 8, 5),
        (BULK, 128, 4, 3),
        *(
            wide(form, *kind, batch)
            for form in (FEW, TURNED, LONG, BULK)
            for kind in FORMATS[1:]
            for batch in (2, 3, 8)
        ),
        *(wide(form, 64, 4, batch) for form in (TURNED, LONG) for batch in (2, 4, 5, 8)),
    ],
)
def test_several_vectors_have_the_bits_of_one(form, group, bits, batch):
    ring, steps = form
    everything = {"norm": True, "residual": True, "swiglu": True}
    with force_generic():
        given = steps * 1024 // bits, hiprt.bfloat16, group, bits, ring, ring.alone
        check_rows(batch, 136, *given, **everything)
        check_rows(batch, 40, *given, **everything)


def test_several_long_vectors_with_a_norm_have_the_bits_of_one():
    """33 steps, of which each simdgroup takes several."""
    ring = VectorRing(Ring(2, 3, 1, 1, 1, 4), 1, 2, 1, 1, 0, 1)
    with force_generic():
        check_rows(2, 16, 33 * 256, hiprt.bfloat16, 64, 4, ring, ring.alone, norm=True)


def product_of_codes_at_a_closed_page():
    rows, width, page = 24, 4 * 256, mmap.PAGESIZE
    length = rows * width // 2
    room = -(-length // page) * page
    pages = mmap.mmap(-1, room + page)
    end = ctypes.addressof(ctypes.c_char.from_buffer(pages)) + room
    nothing = 0  # PROT_NONE
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(end), ctypes.c_size_t(page), nothing) == 0
    codes = hiprt.wrap(end - length, (rows, width // 8), np.uint32)
    scales, x = hiprt.zeros((rows, width // 64), hiprt.bfloat16), hiprt.zeros((3, width), hiprt.bfloat16)
    ring = VectorRing(Ring(2, 3, 2, 1, 1, 1), 1, 3, 1, 1, 0, 1)
    with force_generic():
        found = [
            kernels.qmv(x, codes, scales, scales, group_size=64, bits=4, tiling=each)
            for each in (ring, ring._replace(teams=2))
        ]
    return [each.numpy().shape for each in found]


def test_what_lies_behind_the_codes_is_not_read():
    """Some simdgroups have no last step, the last pair of tiles has no second one, and there are two rounds or one."""
    assert child(product_of_codes_at_a_closed_page) == [[3, 24], [3, 24]]


def test_codes_are_asked_for_before_x_where_they_are_many():
    found = [vector_ring_of(Product(rows, 2560, 8, 64, 4, False), H200) for rows in (6400, 131072)]
    assert [ring.early for ring in found if ring] == [0, 1]


def test_several_vectors_have_the_bits_of_one_at_any_magnitude():
    x, stored, _ = operands(3, 16, 512, hiprt.bfloat16, 64, 4)
    x = (x.astype(np.float64) * np.array([[1e-38], [1e-3], [1e33]])).astype(x.dtype)
    x[:, 64:128] = (x[:, 64:128].astype(np.float64) * 1e-6).astype(x.dtype)
    x[:, 128:192] = 0
    x[1, 200] = np.nan
    ring = VectorRing(Ring(2, 1, 1, 1, 1, 4), 1, 1, 1, 1, 0, 1)
    with force_generic():
        got = call(x, stored, {}, 64, 4, tiling=ring, out_dtype=np.float32).numpy()
        alone = [call(x[i : i + 1], stored, {}, 64, 4, tiling=ring.alone, out_dtype=np.float32) for i in range(3)]
    np.testing.assert_array_equal(got, np.concatenate([each.numpy() for each in alone]))
    assert np.isnan(got).any(axis=1).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("ring", "steps"),
    [
        (VectorRing(Ring(2, 4, 1, 1, 1, 4), 2, 1, 2, 1, 1, 6, 2), 6),  # steps that are not there
        (VectorRing(Ring(1, 2, 2, 2, 1, 4), 3, 2, 1, 2, 0, 4, 2), 4),
        (VectorRing(Ring(2, 4, 1, 1, 1, 4), 2, 1, 2, 1, 1, 6, 1, 2), 6),
        (VectorRing(Ring(1, 2, 2, 2, 1, 4), 3, 2, 1, 2, 7, 4, 1, 2), 4),
        (VectorRing(Ring(1, 2, 2, 2, 1, 4), 1, 2, 1, 1, 3, 8, 1, 4), 4),
        (VectorRing(Ring(2, 4, 1, 1, 1, 4), 1, 1, 1, 1, 0, 12, 2, 2), 6),  # a round that some have no tiles for
        (VectorRing(Ring(1, 4, 1, 1, 1, 4), 1, 2, 1, 0, 2, 8, 4, 2), 4),
        # x by bulk copies: of whole vectors, of a few for each, and of runs of steps, some of which are not there
        (VectorRing(Ring(2, 2, 2, 1, 1, 4), 2, 2, 1, 1, 3, 4, 1, 1, 1), 7),
        (VectorRing(Ring(2, 4, 1, 1, 1, 4), 2, 1, 2, 1, 1, 6, 1, 2, 1), 6),
        (VectorRing(Ring(2, 4, 1, 1, 1, 4), 2, 1, 2, 1, 1, 6, 2, 1, 1), 6),
        (VectorRing(Ring(1, 4, 1, 1, 1, 4), 1, 2, 1, 0, 2, 8, 4, 2, 1), 6),
    ],
)
@pytest.mark.parametrize("batch", [3, 5, 8])
def test_threadgroups_of_a_cluster_have_the_bits_of_one(ring, steps, batch):
    """Two threadgroups share rows, or divide the vectors that they bring, on GPUs; other devices have no clusters."""
    if "bulk_copies" not in target_of(hiprt.current_stream()).features:
        ring = ring._replace(sharers=1, partners=1)
    elif (ring.partners - 1) * -(-batch // ring.partners) >= batch:
        pytest.skip("a partner would have no vector")
    with force_generic():
        given = steps * 256, hiprt.bfloat16, 64, 4, ring, ring.alone
        check_rows(batch, 136, *given, norm=True, swiglu=True)
        check_rows(batch, 272, *given, residual=True)


@pytest.mark.parametrize(
    "shape", [(6144, 2560), (2560, 9728), (4096, 12288), (1024, 3072), (1024, 2048), (4096, 2048), (19456, 2560)]
)
@pytest.mark.parametrize("batch", [2, 3, 4, 5, 6, 8])
def test_rows_of_a_gpu_have_the_bits_of_one(shape, batch):
    """On a GPU whose plans take vector rings this runs them at the sizes of models."""
    rows, width = shape
    here, half = target_of(hiprt.current_stream()), hiprt.bfloat16
    found = chosen(here, half, Product(rows, width, batch, 64, 4, False))
    if not isinstance(found, VectorRing):
        rows, width = 16, 256
    check_rows(batch, rows, width, half, 64, 4, None, None, norm=True)


@settings(max_examples=200, deadline=None)
@given(
    tiles=st.integers(1, 20000),
    steps=st.integers(1, 120),
    group=st.sampled_from((32, 64, 128)),
    bits=st.sampled_from((4, 8)),
)
def test_rings_fit(tiles, steps, group, bits):
    product = Product(8 * tiles, steps * 1024 // bits, 1, group, bits, False)
    ring = ring_of(product, H200)
    if ring is None:
        assert (group, bits) == (32, 4)
        return
    plan = ring_configuration(product, ring, H200)
    assert ring.teams * ring.split * 32 * (48 + 8 * ring.depth) <= 65536
    assert shared_bytes(named(group, bits, product.width, plan.template), H200) <= 227 << 10


@settings(max_examples=100, deadline=None)
@given(
    tiles=st.integers(1, 3000),
    groups=st.integers(17, 400),
    teams=st.integers(1, 12),
    turns=st.integers(1, 6),
    depth=st.sampled_from((1, 2, 4, 8, 16)),
    routers=st.sampled_from((0, 0, 1, 16)),
    sharers=st.sampled_from((1, 2, 4)),
)
def test_one_round_has_all_tiles(tiles, groups, teams, turns, depth, routers, sharers):
    """Where it is said, the threadgroup with the most tiles has no more than are put together at once."""
    product, at_once = Product(8 * tiles, 4096, 1, 64, 4, False), max(1, depth // 4)
    ring = Ring(teams, 4, depth, turns * at_once, 0, groups)
    plan = ring_configuration(product, ring, H200, routers=routers)
    most = -(-tiles // (plan.grid[0] - routers))
    assert plan.grid[0] == routers + min(groups - routers, tiles)
    assert plan.template["PER"] % at_once == 0
    assert plan.template["PER"] <= ring.per
    assert teams * (plan.template["PER"] - at_once) < most
    assert plan.template["ONE_ROUND"] == (most <= teams * plan.template["PER"]) == (most <= teams * ring.per)
    several = VectorRing(Ring(1, 4, 1, 1, 0, 1), min(teams, 4), 1, min(turns, 3), 0, 0, groups, sharers)
    if tiles >= sharers:
        plan = vector_ring_configuration(product._replace(width=1024, batch=2), several)
        most = -(-tiles // (plan.grid[0] // sharers))
        assert plan.template["ONE_ROUND"] == (most <= 2 * several.teams * several.per)


def named(group, bits, width, ring):
    """The template of a kernel of rings, by name."""
    return {"GROUP": group, "BITS": bits, "WIDTH": width, **ring}


def test_one_threadgroup_a_processor_takes_over_half_of_its_memory():
    product, half = Product(1024, 2560, 1, 64, 4, False), (228 << 10) // 2
    ring = next(rings(product, 132))
    one, three = (ring_configuration(product, ring._replace(groups=132 * k), H200).template for k in (1, 3))
    one, three = (named(64, 4, 2560, template) for template in (one, three))
    assert shared_bytes(one, H200) > half > shared_bytes(one, target("hiprt-cpu", CPU))
    assert shared_bytes(three, H200) < half


@settings(max_examples=100, deadline=None)
@given(
    tiles=st.integers(1, 20000),
    steps=st.integers(1, 120),
    form=st.sampled_from(((64, 4), (128, 4), (32, 8), (64, 8), (128, 8))),
    batch=st.integers(2, 8),
)
@example(tiles=640, steps=100, form=(64, 4), batch=6)
@example(tiles=640, steps=100, form=(64, 4), batch=8)
def test_vector_rings_fit(tiles, steps, form, batch):
    group, bits = form
    product = Product(8 * tiles, steps * 1024 // bits, batch, group, bits, False)
    found, alone = vector_ring_of(product, H200), ring_of(product._replace(batch=1), H200)
    if found is None:
        # A processor has no room for x, its sums, and the scales and the sums of rows of one pair of tiles.
        x = batch * 2 * product.width
        assert x + x * 4 // group > (200 << 10) - 8 * batch * alone.split * 32 - 128 * product.width // group
        return
    assert found.alone == alone
    plan = vector_ring_configuration(product, found)
    template = {"GROUP": group, "BITS": bits, "WIDTH": product.width, **plan.template, "GATED": False}
    squares = 4 * batch * alone.teams * alone.split
    assert plan.grid[0] % found.sharers == 0
    assert (228 << 10) // 2 < vector_ring_bytes(template, H200) + squares + 16 <= 227 << 10
    assert vector_ring_bytes(template, target("hiprt-cpu", CPU)) <= vector_ring_bytes(template, H200)


def test_measured_rings_fit():
    """Those of the table, each of which is taken; several vectors share rows as one does, and so have its bits."""
    table, half = H200.table, hiprt.bfloat16
    for shape, ring in table.rings.items():
        product = Product(*shape, 1, 64, 4, False)
        assert chosen(H200, half, product) == ring
        assert ring_configuration(product, ring, H200)
    for shape, ring in table.plain_rings.items():
        product = Product(*shape, 1, 64, 4, False)
        assert chosen(H200, half, product, is_normed=False) == ring != chosen(H200, half, product)
        assert ring_configuration(product, ring, H200)
    for (rows, width, batch), ring in table.vector_rings.items():
        product = Product(rows, width, batch, 64, 4, False)
        assert chosen(H200, half, product) == ring
        assert vector_ring_configuration(product, ring)
        assert ring.alone == table.rings[rows, width]
        assert chosen(H200, half, product._replace(bits=8)) != ring


# The kernel of several vectors up to where its threadgroup memory is laid out.
LAYOUT = Kernel(
    "vector_ring_layout",
    outputs={"out": "int"},
    template=VECTOR_RING.template,
    headers=VECTOR_RING.headers,
    threads=VECTOR_RING.threads,
    cluster=VECTOR_RING.cluster,
    shared=VECTOR_RING.shared,
    source=VECTOR_RING.source.split("const uint lane = ")[0]
    + """
if (thread_index_in_threadgroup == 0) {
  out[0] = int((threadgroup uchar*)(squares + VECTORS * STEPS) - (threadgroup uchar*)held);
  out[1] = int((threadgroup uchar*)stages - (threadgroup uchar*)held);
#if HIPRT_TARGET_NVIDIA
  out[1] = int(in_shared(stages));
#endif
}
""",
)


@pytest.mark.parametrize("batch", [2, 3, 5, 8])
@pytest.mark.parametrize(("group", "bits", "gated"), [(64, 4, True), (128, 4, False), (32, 8, False)])
@pytest.mark.parametrize(
    "ring",
    [
        VectorRing(Ring(1, 2, 2, 2, 1, 4), 3, 2, 1, 2, 0, 4),
        VectorRing(Ring(1, 1, 2, 2, 1, 4), 1, 1, 3, 0, 2, 4),
        VectorRing(Ring(2, 4, 1, 1, 1, 4), 2, 1, 2, 1, 1, 6, 2),
    ],
)
def test_threadgroup_memory_is_what_is_asked_for(ring, group, bits, gated, batch):
    """Codes lie on whole lines of it, of 128 bytes."""
    stream = hiprt.current_stream()
    here = target_of(stream)
    if "bulk_copies" not in here.features:
        ring = ring._replace(sharers=1)
    product = Product(136, 4 * 1024 // bits, batch, group, bits, gated)
    template = vector_ring_configuration(product, ring).template
    kinds = {"T": hiprt.bfloat16, "S": hiprt.bfloat16, "GROUP": group, "BITS": bits, "WIDTH": product.width}
    template = {**kinds, **template, "NORMED": True, "ADDED": False, "GATED": gated}
    out = hiprt.zeros(2, np.int32)
    threads = LAYOUT.threads_of(LAYOUT.values_of(template)), 1, 1
    Launch(LAYOUT, (ring.sharers, 1, 1), threads, template)(stream, out=out)
    used, stages = out.numpy().tolist()
    assert used <= vector_ring_bytes(template, here)
    assert used == vector_ring_bytes(template, here) or "bulk_copies" in here.features
    assert stages % 128 == 0


def test_vector_rings_are_refused_where_they_do_not_fit():
    product = Product(64, 1024, 3, 64, 4, False)
    fit = VectorRing(Ring(1, 2, 1, 1, 1, 4), 1, 2, 1, 1, 0, 4)
    assert vector_ring_configuration(product, fit).threads == (64, 1, 1)
    assert vector_ring_configuration(product, fit._replace(helpers=3)).threads == (160, 1, 1)
    assert vector_ring_configuration(product, fit._replace(teams=2, groups=5, sharers=2)).grid == (4, 1, 1)
    assert vector_ring_configuration(product, fit._replace(teams=2, sharers=2)).threads == (64, 1, 1)
    wrong = {
        "depth": (0, 60),
        "per": (0,),
        "early": (3,),
        "helpers": (23,),
        "teams": (0, 13),
        "sharers": (3, 4),
        "partners": (3, 4),
        "copies": (-1, 2),
    }
    for name, value in ((name, value) for name, values in wrong.items() for value in values):
        with pytest.raises(ValueError, match="does not fit"):
            vector_ring_configuration(product, fit._replace(**{name: value}))
    for unfit in ({"batch": 1}, {"batch": 9}, {"rows": 12}, {"group": 32}, {"width": 65536}):
        with pytest.raises(ValueError, match="does not fit"):
            vector_ring_configuration(product._replace(**unfit), fit)


def test_how_many_rows_are_alike(monkeypatch):
    """As many as the plans of the target multiply with the bits of one, by its processors' room for x and for codes."""
    stream = hiprt.current_stream()
    half, codes = hiprt.bfloat16, {"group_size": 64, "bits": 4}
    monkeypatch.setitem(target_module.targets, stream.device.index, H200)
    few, most = hiprt.empty((8, 25600 // 8), np.uint32), hiprt.empty((16, 2560 // 8), np.uint32)
    assert [rows_alike(w, half, **codes, stream=stream) for w in (few, most)] == [2, 8]
    assert rows_alike(most, half, **codes, swiglu=True) == 8
    assert rows_alike(most, np.dtype(np.float32), **codes) == rows_alike(most, half, group_size=32, bits=4) == 1
