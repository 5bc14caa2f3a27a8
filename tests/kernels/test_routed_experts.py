"""routed_gate_up: the router, the choice and the first half of the experts in one kernel, in two, and by three ops.

projected_gate_up: the product in front leaves the logits.
"""

from dataclasses import replace

import numpy as np
import pytest
from helpers.mixture_rings import both_rings, rings_of_several

import hiprt
from hiprt import kernels
from hiprt.graphs import Step
from hiprt.kernels.ops.arrivals import arrivals
from hiprt.kernels.ops.experts import projected, routed
from hiprt.kernels.ops.quantized.product import product
from hiprt.kernels.ops.quantized.reference import weights as values_of
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.reference.quantize import quantize
from hiprt.kernels.tuning.rings import Ring, routed_ring_of
from hiprt.kernels.tuning.target import force_generic, make_target, target_of
from hiprt.kernels.tuning.tiling import Product
from hiprt.provider import NVIDIA

HALF = np.dtype(np.float16)
EXPERTS, CHOSEN, WIDTH, COLUMNS = 37, 4, 1024, 64
INNER = 512  # the width of the product in front


def coded(rows, dtype, bits, seed, like=()):
    """A quantised matrix and its exact values; the rows that `like` names are all the first of them."""
    flat = (np.random.default_rng(seed).normal(size=(rows, WIDTH)) * WIDTH**-0.5).astype(dtype)
    flat[list(like)] = flat[list(like[:1])]
    parts = quantize(flat, 64, bits)
    packed, scales, biases = parts
    return parts, values_of(packed, np.array(scales), np.array(biases), 64, bits)


def operands(dtype, shared, seed=0, experts=EXPERTS, like=(30, 11, 5, 21)):
    """Operands of which four experts have the same logit, the largest; and what float64 makes of them."""
    random = np.random.default_rng(seed)
    norm = random.uniform(0.5, 1.5, WIDTH).astype(dtype)
    router, routes = coded(experts + shared, dtype, 8, seed + 1, like=like)
    x = (routes[30] / norm.astype(np.float64) * 9).astype(dtype)[None]
    stack, values = coded((experts + shared) * 2 * COLUMNS, dtype, 4, seed + 2)
    logits = reference.rms_norm(x, norm, 1e-6) @ routes.T
    indices, shares = reference.moe_route(logits, CHOSEN, True, shared)
    values = values.reshape(-1, 2 * COLUMNS, WIDTH)
    inner = reference.moe_gate_up(x, indices, values, norm)
    largest = (np.abs(reference.rms_norm(x, norm, 1e-6)) @ np.abs(values).transpose(0, 2, 1)).max()
    given = [hiprt.array(part) for part in (x, *router)]
    given += [hiprt.array(part.reshape(experts + shared, 2 * COLUMNS, -1)) for part in stack]
    options = {"k": CHOSEN, "norm": hiprt.array(norm), "shared": shared}
    return given, options, (inner, indices, shares, largest * (largest + 1))


@pytest.mark.parametrize(
    ("dtype", "shared", "ring", "routers"),
    [(HALF, False, Ring(2, 2, 1, 1, 0, 7), 3), (hiprt.bfloat16, True, Ring(3, 1, 2, 2, 0, 5), 2)],
)
def test_one_kernel_routes(close, monkeypatch, dtype, shared, ring, routers):
    """Of equal logits the lower expert comes first; words that threadgroups share are zero again."""
    monkeypatch.setattr(routed, "routed_ring_of", lambda whole, target, has: (ring, routers))
    given, options, (inner, indices, shares, magnitude) = operands(dtype, shared)
    made, stream = len(routed.ROUTED.functions), hiprt.Stream()
    with force_generic():
        results = [routed.routed_gate_up(*given, **options, stream=stream) for _ in range(2)]
        step = Step(lambda: routed.routed_gate_up(*given, **options), stream=stream)
        with hiprt.use_stream(stream):
            results += [step(), step()]
    assert len(routed.ROUTED.functions) == made + 1
    assert not arrivals(stream).numpy().any()
    assert indices[0, :CHOSEN].tolist() == [5, 11, 21, 30]
    for got, chosen, weights in results:
        assert chosen.numpy().tolist() == indices.tolist()
        close(weights, shares, magnitude=1.0)
        close(got, inner, magnitude=magnitude, steps=4096)
        assert [part.numpy().tobytes() for part in (got, chosen, weights)] == [
            part.numpy().tobytes() for part in results[0]
        ]


