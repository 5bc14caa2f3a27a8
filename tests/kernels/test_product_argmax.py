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
from hiprt.kernels.ops.quantized.product_argmax import PLACED, product_argmax
from hiprt.kernels.reference.quantize import quantize
from hiprt.kernels.tuning.rings import Ring, ring_of
from hiprt.kernels.tuning.target import force_generic, make_target
from hiprt.kernels.tuning.tiling import Product
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


def constant_rows(values, dtype):
    """Operands whose results are the given values: every scale is 0 and every bias a value, of an x that is 1 once."""
    values = np.asarray(values, np.float32)
    x = np.zeros((1, WIDTH), dtype)
    x[0, 0] = 1
    packed = np.zeros((len(values), WIDTH // 8), np.uint32)
    scales, biases = np.zeros((len(values), WIDTH // 64), dtype), np.zeros((len(values), WIDTH // 64), dtype)
    biases[:, 0] = values.astype(dtype)
    return [hiprt.array(part) for part in (x, packed, scales, biases)], {"group_size": 64, "bits": 4}


def serve(monkeypatch, ring):
    """Let the kernel serve, with this ring; plans of another one are not remembered."""
    monkeypatch.setattr(module, "chosen", lambda *_: ring)
    monkeypatch.setattr(module, "launch_of", Planned(module.launch_of.function))


@pytest.fixture(params=RINGS, ids=str)
def ring(request, monkeypatch):
    """A ring that shares out the products of one vector, of both ways."""
    serve(monkeypatch, request.param)
    return request.param


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
def test_has_the_bits_of_both_ops(ring, dtype, group, bits, norm):
    for seed, rows in enumerate((136, 40, 328)):
        check(*operands(rows, dtype, seed, group, bits, norm), ring)


@pytest.mark.parametrize("dtype", [HALF, hiprt.bfloat16], ids=str)
def test_the_rules_of_argmax(ring, dtype):
    """Ties in one threadgroup and in several, NaN, infinities; each launch finds the words cleared."""
    inf, nan, rows = np.inf, np.nan, 328
    cases = [
        ({}, -3.0, 0),
        ({135: 2.0}, -3.0, 135),
        ({9: 1.0, 8: 1.0, 12: 1.0}, 0.5, 8),
        ({130: 1.0, 57: 1.0, 100: 1.0}, 0.5, 57),
        ({271: 1.0, 8: 1.0, 264: 1.0}, 0.5, 8),
        ({327: 1.0}, 0.5, 327),
        ({20: inf, 120: inf}, 3.0, 20),
        ({7: inf, 133: nan}, 0.0, 133),
        ({90: -nan, 33: nan, 34: inf}, 0.0, 33),
        ({}, -inf, 0),
        ({64: -1.0}, -inf, 64),
        ({}, nan, 0),
    ]
    for found, others, place in cases:
        values = np.full(rows, others)
        values[list(found)] = list(found.values())
        assert check(*constant_rows(values, dtype), ring) == [place]


def test_zeros_of_both_signs_are_equal(ring):
    values = np.full(136, -1.0)
    values[[40, 41, 99]] = -6e-8, 0.0, 0.0
    (x, *matrix), options = constant_rows(values, HALF)
    given = [hiprt.array(x.numpy() * HALF.type(2.0**-10)), *matrix]
    assert check(given, options, ring) == [40]
    with force_generic():
        assert np.signbit(product_argmax(*given, **options)[0].numpy()[0, [40, 41]]).tolist() == [True, False]


def test_only_rounded_results_are_compared(ring):
    """Values that are different in float32 and the same in float16."""
    (x, *matrix), options = constant_rows(np.full(136, 1.0), HALF)
    biases = matrix[2].numpy()
    biases[100, 1] = 2.0**-14
    x = x.numpy()
    x[0, 64] = 1
    assert check([hiprt.array(x), *matrix[:2], hiprt.array(biases)], options, ring) == [0]


def test_a_graph_is_replayed(ring):
    """A step takes its token from the step before, as a decoder's does."""
    given, options = operands(136, HALF, 7, norm=True)
    rows = hiprt.array(np.random.default_rng(8).normal(size=(136, WIDTH)).astype(HALF))
    found = []
    for is_one in (True, False):
        stream = hiprt.Stream()
        with force_generic(), hiprt.use_stream(stream):
            token = hiprt.zeros(1, np.int32)

            def issue(token=token, is_one=is_one):
                x = kernels.take(rows, token, axis=0)
                if is_one:
                    product_argmax(x, *given[1:], **options, places=token)
                else:
                    kernels.argmax(kernels.qmv(x, *given[1:], **options, tiling=ring), out=token)

            step, tokens = Step(issue, stream=stream, overwrite=True), []
            for _ in range(8):
                step()
                tokens.append(int(token.numpy(stream)[0]))
        assert not arrivals(stream).numpy().any()
        found.append(tokens)
    assert found[0] == found[1]
    assert len(set(found[0])) > 2


def test_edges_of_a_recording(monkeypatch):
    """What reads the logits or the place comes behind the product, which comes behind the one that uses its words."""
    serve(monkeypatch, RINGS[0])
    given, options = operands(136, HALF, 9)
    others, _ = operands(136, HALF, 10)
    stream = hiprt.current_stream()
    recording = Recording(edges="data")
    with force_generic(), recording.record(stream):
        logits, place = product_argmax(*given, **options)
        kernels.add(logits, logits)
        kernels.add(place, place)
        product_argmax(*others, **options)
    assert recording.dependencies() == [[], [0], [0], [0]]


def test_the_codes_are_read_before_the_inputs_are_there(monkeypatch):
    """The product starts early behind what makes its vector, and what makes its vector is not held up by the place."""
    serve(monkeypatch, RINGS[0])
    given, options = operands(512, HALF, 11, norm=True)
    recording, stream = Recording(edges="data"), hiprt.current_stream()
    with force_generic(), recording.record(stream):
        made = kernels.qmv(*given, **options, tiling=RINGS[0])
        product_argmax(made, *given[1:], **options)
    assert Exec(recording, stream.device.index, overlap=True).overlaps == 1


@pytest.mark.parametrize(
    ("dtype", "batch", "norm"),
    [
        pytest.param(HALF, 1, True, marks=pytest.mark.only("cpu", reason="some GPUs have a ring for it")),
        (HALF, 3, False),
        (np.dtype(np.float32), 1, True),
    ],
)
def test_other_operands_go_by_two_ops(branch, dtype, batch, norm):
    """Several vectors, and one that no ring serves, launch what the two ops launch."""
    given, options = operands(136, dtype, 12, norm=norm, batch=batch)
    made, stream = len(PLACED.functions), hiprt.current_stream()
    before = stream.launches
    logits, places = product_argmax(*given, **options)
    launched = stream.launches - before
    exact = product(*given, **options)
    np.testing.assert_array_equal(places.numpy(), kernels.argmax(exact).numpy())
    assert logits.numpy().tobytes() == exact.numpy().tobytes()
    assert stream.launches - before == 2 * launched
    assert len(PLACED.functions) == made


def test_an_h200_takes_the_heads_of_models():
    """The rings are those of `qmv`; other devices, several vectors and codes of 6 bits have none."""
    target = make_target("sm_90", 132, 32, NVIDIA)

    def found(rows, width, batch=1, bits=4, on=target):
        shapes = (batch, width), (rows, width * bits // 32), (rows, width // 64), (rows, width // 64), (width,)
        forms = [hiprt.empty(shape, np.uint32 if i == 1 else HALF).form for i, shape in enumerate(shapes)]
        return module.launch_of(*forms, 64, bits, 1e-6, on)

    for width in (1024, 2560):
        launch, ring = found(15192, width), ring_of(Product(15192, width, 1, 64, 4, False), target)
        assert launch is not None
        assert launch.grid == (ring.groups, 1, 1)
    for options in ({"batch": 2}, {"bits": 6}, {"on": make_target("sm_80", 132, 32, NVIDIA)}):
        assert found(15192, 1024, **options) is None


def test_mistakes_are_named(monkeypatch):
    serve(monkeypatch, RINGS[0])
    given, options = operands(136, HALF, 13)
    call = partial(product_argmax, *given, **options)
    with force_generic():
        for error, message, places in [
            (TypeError, "product_argmax: out is int64", hiprt.zeros(1, np.int64)),
            (ValueError, "out has shape", hiprt.zeros(2, np.int32)),
            (ValueError, "out overlaps", given[1].view(np.int32)[0, :1]),
        ]:
            with pytest.raises(error, match=message):
                call(places=places)
        with pytest.raises(ValueError, match="qmv: x has shape"):
            product_argmax(given[0][:, :256], *given[1:], **options)
