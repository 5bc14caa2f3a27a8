"""product_argmax: the product's bits and the places of argmax, found by the product's kernel or by another one."""

from functools import partial

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.graphs import Step
from hiprt.graphs.launch.exec import Exec
from hiprt.graphs.record.recording import Recording
from hiprt.kernels.ops.arrivals import arrivals
from hiprt.kernels.ops.quantized import product_argmax as module
from hiprt.kernels.ops.quantized.product import product
from hiprt.kernels.ops.quantized.product_argmax import PLACED, SEVERAL_PLACED, product_argmax
from hiprt.kernels.reference.quantize import quantize
from hiprt.kernels.tuning.rings import Ring, ring_of
from hiprt.kernels.tuning.target import force_generic, make_target, target_of
from hiprt.kernels.tuning.tiling import Product
from hiprt.kernels.tuning.vector_rings import VectorRing, vector_ring_of
from hiprt.objects import Planned
from hiprt.provider import NVIDIA

HALF = np.dtype(np.float16)
WIDTH = 512
RINGS = [
    Ring(1, 2, 1, 1, 1, 5),
    Ring(2, 1, 2, 2, 1, 3),  # several rounds of sums
    Ring(3, 1, 1, 1, 0, 17),  # a tile for each threadgroup
    Ring(1, 1, 2, 1, 2, 1),  # no threadgroup leaves a word
    Ring(1, 1, 1, 1, 0, 41),  # more threadgroups than threads
]
VECTOR_RINGS = [
    (2, VectorRing(Ring(1, 2, 1, 1, 1, 5), 1, 1, 1, 1, 0, 5)),  # several rounds of sums, a simdgroup for each vector
    (3, VectorRing(Ring(2, 1, 2, 2, 1, 3), 2, 2, 2, 1, 5, 3)),  # a simdgroup without results
    (5, VectorRing(Ring(3, 1, 1, 1, 0, 17), 3, 1, 1, 0, 8, 17)),
    (8, VectorRing(Ring(1, 2, 2, 1, 2, 1), 4, 2, 1, 2, 8, 1)),  # no threadgroup leaves a word
    (8, VectorRing(Ring(1, 1, 1, 1, 0, 41), 1, 1, 1, 0, 7, 41)),  # more threadgroups than threads of a vector
    (4, VectorRing(Ring(1, 2, 1, 1, 1, 5), 2, 2, 1, 1, 1, 5, 1, 2, 1)),  # threadgroups that divide the vectors
]


def operands(rows, dtype, seed, group=64, bits=4, norm=False, batch=1):
    """A vector or several, a coded matrix, and the options of a product."""
    random = np.random.default_rng(seed)
    flat = (random.normal(size=(rows, WIDTH)) * WIDTH**-0.5).astype(dtype)
    given = [
        hiprt.array(part) for part in (random.normal(size=(batch, WIDTH)).astype(dtype), *quantize(flat, group, bits))
    ]
    options = {"group_size": group, "bits": bits}
    if norm:
        options |= {"norm": hiprt.array(random.uniform(0.5, 1.5, WIDTH).astype(dtype)), "eps": 1e-5}
    return given, options