def test_shares_of_all_experts(monkeypatch):
    """Shares that are not normalised are those of the softmax over all experts."""
    monkeypatch.setattr(routed, "routed_ring_of", lambda whole, target, has: (Ring(2, 1, 1, 1, 0, 6), 2))
    given, options, _ = operands(hiprt.bfloat16, True, seed=5)
    logits = product(*given[:4], group_size=64, bits=8, norm=options["norm"])
    indices, shares = kernels.moe_route(logits, CHOSEN, normalize=False, shared=True)
    with force_generic():
        _, chosen, weights = routed.routed_gate_up(*given, **options, normalize=False)
    assert chosen.numpy().tolist() == indices.numpy().tolist()
    assert np.allclose(weights.numpy().astype(float), shares.numpy().astype(float), rtol=2**-6)


def test_other_operands_go_by_three_ops(monkeypatch):
    """Several tokens, and one that no ring serves, have the bits of the ops."""
    for dtype, tokens, ring in ((HALF, 2, (Ring(2, 1, 1, 1, 0, 6), 2)), (HALF, 1, None)):
        monkeypatch.setattr(routed, "routed_ring_of", lambda *_, ring=ring: ring)
        given, options, _ = operands(dtype, False, seed=9)
        x = hiprt.array(np.repeat(given[0].numpy(), tokens, axis=0))
        made = len(routed.ROUTED.functions)
        got, chosen, weights = routed.routed_gate_up(x, *given[1:], **options)
        logits = product(x, *given[1:4], group_size=64, bits=8, norm=options["norm"])
        indices, shares = kernels.moe_route(logits, CHOSEN)
        inner = kernels.moe_gate_up(x, indices, *given[4:], norm=options["norm"])
        for one, other in ((got, inner), (chosen, indices), (weights, shares)):
            assert one.numpy().tobytes() == other.numpy().tobytes()
        assert len(routed.ROUTED.functions) == made


def test_rings_of_routed_experts():
    """Every processor of an H200 has one threadgroup, and no team takes three tiles of the presets' mixtures."""
    target = make_target("sm_90", 132, 32, NVIDIA)
    for rows in (8 * 2 * 768, 9 * 2 * 512):
        whole = Product(rows, 2048, 1, 64, 4, True)
        found = routed_ring_of(whole, target)
        assert found is not None
        ring, routers = found
        assert ring.groups == 132
        assert 2 * ring.teams * (ring.groups - routers) >= whole.tiles
        ring, routers = routed_ring_of(whole, target, has_logits=True)
        assert routers == 0
        assert 2 * ring.teams * ring.groups >= whole.tiles
        assert routed_ring_of(whole, make_target("sm_80", 132, 32, NVIDIA)) is None
        other = ring._replace(teams=3)
        measured = replace(target, table=replace(target.table, routed_rings={(rows, 2048): other}))
        assert routed_ring_of(whole, measured, has_logits=True) == (other, 0)
        for unlike in (whole._replace(width=4096), whole._replace(group=128), whole._replace(bits=8)):
            assert routed_ring_of(unlike, measured, has_logits=True) == routed_ring_of(unlike, target, has_logits=True)
        assert routed_ring_of(whole, measured) == found


def projection(dtype, wanted, seed):
    """A vector, its coded matrix, what is added so that the sum is as wanted, and the exact sum."""
    random = np.random.default_rng(seed)
    y = random.normal(size=(1, INNER)).astype(dtype)
    parts = quantize((random.normal(size=(WIDTH, INNER)) * INNER**-0.5).astype(dtype), 64, 4)
    made = y.astype(np.float64) @ values_of(parts[0], *map(np.array, parts[1:]), 64, 4).T
    residual = (wanted.astype(np.float64) - made).astype(dtype)
    return [hiprt.array(y), tuple(map(hiprt.array, parts)), hiprt.array(residual)], made + residual.astype(np.float64)


def matrices_of(out, given, norm):
    """The router, the same folded with the matrix in front of it, and the stack."""
    router = tuple(given[:3])
    return router, projected.folded_router(router, out, norm=norm), tuple(given[3:])


