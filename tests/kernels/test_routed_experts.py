"""routed_gate_up: the router, the choice and the first half of the experts in one kernel, and by three ops.

projected_gate_up: the product in front leaves the logits.
"""

from dataclasses import replace

import numpy as np
import pytest
from helpers.mixture_rings import both_rings

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