def constant_rows(values, dtype, factors=(1,)):
    """Operands whose results are the given values, each vector's by a factor.

    Every scale is 0 and every bias a value, of vectors that have one number.
    """
    values = np.asarray(values, np.float32)
    x = np.zeros((len(factors), WIDTH), dtype)
    x[:, 0] = factors
    packed = np.zeros((len(values), WIDTH // 8), np.uint32)
    scales, biases = np.zeros((len(values), WIDTH // 64), dtype), np.zeros((len(values), WIDTH // 64), dtype)
    biases[:, 0] = values.astype(dtype)
    return [hiprt.array(part) for part in (x, packed, scales, biases)], {"group_size": 64, "bits": 4}


def serve(monkeypatch, ring):
    """Let the kernel serve, with this ring; plans of another one are not remembered."""
    monkeypatch.setattr(module, "chosen", lambda *_: ring)
    monkeypatch.setattr(module, "launch_of", Planned(module.launch_of.function))


@pytest.fixture(params=[*((1, ring) for ring in RINGS), *VECTOR_RINGS], ids=str)
def shared(request, monkeypatch):
    """The vectors of a product, and the ring that shares it out, of both ways."""
    batch, ring = request.param
    if batch > 1 and "bulk_copies" not in target_of(hiprt.current_stream()).features:
        ring = ring._replace(partners=1)  # there are no clusters
    serve(monkeypatch, ring)
    return batch, ring


def check(given, options, ring, stream=None):
    """Compare with the two ops; return the places."""
    stream = stream or hiprt.current_stream()
    before = stream.launches
    with force_generic():
        got, places = product_argmax(*given, **options, stream=stream)
        assert stream.launches == before + 1
        exact = kernels.qmv(*given, **options, tiling=ring, stream=stream)
        largest = kernels.argmax(exact, stream=stream)
    assert (got.dtype, got.shape, places.dtype) == (exact.dtype, exact.shape, np.int32)
    assert got.numpy(stream).tobytes() == exact.numpy(stream).tobytes()
    assert places.numpy(stream).tolist() == largest.numpy(stream).tolist()
    assert not arrivals(stream).numpy().any()
    return places.numpy(stream).tolist()


@pytest.mark.parametrize("dtype", [HALF, hiprt.bfloat16], ids=str)
@pytest.mark.parametrize(("group", "bits", "norm"), [(64, 4, True), (128, 4, False), (32, 8, False), (64, 8, True)])
def test_has_the_bits_of_both_ops(shared, dtype, group, bits, norm):
    batch, ring = shared
    for seed, rows in enumerate((136, 40, 328)):
        check(*operands(rows, dtype, seed, group, bits, norm, batch), ring)


def test_any_number_of_rows(shared):
    """Threadgroups have one tile more than others, or there are fewer tiles than threadgroups."""
    batch, ring = shared
    for seed, tiles in enumerate((2, *np.random.default_rng(batch).integers(3, 64, 8).tolist())):
        check(*operands(8 * tiles, hiprt.bfloat16, seed, norm=True, batch=batch), ring)


@pytest.mark.parametrize("dtype", [HALF, hiprt.bfloat16], ids=str)
def test_the_rules_of_argmax(shared, dtype):
    """Ties in one threadgroup and in several, NaN, infinities; each launch finds the words cleared."""
    inf, nan, rows = np.inf, np.nan, 328
    batch, ring = shared
    factors = np.array([1, -1, 0.5, -4, 2, 0, -0.5, 1], np.float32)[:batch]
    cases = [
        ({}, -3.0, 0),
        ({135: 2.0}, -3.0, 135),
        ({9: 1.0, 8: 1.0, 12: 1.0}, 0.5, 8),
        ({130: 1.0, 57: 1.0, 100: 1.0}, 0.5, 57),
        ({271: 1.0, 8: 1.0, 264: 1.0}, 0.5, 8),
        ({200: -1.0, 41: -1.0, 300: 2.0, 100: 2.0}, 0.5, 100),
        ({327: 1.0}, 0.5, 327),
        ({20: inf, 120: inf}, 3.0, 20),
        ({7: inf, 133: nan}, 0.0, 133),
        ({90: -nan, 33: nan, 34: inf}, 0.0, 33),
        ({}, -inf, 0),
        ({64: -1.0}, -inf, 64),
        ({}, nan, 0),
    ]
    for found, others, place in cases:
        values = np.full(rows, others, np.float32)
        values[list(found)] = list(found.values())
        with np.errstate(invalid="ignore"):
            places = (factors[:, None] * values).argmax(axis=1).tolist()
        assert places[0] == place
        assert check(*constant_rows(values, dtype, factors), ring) == places


def test_zeros_of_both_signs_are_equal(shared):
    batch, ring = shared
    values = np.full(136, -1.0)
    values[[40, 41, 99]] = -6e-8, 0.0, 0.0
    (x, *matrix), options = constant_rows(values, HALF, (1,) * batch)
    given = [hiprt.array(x.numpy() * HALF.type(2.0**-10)), *matrix]
    assert check(given, options, ring) == [40] * batch
    with force_generic():
        zeros = product_argmax(*given, **options)[0].numpy()[:, [40, 41]]
    assert np.signbit(zeros).tolist() == [[True, False]] * batch


def test_only_rounded_results_are_compared(shared):
    """Values that are different in float32 and the same in float16."""
    batch, ring = shared
    (x, *matrix), options = constant_rows(np.full(136, 1.0), HALF, (1,) * batch)
    biases = matrix[2].numpy()
    biases[100, 1] = 2.0**-14
    x = x.numpy()
    x[:, 64] = 1
    assert check([hiprt.array(x), *matrix[:2], hiprt.array(biases)], options, ring) == [0] * batch


def test_a_graph_is_replayed(shared):
    """A step takes its tokens from the step before, as a decoder's does."""
    batch, ring = shared
    given, options = operands(136, HALF, 7, norm=True)
    rows = hiprt.array(np.random.default_rng(8).normal(size=(136, WIDTH)).astype(HALF))
    found = []
    for is_one in (True, False):
        stream = hiprt.Stream()
        with force_generic(), hiprt.use_stream(stream):
            token = hiprt.array(np.arange(batch, dtype=np.int32))

            def issue(token=token, is_one=is_one):
                x = kernels.take(rows, token, axis=0)
                if is_one:
                    product_argmax(x, *given[1:], **options, places=token)
                else:
                    kernels.argmax(kernels.qmv(x, *given[1:], **options, tiling=ring), out=token)

            step, tokens = Step(issue, stream=stream, overwrite=True), []
            for _ in range(8):
                step()
                tokens.append(tuple(token.numpy(stream).tolist()))
        assert not arrivals(stream).numpy().any()
        found.append(tokens)
    assert found[0] == found[1]
    assert len(set(found[0])) > 2


one_and_several = pytest.mark.parametrize(("batch", "ring"), [(1, RINGS[0]), VECTOR_RINGS[0]])


@one_and_several
def test_edges_of_a_recording(monkeypatch, batch, ring):
    """What reads the logits or the place comes behind the product, which comes behind the one that uses its words."""
    serve(monkeypatch, ring)
    given, options = operands(136, HALF, 9, batch=batch)
    others, _ = operands(136, HALF, 10, batch=batch)
    stream = hiprt.current_stream()
    recording = Recording(edges="data")
    with force_generic(), recording.record(stream):
        logits, place = product_argmax(*given, **options)
        kernels.add(logits, logits)
        kernels.add(place, place)
        product_argmax(*others, **options)
    assert recording.dependencies() == [[], [0], [0], [0]]


@one_and_several
def test_the_codes_are_read_before_the_inputs_are_there(monkeypatch, batch, ring):
    """The product starts early behind what makes its vectors, and what makes them is not held up by the places."""
    serve(monkeypatch, ring)
    given, options = operands(512, HALF, 11, norm=True, batch=batch)
    recording, stream = Recording(edges="data"), hiprt.current_stream()
    with force_generic(), recording.record(stream):
        made = kernels.qmv(*given, **options, tiling=ring)
        product_argmax(made, *given[1:], **options)
    assert Exec(recording, stream.device.index, overlap=True).overlaps == 1


@pytest.mark.parametrize(
    ("dtype", "batch", "norm"),
    [
        pytest.param(HALF, 1, True, marks=pytest.mark.only("cpu", reason="some GPUs have a ring for it")),
        pytest.param(HALF, 3, False, marks=pytest.mark.only("cpu", reason="some GPUs have a vector ring for it")),
        (HALF, 9, False),
        (np.dtype(np.float32), 1, True),
    ],
)
def test_other_operands_go_by_two_ops(branch, dtype, batch, norm):
    """Vectors that no ring serves, and more than it takes, launch what the two ops launch."""
    given, options = operands(136, dtype, 12, norm=norm, batch=batch)
    stream = hiprt.current_stream()
    made = len(PLACED.functions), len(SEVERAL_PLACED.functions)
    before = stream.launches
    logits, places = product_argmax(*given, **options)
    launched = stream.launches - before
    exact = product(*given, **options)
    np.testing.assert_array_equal(places.numpy(), kernels.argmax(exact).numpy())
    assert logits.numpy().tobytes() == exact.numpy().tobytes()
    assert stream.launches - before == 2 * launched
    assert (len(PLACED.functions), len(SEVERAL_PLACED.functions)) == made


H200 = make_target("sm_90", 132, 32, NVIDIA)


def launch_on(on, rows, width, batch=1, bits=4):
    """The launch of a product on a target."""
    shapes = (batch, width), (rows, width * bits // 32), (rows, width // 64), (rows, width // 64), (width,)
    forms = [hiprt.empty(shape, np.uint32 if i == 1 else HALF).form for i, shape in enumerate(shapes)]
    return module.launch_of.function(*forms, 64, bits, 1e-6, on)


def test_an_h200_takes_the_heads_of_models():
    """The rings are those of `qmv`; other devices, many vectors and codes of 6 bits have none."""
    for width in (1024, 2560):
        launch, ring = launch_on(H200, 15192, width), ring_of(Product(15192, width, 1, 64, 4, False), H200)
        assert launch is not None
        assert (launch.kernel, launch.grid) == (PLACED, (ring.groups, 1, 1))
        for batch in (2, 5, 8):
            launch = launch_on(H200, 15192, width, batch)
            ring = vector_ring_of(Product(15192, width, batch, 64, 4, False), H200)
            assert launch is not None
            assert (launch.kernel, launch.grid) == (SEVERAL_PLACED, (ring.groups, 1, 1))
    for options in ({"batch": 9}, {"bits": 6}, {"on": make_target("sm_80", 132, 32, NVIDIA)}):
        assert launch_on(**{"on": H200, "rows": 15192, "width": 1024, **options}) is None


def test_several_vectors_without_their_own_simdgroups_or_words_go_by_two_ops(monkeypatch):
    """Sharers have a part of the vectors, a simdgroup has results of one, and a threadgroup a word for each."""
    fits = VectorRing(Ring(1, 2, 1, 1, 1, 4), 2, 1, 1, 1, 4, 256)
    others = {"sharers": 2, "helpers": 6}, {"helpers": 3}, {"groups": 257}
    for changed, taken in (({}, True), *((change, False) for change in others)):
        serve(monkeypatch, fits._replace(**changed))
        assert (launch_on(H200, 4096, WIDTH, 8) is not None) == taken


@one_and_several
def test_mistakes_are_named(monkeypatch, batch, ring):
    serve(monkeypatch, ring)
    given, options = operands(136, HALF, 13, batch=batch)
    call = partial(product_argmax, *given, **options)
    with force_generic():
        for error, message, places in [
            (TypeError, "product_argmax: out is int64", hiprt.zeros(batch, np.int64)),
            (ValueError, "out has shape", hiprt.zeros(3 - batch, np.int32)),
            (ValueError, "out overlaps", given[1].view(np.int32)[0, :batch]),
        ]:
            with pytest.raises(error, match=message):
                call(places=places)
        with pytest.raises(ValueError, match="qmv: x has shape"):
            product_argmax(hiprt.zeros((batch, 256), HALF), *given[1:], **options)