@pytest.mark.parametrize(
    ("dtype", "shared", "out", "ring"),
    [
        (HALF, False, Ring(2, 1, 1, 1, 0, 64), Ring(2, 2, 1, 1, 0, 7)),
        (hiprt.bfloat16, True, Ring(3, 2, 2, 2, 1, 43), Ring(3, 1, 2, 2, 0, 5)),
        (HALF, True, Ring(1, 1, 2, 1, 2, 16), Ring(2, 2, 1, 1, 0, 7)),
        (HALF, False, Ring(3, 8, 1, 1, 1, 43), Ring(2, 2, 1, 1, 0, 7)),
    ],
)
def test_a_product_leaves_logits(close, monkeypatch, dtype, shared, out, ring):
    """Of equal logits the lower expert comes first; the sums that threadgroups share are zero again."""
    both_rings(monkeypatch, out, ring)
    (x, *given), options, _ = operands(dtype, shared)
    first, exact = projection(dtype, x.numpy(), 3)
    stream, matrices = hiprt.Stream(), matrices_of(first[1], given, options["norm"])

    def run():
        return projected.projected_gate_up(*first, *matrices, **options)

    made = len(projected.PROJECTED.functions)
    with force_generic(), hiprt.use_stream(stream):
        step = Step(run, stream=stream)
        results = [run(), run(), step(), step()]
    assert len(projected.PROJECTED.functions) == made + 1
    assert not arrivals(stream).numpy().any()
    got = results[0]
    close(got[0], exact, magnitude=np.abs(exact).max() + 8, steps=4096)
    with force_generic():
        inner, indices, shares = routed.routed_gate_up(got[0], *given, **options)
    assert got[2].numpy().tolist() == indices.numpy().tolist()
    assert sorted(got[2].numpy()[0, :CHOSEN]) == [5, 11, 21, 30]
    assert np.allclose(got[3].numpy().astype(float), shares.numpy().astype(float), rtol=2**-6)
    assert got[1].numpy().tobytes() == inner.numpy().tobytes()
    for other in results:
        assert [part.numpy().tobytes() for part in other] == [part.numpy().tobytes() for part in got]


def test_a_folded_router():
    """It is the router weighed by the norm, times the matrix in front of it, and the weighed router itself."""
    _, options, _ = operands(HALF, True, seed=7)
    router, routes = coded(EXPERTS + 1, HALF, 8, 8)
    first, _ = projection(HALF, np.zeros((1, WIDTH)), 9)
    folded = projected.folded_router(tuple(map(hiprt.array, router)), first[1], norm=options["norm"])
    weighed = routes * options["norm"].numpy().astype(np.float64)
    packed, *parts = (part.numpy() for part in first[1])
    exact = np.concatenate([weighed @ values_of(packed, *parts, 64, 4), weighed], 1)
    assert folded.shape == (EXPERTS + 1, INNER + WIDTH)
    assert np.allclose(folded.numpy().astype(np.float64), exact, rtol=2**-9, atol=2**-9 * np.abs(weighed).max())


@pytest.mark.parametrize("outlier", [1, 100])
def test_a_folded_router_chooses_as_well_as_the_ops(outlier):
    """About as many of 500 tokens get the experts that float64 gives them, also where a few elements are far larger."""
    random, tokens, experts = np.random.default_rng(17), 500, 64
    router, routes = coded(experts, hiprt.bfloat16, 8, 18)
    norm, residual = random.uniform(0.5, 1.5, WIDTH), 2 * random.normal(size=(tokens, WIDTH))
    residual[:, :4] *= outlier
    norm[:4] /= outlier
    norm, residual = norm.astype(hiprt.bfloat16), residual.astype(hiprt.bfloat16)
    (_, out, _), _ = projection(hiprt.bfloat16, np.zeros((1, WIDTH)), 19)
    packed, *parts = (part.numpy() for part in out)
    y = random.normal(size=(tokens, INNER)).astype(hiprt.bfloat16)
    x = y.astype(np.float64) @ values_of(packed, *parts, 64, 4).T + residual.astype(np.float64)

    def chosen(logits):
        return np.sort(reference.moe_route(logits.astype(np.float64), CHOSEN, True, False)[0])

    exact = chosen(reference.rms_norm(x, norm, 1e-6) @ routes.T)
    matrix = tuple(map(hiprt.array, router))
    folded = projected.folded_router(matrix, out, norm=hiprt.array(norm)).numpy().astype(np.float64)
    by_folded = np.concatenate([y, residual], 1).astype(np.float64) @ folded.T
    made = product(hiprt.array(y), *out, group_size=64, bits=4, residual=hiprt.array(residual))
    by_ops = product(made, *matrix, group_size=64, bits=8, norm=hiprt.array(norm)).numpy()
    shares = [(chosen(each) == exact).all(1).mean() for each in (by_folded.astype(hiprt.bfloat16), by_ops)]
    assert min(shares) > 0.9
    assert shares[0] > shares[1] - 0.03


def test_logits_do_not_depend_on_the_ring(monkeypatch):
    """Whatever threadgroups the product has, experts and shares have the same bits."""
    (x, *given), options, _ = operands(hiprt.bfloat16, True, seed=11)
    first, _ = projection(hiprt.bfloat16, x.numpy(), 12)
    matrices, found = matrices_of(first[1], given, options["norm"]), []
    for out in (Ring(2, 1, 1, 1, 0, 64), Ring(3, 1, 2, 2, 1, 43), Ring(5, 1, 2, 1, 0, 16)):
        both_rings(monkeypatch, out, Ring(2, 2, 1, 1, 0, 7))
        with force_generic():
            results = projected.projected_gate_up(*first, *matrices, **options)
        found.append([part.numpy().tobytes() for part in results])
    assert found[1:] == found[:-1]


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(("experts", "groups"), [(EXPERTS, 9), (150, 7)])
def test_shares_by_a_product(monkeypatch, experts, groups, normalize):
    """They are those of the softmax of logits times the norm's factor, over all experts or those that are chosen."""
    both_rings(monkeypatch, Ring(3, 1, 2, 1, 0, 43), Ring(2, 2, 1, 1, 0, groups))
    (x, *given), options, _ = operands(hiprt.bfloat16, True, seed=13, experts=experts, like=())
    x = hiprt.array(np.random.default_rng(16).normal(scale=3, size=x.shape).astype(hiprt.bfloat16))
    first, exact = projection(hiprt.bfloat16, x.numpy(), 14)
    with force_generic():
        matrices = matrices_of(first[1], given, options["norm"])
        got = projected.projected_gate_up(*first, *matrices, **options, normalize=normalize)
    inner = kernels.moe_gate_up(got[0], got[2], *given[3:], norm=options["norm"]).numpy().astype(float)
    routes = values_of(*(part.numpy() for part in given[:3]), 64, 8)
    logits = reference.rms_norm(exact, options["norm"].numpy(), 1e-6) @ routes.T
    indices, shares = reference.moe_route(logits, CHOSEN, normalize, True)
    assert got[2].numpy().tolist() == indices.tolist()
    assert np.ptp(shares[0, :CHOSEN]) > 0.1 * shares[0, 0]
    assert np.allclose(got[3].numpy().astype(float), shares, rtol=2**-5)
    assert np.allclose(got[1].numpy().astype(float), inner, rtol=2**-6, atol=2**-8 * np.abs(inner).max())


def test_experts_exist_without_logits(monkeypatch):
    """A kernel that finds no logits, as one that is timed by itself, takes the first experts."""
    both_rings(monkeypatch, Ring(2, 1, 1, 1, 0, 64), Ring(2, 2, 1, 1, 0, 7))
    (x, *given), options, _ = operands(HALF, True, seed=15)
    routes, stream = (CHOSEN, True, True, 64, 8), hiprt.Stream()
    with force_generic(), hiprt.use_stream(stream):
        found = routed.routed_of(x, *given, options["norm"], 1e-6, *routes, 64, 4, target_of(stream), True)
        inner, places, _ = found.run(stream, x, tuple(given[:3]), tuple(given[3:]), options["norm"])
        assert places.numpy().tolist() == [[*range(CHOSEN), EXPERTS]]
        assert np.isfinite(inner.numpy().astype(float)).all()
    assert not arrivals(stream).numpy().any()


def test_an_interrupt_between_the_two_kernels_leaves_zeros(monkeypatch):
    """The logits of the first one are not added to those of the next token."""

    def interrupt(*given):
        raise KeyboardInterrupt

    both_rings(monkeypatch, Ring(2, 1, 1, 1, 0, 64), Ring(2, 2, 1, 1, 0, 7))
    monkeypatch.setattr(routed.Routed, "run", interrupt)
    (x, *given), options, _ = operands(HALF, False, seed=3)
    first, _ = projection(HALF, x.numpy(), 4)
    stream, matrices = hiprt.Stream(), matrices_of(first[1], given, options["norm"])
    with force_generic(), hiprt.use_stream(stream), pytest.raises(KeyboardInterrupt):
        projected.projected_gate_up(*first, *matrices, **options)
    assert not arrivals(stream).numpy().any()


@pytest.mark.parametrize(("width", "bits", "is_taken"), [(512, 4, True), (192, 4, False), (512, 6, False)])
def test_products_that_are_not_whole_go_by_other_kernels(monkeypatch, width, bits, is_taken):
    """A row of the product in front has whole steps of codes of 4 or 8 bits; the folded router has all rows."""
    monkeypatch.setattr(projected, "ring_of", lambda whole, target, is_normed: Ring(2, 1, 1, 1, 0, 16))
    shapes = (1, width), (WIDTH, width * bits // 32), (WIDTH, width // 64), (WIDTH, width // 64), (1, WIDTH)
    router = (EXPERTS, width + WIDTH)
    forms = [hiprt.empty(shape, np.uint32 if i == 1 else HALF).form for i, shape in enumerate((*shapes, router))]
    target = make_target("sm_90", 132, 32, NVIDIA)
    assert (projected.projected_of(*forms, EXPERTS, 64, bits, target) is not None) == is_taken
    assert projected.projected_of(*forms, EXPERTS + 1, 64, bits, target) is None


def bits_of(results):
    """The results as bytes."""
    return [part.numpy().tobytes() for part in results]


def several(dtype, shared, tokens, seed):
    """Operands of several tokens, with a router without equal rows."""
    (_, *given), options, _ = operands(dtype, shared, seed=seed, like=())
    x = np.random.default_rng(seed + 3).normal(size=(tokens, WIDTH)).astype(dtype)
    return [hiprt.array(x), *given], options


@pytest.mark.parametrize(
    ("tokens", "dtype", "shared", "normalize", "ring"),
    [
        (2, HALF, False, True, Ring(2, 2, 2, 1, 1, 12)),
        (5, hiprt.bfloat16, True, False, Ring(2, 2, 2, 1, 0, 12)),
        (5, HALF, True, True, Ring(3, 1, 2, 2, 2, 10)),
        (16, hiprt.bfloat16, False, False, Ring(2, 2, 1, 1, 1, 7)),
    ],
)
def test_one_kernel_chooses_for_several_tokens(monkeypatch, tokens, dtype, shared, normalize, ring):
    """Experts are those of `moe_route`, shares too but for a rounding; products have the bits of `moe_gate_up`."""
    rings_of_several(monkeypatch, ring)
    given, options = several(dtype, shared, tokens, 21)
    made, stream = len(routed.CHOOSING.functions), hiprt.Stream()

    def run():
        return routed.routed_gate_up(*given, **options, normalize=normalize)

    with force_generic(), hiprt.use_stream(stream):
        step = Step(run, stream=stream)
        results = [run(), step(), step()]
        logits = product(*given[:4], group_size=64, bits=8, norm=options["norm"])
        indices, shares = kernels.moe_route(logits, CHOSEN, normalize=normalize, shared=shared)
        inner = kernels.moe_gate_up(given[0], indices, *given[4:], norm=options["norm"])
    assert len(routed.CHOOSING.functions) == made + 1
    assert not arrivals(stream).numpy().any()
    got, chosen, weights = results[0]
    assert chosen.numpy().tolist() == indices.numpy().tolist()
    assert len({tuple(row) for row in chosen.numpy().tolist()}) == tokens
    rounding = 2**-10 if dtype == HALF else 2**-7
    assert np.allclose(weights.numpy().astype(float), shares.numpy().astype(float), rtol=rounding)
    assert got.numpy().tobytes() == inner.numpy().tobytes()
    assert all(bits_of(each) == bits_of(results[0]) for each in results)


@pytest.mark.parametrize("dtype", [HALF, hiprt.bfloat16])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
def test_logits_that_are_equal_or_no_numbers(monkeypatch, dtype, shared, normalize):
    """Of equal ones the lower expert comes first, also of infinite ones; those that are no numbers are the largest."""
    rings_of_several(monkeypatch, Ring(2, 2, 1, 1, 0, 12))
    random, inf, nan = np.random.default_rng(31), np.inf, np.nan
    rows = np.round(random.normal(size=(10, EXPERTS + shared)))  # rounded, so that many are equal
    rows[1] = 0.25
    rows[2, :] = -inf
    rows[2, [35, 9]] = 1, 2
    rows[3] = -inf
    rows[4, [3, 33]] = inf
    rows[5, [36, 7, 20]] = nan, -nan, nan
    rows[6] = nan
    rows[7] = np.where(random.random(EXPERTS + shared) < 0.5, 0.0, -0.0)
    rows[8, [36, 2, 34, 1, 33]] = 9  # the last of them is not taken
    logits = hiprt.array(rows.astype(dtype))
    (x, *_, w, scales, biases), options = several(dtype, shared, len(rows), 25)
    routes, norm = (CHOSEN, normalize, shared), options["norm"]
    with force_generic():
        stream = hiprt.current_stream()
        planned = routed.chosen_of(x, logits, w, scales, biases, norm, 1e-6, *routes, 64, 4, target_of(stream))
        _, places, portions = planned.results(stream, x, (w, scales, biases), norm, logits=logits)
        indices, shares = kernels.moe_route(logits, CHOSEN, normalize=normalize, shared=shared)
    places = places.numpy()
    assert places.tolist() == indices.numpy().tolist()
    assert places[5, :3].tolist() == [7, 20, 36]
    assert places[6, :CHOSEN].tolist() == [0, 1, 2, 3]
    assert places[1, :CHOSEN].tolist() == [0, 1, 2, 3]
    assert places[2, :CHOSEN].tolist() == [9, 35, 0, 1]
    assert places[8, :CHOSEN].tolist() == [1, 2, 33, 34]
    portions, shares = portions.numpy().astype(float), shares.numpy().astype(float)
    assert np.isfinite(shares[[0, 1, 2, 7, 8, 9]]).all()
    assert np.allclose(portions, shares, rtol=2**-7, equal_nan=True)
    assert np.isnan(portions[[5, 6], :CHOSEN]).all()


def planned_for(
    tokens=4, experts=64, shared=False, k=8, columns=512, width=2048, dtype=HALF, changed=(), bits=4, group=64
):
    """Whether a kernel chooses experts for tokens of such sizes; `changed` are arrays by names."""
    matrices = experts + shared
    arrays = {
        "x": hiprt.empty((tokens, width), dtype),
        "logits": hiprt.empty((tokens, matrices), dtype),
        "w": hiprt.empty((matrices, 2 * columns, width * bits // 32), np.uint32),
        "scales": hiprt.empty((matrices, 2 * columns, width // group), dtype),
        "biases": hiprt.empty((matrices, 2 * columns, width // group), dtype),
        "norm": hiprt.empty((width,), dtype),
        **dict(changed),
    }
    x, logits, *others = (each.form for each in arrays.values())
    target, choice = make_target("sm_90", 132, 32, NVIDIA), (1e-6, k, True, shared)
    if tokens == 1:
        shapes = ((width // 4, np.uint32), (width // 64, dtype), (width // 64, dtype))
        router = [hiprt.empty((matrices, size), kind).form for size, kind in shapes]
        return routed.routed_of(x, *router, *others, *choice, 64, 8, group, bits, target) is not None
    return routed.chosen_of(x, logits, *others, *choice, group, bits, target) is not None


def test_operands_by_which_one_kernel_chooses_for_several_tokens():
    """Others go by the ops: each of these differs in one thing from what is taken."""
    single, single_norm = np.dtype(np.float32), hiprt.empty((2048,), np.float32)
    assert planned_for()
    assert planned_for(tokens=16, shared=True, bits=8)
    assert planned_for(k=32)
    assert planned_for(shared=True, k=31)
    assert planned_for(columns=8, width=512, experts=504)
    assert not planned_for(tokens=17)
    assert not planned_for(k=33)
    assert not planned_for(shared=True, k=32)
    assert not planned_for(k=0)
    assert not planned_for(experts=8, k=9)
    assert not planned_for(columns=8, width=512, experts=505)
    assert not planned_for(columns=510)
    assert not planned_for(columns=0)
    assert not planned_for(width=14848, columns=8)
    assert planned_for(width=14336, columns=8)
    assert not planned_for(bits=6)
    assert not planned_for(width=1536, group=96)
    assert not planned_for(dtype=single)
    assert not planned_for(changed=[("norm", single_norm)])
    assert not planned_for(changed=[("logits", hiprt.empty((4, 64), single))])
    assert not planned_for(changed=[("logits", hiprt.empty((4, 65), HALF))])
    assert not planned_for(changed=[("logits", hiprt.empty((3, 64), HALF))])
    assert not planned_for(changed=[("logits", hiprt.empty((64, 4), HALF).T)])
    assert not planned_for(changed=[("x", hiprt.empty((2048, 4), HALF).T)])
    assert not planned_for(changed=[("x", hiprt.empty((1, 4, 2048), HALF))])
    assert not planned_for(changed=[("x", hiprt.empty(4 * 2048 + 1, HALF)[1:].reshape(4, 2048))])
    assert not planned_for(changed=[("w", hiprt.empty((64 * 1024, 256), np.uint32))])
    assert not planned_for(changed=[("w", hiprt.empty((64, 1024, 255), np.uint32))])
    assert not planned_for(changed=[("w", hiprt.empty((64, 1024, 256), np.int32))])
    assert not planned_for(changed=[("scales", hiprt.empty((64, 1024, 16), HALF))])
    assert not planned_for(changed=[("biases", hiprt.empty((63, 1024, 32), HALF))])


def test_operands_by_which_one_kernel_routes_one_token():
    """Its formats and sizes; several tokens are not among them, nor one among those whose logits are given."""
    assert planned_for(tokens=1)
    assert planned_for(tokens=1, shared=True, k=31, bits=8)
    for other in ({"bits": 6}, {"width": 1536, "group": 96}, {"columns": 510}, {"columns": 0}, {"width": 1792}):
        assert not planned_for(tokens=1, **other)
    assert not planned_for(tokens=1, dtype=np.dtype(np.float32))
    assert not planned_for(tokens=1, changed=[("x", hiprt.empty((2, 2048), HALF))])
    assert not planned_for(changed=[("x", hiprt.empty((1, 2048), HALF)), ("logits", hiprt.empty((1, 64), HALF))])


@pytest.mark.parametrize(
    ("place", "part", "options"),
    [
        (0, lambda x: x.reshape(1, 3, WIDTH), {}),
        (0, lambda x: hiprt.array(np.ascontiguousarray(x.numpy().T)).T, {}),
        (0, lambda x: hiprt.array(x.numpy().astype(np.float32)), {}),
        (1, lambda router: router[:, :-1], {}),
        (4, lambda w: w.reshape(-1, WIDTH // 8), {}),
        (4, lambda w: w[:, :-1], {}),
        (5, lambda scales: hiprt.array(scales.numpy()[:, :, :-1]), {}),
        (6, lambda biases: hiprt.array(biases.numpy().astype(np.float32)), {}),
        (None, None, {"k": 0}),
        (None, None, {"k": EXPERTS + 1}),
        (None, None, {"bits": 7}),
        (None, None, {"group_size": 96}),
        (None, None, {"norm": hiprt.empty((WIDTH - 1,), HALF)}),
    ],
)
def test_what_the_ops_refuse_of_several_tokens(monkeypatch, place, part, options):
    """It raises what they raise, with rings that would serve."""
    rings_of_several(monkeypatch, Ring(2, 2, 2, 1, 0, 12))
    given, usual = several(HALF, False, 3, 41)
    if part is not None:
        given[place] = part(given[place])
    taken = {**usual, **options}
    made, told = len(routed.CHOOSING.functions), []
    with force_generic():
        for chosen_of in (routed.chosen_of, lambda *_: None):
            monkeypatch.setattr(routed, "chosen_of", chosen_of)
            with pytest.raises((TypeError, ValueError)) as error:
                routed.routed_gate_up(*given, **taken)
            told.append((error.type, str(error.value)))
    assert told[0] == told[1]
    assert len(routed.CHOOSING.functions) == made


@pytest.mark.parametrize("tokens", [3, 17])
def test_several_tokens_whose_operands_do_not_fit_go_by_the_ops(monkeypatch, tokens):
    """More than the table has, or a stack of fewer matrices than the router has rows."""
    rings_of_several(monkeypatch, Ring(2, 2, 2, 1, 0, 12))
    given, options = several(HALF, False, tokens, 43)
    if tokens == 3:
        given[4:] = [hiprt.array(part.numpy()[:-9]) for part in given[4:]]
    made, found = len(routed.CHOOSING.functions), []
    with force_generic():
        for chosen_of in (routed.chosen_of, lambda *_: None):
            monkeypatch.setattr(routed, "chosen_of", chosen_of)
            found.append(bits_of(routed.routed_gate_up(*given, **options)))
    assert found[0] == found[1]
    assert len(routed.CHOOSING.functions) == made
