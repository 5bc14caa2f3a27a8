"""Mixtures of experts and gated-delta layers: shapes of models and odd ones, ties, state between calls, mistakes."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.graphs import Step
from hiprt.graphs.record.recording import Recording
from hiprt.kernels.ops.arrivals import COUNTERS, arrivals
from hiprt.kernels.ops.recurrent.gated_delta import plan_of as gated_delta_plan
from hiprt.kernels.ops.recurrent.gated_delta_chunks import GatedDeltaChunks
from hiprt.kernels.ops.recurrent.gdn_step import plan_of as gdn_step_plan
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.tuning import target
from hiprt.kernels.tuning.target import force_generic, target_of


@pytest.mark.parametrize(
    ("tokens", "experts", "k"),
    [((1,), 128, 8), ((3,), 512, 10), ((2, 2), 7, 7), ((5,), 33, 1), ((4,), 1, 1), ((1,), 1100, 40)],
)
@pytest.mark.parametrize(("normalize", "shared"), [(True, False), (False, False), (True, True)])
def test_routes_of_the_reference(branch, dtype, tokens, experts, k, normalize, shared, normal, close):
    logits = normal((*tokens, experts + shared), dtype, experts, 2.0)
    indices, weights = kernels.moe_route(hiprt.array(logits), k, normalize=normalize, shared=shared)
    places, shares = reference.moe_route(logits, k, normalize, shared)
    assert indices.dtype == np.int32
    np.testing.assert_array_equal(indices.numpy(), places)
    close(weights, shares, steps=40)


def test_equal_logits_choose_the_lower_expert(branch, dtype):
    logits = np.array(
        [[1, 3, 3, 0, 3, 1], [0, 0, -0.0, 0, 0, 0], [-np.inf, -np.inf, 5, -np.inf, -np.inf, -np.inf]], dtype
    )
    indices, weights = kernels.moe_route(hiprt.array(logits), 4)
    assert indices.numpy().tolist() == [[1, 2, 4, 0], [0, 1, 2, 3], [2, 0, 1, 3]]
    assert weights.numpy()[1].astype(float).tolist() == [0.25] * 4
    assert weights.numpy()[2].astype(float).tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize(("experts", "k"), [(6, 2), (6, 6), (37, 3), (37, 20), (130, 9)])
@pytest.mark.parametrize(("normalize", "shared"), [(True, False), (False, False), (True, True)])
def test_logits_that_are_no_numbers_are_the_largest(branch, dtype, experts, k, normalize, shared, normal, close):
    """Above infinity whatever their sign, of several the lower expert first; fewer and more than are chosen."""
    logits = np.round(normal((7, experts + shared), dtype, experts))  # rounded, so that many are equal
    logits[0, 4] = np.nan
    logits[1, [5, 1, 3]] = np.nan, -np.nan, np.nan
    logits[2, [2, 4]] = -np.nan, np.inf
    logits[3, 1:experts] = -np.nan
    logits[4, :experts] = np.nan
    logits[5, :experts:2], logits[5, 1:experts:2] = -np.inf, np.nan
    out = [hiprt.array(np.full((7, k + shared), -1, kind)) for kind in (np.int32, dtype)]
    kernels.moe_route(hiprt.array(logits), k, normalize=normalize, shared=shared, out=tuple(out))
    indices, weights = (each.numpy() for each in out)
    first = [[4], [1, 3, 5], [2, 4], range(1, experts), range(experts), range(1, experts, 2)]
    assert [row[: len(most)].tolist() for row, most in zip(indices[:, :k], first, strict=False)] == [
        list(most)[:k] for most in first
    ]
    with np.errstate(invalid="ignore"):
        places, shares = reference.moe_route(logits, k, normalize, shared)
    np.testing.assert_array_equal(indices, places)
    assert np.isnan(weights[:6, :k].astype(float)).all()
    assert np.isnan(shares[:6, :k]).all()
    close(hiprt.array(weights[6]), shares[6], steps=40)
    close(hiprt.array(weights[:, k:]), shares[:, k:], steps=40)


@pytest.mark.parametrize("shape", [(1, 8, 128), (2, 3, 1, 5), (3, 10, 300), (0, 4, 8)])
@pytest.mark.parametrize("is_shared", [True, False])
def test_experts_are_combined(branch, dtype, shape, is_shared, normal, close):
    y, weights = normal(shape, dtype, 1), normal(shape[:-1], dtype, 2)
    more = [normal((*shape[:-2], n), dtype, 3) for n in (shape[-1], 1)] if is_shared else []
    got = kernels.moe_combine(*map(hiprt.array, (y, weights, *more)))
    exact = reference.moe_combine(y, weights, *more)
    size = reference.moe_combine(np.abs(y), np.abs(weights), *([np.abs(more[0]), more[1]] if more else []))
    close(got, exact, magnitude=size, steps=16)


@pytest.mark.parametrize(("batch", "channels", "taps"), [(1, 256, 4), (2, 33, 2), (3, 5, 8), (1, 1, 3)])
@pytest.mark.parametrize("steps", [1, 2, 9, 35])
def test_convolution_of_the_reference(branch, dtype, batch, channels, taps, steps, normal, close):
    x, state = normal((batch, steps, channels), dtype, 1), normal((batch, taps - 1, channels), dtype, 2)
    weight, bias = normal((channels, taps), dtype, 3), normal(channels, dtype, 4)
    for silu, shift in ((True, None), (False, bias)):
        kept = hiprt.array(state)
        given = [hiprt.array(x), kept, hiprt.array(weight), None if shift is None else hiprt.array(shift)]
        got = kernels.conv_step(*given, silu=silu)
        exact, after = reference.conv_step(x, state, weight, shift, silu)
        close(got, exact, magnitude=np.abs(exact) + 4 * taps, steps=taps + 12)
        np.testing.assert_array_equal(kept.numpy(), after)


def test_steps_one_by_one_are_steps_at_once(branch, dtype, normal):
    x, weight = normal((2, 7, 40), dtype, 1), hiprt.array(normal((40, 4, 1), dtype, 2))
    whole = kernels.conv_step(hiprt.array(x), hiprt.zeros((2, 3, 40), dtype), weight).numpy()
    state = hiprt.zeros((2, 3, 40), dtype)
    for t in range(7):
        part = kernels.conv_step(hiprt.array(x[:, t : t + 1]), state, weight).numpy()
        np.testing.assert_array_equal(part[:, 0], whole[:, t])


def delta(normal, batch, steps, key_heads, value_heads, key_width, value_width, dtype):
    q, k = (normal((batch, steps, key_heads, key_width), dtype, i, key_width**-0.5) for i in (1, 2))
    v = normal((batch, steps, value_heads, value_width), dtype, 3)
    random = np.random.default_rng(4)
    g, beta = random.random((2, batch, steps, value_heads)).astype(np.float32)
    return q, k, v, g, beta, normal((batch, value_heads, value_width, key_width), np.float32, 5)


SHAPES = [(1, 1, 2, 4, 128, 128), (2, 3, 1, 3, 33, 7), (1, 9, 2, 2, 256, 5), (1, 2, 1, 1, 1, 1), (1, 0, 1, 1, 8, 8)]


@pytest.mark.parametrize("shape", SHAPES)
def test_gated_delta_of_the_reference(branch, dtype, shape, normal, close):
    hosts = delta(normal, *shape, dtype)
    device = [hiprt.array(v) for v in hosts]
    got = kernels.gated_delta(*device)
    exact, after = reference.gated_delta(*hosts)
    close(got, exact, magnitude=np.abs(exact) + 8, steps=40)
    close(device[5], after, magnitude=np.abs(after) + 8, steps=40)


def test_a_step_is_on_its_way_before_the_one_in_front_is_done(branch, dtype, normal, close):
    """As many steps as a short prompt has, whose keys end within a lane's columns."""
    hosts = delta(normal, 2, 23, 2, 4, 40, 9, dtype)
    device = [hiprt.array(v) for v in hosts]
    exact, after = reference.gated_delta(*hosts)
    close(kernels.gated_delta(*device), exact, magnitude=np.abs(exact) + 8, steps=40)
    close(device[5], after, magnitude=np.abs(after) + 8, steps=40)


def chunks_or_steps(hosts, *, is_generic):
    """Return the plan for such arrays, on the CPU device for its branch of lanes or of loops."""
    device = [hiprt.array(v) for v in hosts]
    with force_generic() if is_generic else nullcontext():
        return gated_delta_plan(*(v.form for v in device), target_of(hiprt.current_stream()))


@pytest.mark.only("cpu", reason="the CPU device has both branches")
def test_many_steps_go_by_chunks(normal):
    plans = [
        chunks_or_steps(delta(normal, 1, steps, 1, 1, width, 8, np.float32), is_generic=is_generic)
        for steps, width, is_generic in [
            (33, 32, True),
            (32, 32, True),
            (33, 33, True),
            (33, 256, True),
            (33, 32, False),
        ]
    ]
    assert [isinstance(plan, GatedDeltaChunks) for plan in plans] == [True, False, False, False, False]


WIDE_SHAPES = [(1, 45, 1, 2, 96, 33), (1, 64, 2, 2, 64, 16), (2, 129, 2, 4, 128, 128)]
CHUNK_SHAPES = [(2, 70, 1, 3, 32, 7), *(pytest.param(shape, marks=pytest.mark.wide) for shape in WIDE_SHAPES)]


@pytest.mark.parametrize("shape", CHUNK_SHAPES)
@pytest.mark.parametrize("decays", ["of all sizes", "near 1", "zeros and tiny ones"])
def test_chunks_of_the_reference(dtype, shape, decays, normal, close):
    hosts = delta(normal, *shape, dtype)
    g = hosts[3]
    if decays == "near 1":
        g[:] = 1 - g / 1000
    elif decays == "zeros and tiny ones":
        g[:, ::5], g[:, 1::7] = 0, 1e-38
    device = [hiprt.array(v) for v in hosts]
    with force_generic():
        got = kernels.gated_delta(*device)
    exact, after = reference.gated_delta(*hosts)
    close(got, exact, magnitude=np.abs(exact) + 8, steps=40)
    close(device[5], after, magnitude=np.abs(after) + 8, steps=40)


@pytest.mark.parametrize("steps", [1, 15])
def test_a_chunk_that_is_not_full(dtype, steps, monkeypatch, normal, close):
    """The table says how few steps may go by chunks."""
    hosts = delta(normal, 1, steps, 2, 4, 64, 17, dtype)
    device = [hiprt.array(v) for v in hosts]
    with force_generic():
        here = target_of(hiprt.current_stream())
        some = replace(here, table=replace(here.table, chunked_steps=steps))
        monkeypatch.setitem(target.targets, hiprt.current_device().index, some)
        assert isinstance(gated_delta_plan(*(v.form for v in device), some), GatedDeltaChunks)
        got = kernels.gated_delta(*device)
    exact, after = reference.gated_delta(*hosts)
    close(got, exact, magnitude=np.abs(exact) + 8, steps=40)
    close(device[5], after, magnitude=np.abs(after) + 8, steps=40)


def test_chunks_of_unaligned_keys_and_in_graphs_are_the_same(normal, close):
    hosts = delta(normal, 1, 40, 1, 2, 32, 8, np.float32)
    exact = reference.gated_delta(*hosts)[0]
    device = [hiprt.array(v) for v in hosts]
    with force_generic():
        line = hiprt.zeros(device[0].size + 1)
        line[1:].set(hosts[0].reshape(-1))
        state = hiprt.array(hosts[5])
        close(
            kernels.gated_delta(line[1:].reshape(hosts[0].shape), *device[1:5], state),
            exact,
            magnitude=np.abs(exact) + 8,
            steps=40,
        )
        step = Step(lambda: kernels.gated_delta(*device))
        eager = [hiprt.array(v) for v in hosts]
        for _ in range(2):
            np.testing.assert_array_equal(step().numpy(), kernels.gated_delta(*eager).numpy())
            np.testing.assert_array_equal(device[5].numpy(), eager[5].numpy())


def test_gated_delta_step_by_step_is_the_same(branch, dtype, normal):
    hosts = delta(normal, 2, 5, 2, 4, 64, 16, dtype)
    whole = [hiprt.array(v) for v in hosts]
    answers = kernels.gated_delta(*whole).numpy()
    state = hiprt.array(hosts[5])
    for t in range(5):
        part = kernels.gated_delta(*(hiprt.array(v[:, t : t + 1]) for v in hosts[:5]), state).numpy()
        np.testing.assert_array_equal(part[:, 0], answers[:, t])
    np.testing.assert_array_equal(state.numpy(), whole[5].numpy())


@pytest.fixture
def close_gates(close):
    """Compare what is left of a state, and how much is corrected, with the exact values.

    Both are powers, whose relative error is that of the exponent. Below the smallest normal number they may be zero.
    """

    def check(got, exact):
        for one, value in zip(got, exact, strict=True):
            exponent = np.abs(np.log(np.maximum(value, 1e-300)))
            close(one, value, magnitude=value * (1 + exponent) + 1e-32, steps=30)

    return check


def test_gates_of_the_reference(branch, dtype, normal, close_gates):
    a, b = normal((2, 3, 32), dtype, 1, 8.0), normal((2, 3, 32), dtype, 2, 8.0)
    a_log, dt_bias = normal(32, np.float32, 3), normal(32, dtype, 4)
    a[0, 0, :4] = [-60, 60, 0, 30]
    got = kernels.gated_delta_gates(*map(hiprt.array, (a, b, a_log, dt_bias)))
    close_gates(got, reference.gated_delta_gates(a, b, a_log, dt_bias))


EXTREMES = [-np.inf, -200, -100, -90, -60, -20, -12, -6, -1, 0, 1, 20, 90, 100, 200, np.inf]
# The logarithm of a rate, and a + dt_bias. A large rate shows the relative error of a softplus that is near 0.
GATES = [(rate, step) for rate in (-20, 0, 2.5) for step in EXTREMES] + [(10, -7), (10, -12), (10, -100), (40, -45)]


@pytest.mark.parametrize("is_biased", [False, True])
def test_extreme_gates_are_numbers(branch, dtype, is_biased, close_gates):
    """A power that overflows or vanishes gives a gate of 0 or 1."""
    a_log, steps = np.array([rate for rate, _ in GATES], np.float32), np.array([step for _, step in GATES], dtype)
    a, dt_bias = (np.zeros_like(steps), steps) if is_biased else (steps, np.zeros_like(steps))
    got = kernels.gated_delta_gates(*map(hiprt.array, (a, steps, a_log, dt_bias)))
    close_gates(got, reference.gated_delta_gates(a, steps, a_log, dt_bias))


def layer(normal, batch, key_heads, value_heads, key_width, value_width, dtype, taps=4):
    """What a gated-delta layer's step is given, and its sizes."""
    channels = 2 * key_heads * key_width + value_heads * value_width
    columns = channels + value_heads * (value_width + 2)
    hosts = [normal((batch, columns), dtype, 1), normal((channels, taps), dtype, 2)]
    hosts += [normal((batch, taps - 1, channels), dtype, 3), normal(value_heads, np.float32, 4)]
    hosts += [normal(value_heads, dtype, 5), normal((batch, value_heads, value_width, key_width), np.float32, 6)]
    sizes = {"key_heads": key_heads, "value_heads": value_heads, "key_width": key_width, "value_width": value_width}
    return hosts, sizes


LAYERS = [(1, 2, 4, 128, 128, True), (3, 1, 3, 40, 24, False), (2, 2, 2, 256, 64, True), (8, 1, 1, 8, 8, True)]
LAYERS += [(2, 3, 12, 64, 32, True), (1, 2, 4, 200, 72, False)]


@pytest.mark.parametrize(("shape", "is_normed"), [(each[:5], each[5]) for each in LAYERS])
def test_layer_step_of_the_reference(branch, dtype, shape, is_normed, normal, close):
    hosts, sizes = layer(normal, *shape, dtype)
    norm = normal(shape[4], dtype, 7) if is_normed else None
    device = [hiprt.array(v) for v in hosts]
    got = kernels.gdn_step(*device, **sizes, norm=None if norm is None else hiprt.array(norm))
    exact, conv, state = reference.gdn_step(*hosts, shape[1], norm)
    close(got, exact, magnitude=np.abs(exact) + 8, steps=60)
    np.testing.assert_array_equal(device[2].numpy(), conv)
    close(device[5], state, magnitude=np.abs(state) + 8, steps=60)


def test_layer_step_of_extreme_gates(branch, dtype, normal, close):
    """Two heads have each pair of extreme gates, and z, which opens the answers, has extremes too."""
    values = [-200, -100, -20, 0, 20, 100, 200]
    pairs = np.array([(b, a) for b in values for a in values for _ in range(2)], dtype)
    hosts, sizes = layer(normal, 1, len(values) ** 2, len(pairs), 16, 8, dtype)
    opened = -2 * len(pairs)
    hosts[0][:, opened - 8 * len(pairs) : opened] = np.resize(pairs, 8 * len(pairs))
    hosts[0][:, opened:] = pairs.T.reshape(-1)
    norm = normal(8, dtype, 7)
    device = [hiprt.array(v) for v in hosts]
    got = kernels.gdn_step(*device, **sizes, norm=hiprt.array(norm))
    exact, _, state = reference.gdn_step(*hosts, sizes["key_heads"], norm)
    close(got, exact, magnitude=np.abs(exact) + 200, steps=60)
    close(device[5], state, magnitude=np.abs(state) + 8, steps=60)


def test_layer_step_by_step_is_the_unfused_ops(branch, dtype, normal):
    """Five tokens of two sequences: within the roundings to the dtype that the fused step leaves out."""
    hosts, sizes = layer(normal, 2, 2, 4, 32, 16, dtype)
    weight, a_log, dt_bias, norm = map(hiprt.array, (hosts[1], hosts[3], hosts[4], normal(16, dtype, 7)))
    (conv, state), (conv_apart, state_apart) = ([hiprt.array(hosts[i]) for i in (2, 5)] for _ in range(2))
    bound = {"float16": 2.0**-8, "bfloat16": 2.0**-5, "float32": 2.0**-18}[dtype.name]
    for t in range(5):
        proj = normal((2, hosts[0].shape[1]), dtype, 10 + t)
        got = kernels.gdn_step(hiprt.array(proj), weight, conv, a_log, dt_bias, state, **sizes, norm=norm).numpy()
        x, z, b, a = map(hiprt.array, np.split(proj[:, None], np.cumsum([192, 64, 4]), axis=-1))
        mixed = kernels.conv_step(x, conv_apart, weight)
        q, k = (kernels.contiguous(mixed[..., i : i + 64]).reshape(2, 1, 2, 32) for i in (0, 64))
        q = kernels.multiply(kernels.rms_norm(q, None, 1e-6), 1 / 32)
        k = kernels.multiply(kernels.rms_norm(k, None, 1e-6), 32**-0.5)
        v = kernels.contiguous(mixed[..., 128:]).reshape(2, 1, 4, 16)
        answers = kernels.gated_delta(q, k, v, *kernels.gated_delta_gates(a, b, a_log, dt_bias), state_apart)
        apart = kernels.gated_rms_norm(answers, z.reshape(answers.shape), norm, 1e-6).numpy().reshape(got.shape)
        np.testing.assert_array_equal(conv.numpy(), conv_apart.numpy())
        size = np.abs(apart.astype(np.float64)).max()
        np.testing.assert_allclose(got.astype(np.float64), apart.astype(np.float64), rtol=0, atol=2 * bound * size)
        kept = state_apart.numpy()
        np.testing.assert_allclose(state.numpy(), kept, rtol=0, atol=bound * np.abs(kept).max())


@pytest.mark.every(3)
@pytest.mark.parametrize("shape", [(2, 2, 4, 128, 128), (1, 1, 2, 256, 80), (3, 3, 12, 72, 8), (2, 1, 160, 16, 8)])
def test_layer_step_has_the_same_bits_however_it_is_shared_out(dtype, shape, monkeypatch, normal):
    """A threadgroup for each head of values or of keys, of 4 to 16 simdgroups: answers and states of three tokens."""
    hosts, sizes = layer(normal, *shape, dtype)
    projections = [hiprt.array(normal(hosts[0].shape, dtype, 10 + t)) for t in range(3)]
    norm = hiprt.array(normal(shape[4], dtype, 7))
    found = []
    with force_generic():
        stream = hiprt.current_stream()
        here = target_of(stream)
        for features in (here.features, here.features - {"arrivals"}):
            for simdgroups in (4, 8, 16):
                some = replace(
                    here, features=features, compute_units=1024, table=replace(here.table, gdn_simdgroups=simdgroups)
                )
                monkeypatch.setitem(target.targets, stream.device.index, some)
                _, weight, conv, a_log, dt_bias, state = map(hiprt.array, hosts)
                given = weight, conv, a_log, dt_bias, state
                answers = [kernels.gdn_step(proj, *given, **sizes, norm=norm).numpy() for proj in projections]
                found.append([*answers, conv.numpy(), state.numpy()])
        assert not arrivals(stream).numpy().any()
    for one in found[1:]:
        for got, first in zip(one, found[0], strict=True):
            np.testing.assert_array_equal(got, first)


@pytest.mark.parametrize("ratio", [1, 2, 4])
def test_layer_step_in_a_graph_is_the_same(branch, ratio, normal, monkeypatch):
    """Two layers' steps in a graph, whose threadgroups count themselves at the same places."""
    stream = hiprt.current_stream()
    many = replace(target_of(stream), compute_units=1024)
    monkeypatch.setitem(target.targets, stream.device.index, many)
    hosts, sizes = layer(normal, 2, 4, 4 * ratio, 32, 16, np.float32)
    (device, eager), norm = ([hiprt.array(v) for v in hosts] for _ in range(2)), hiprt.array(normal(16, np.float32, 7))
    more = [hiprt.array(hosts[i]) for i in (2, 5)]
    proj, weight, conv, a_log, dt_bias, state = device

    def token():
        first = kernels.gdn_step(*device, **sizes, norm=norm)
        return first, kernels.gdn_step(proj, weight, more[0], a_log, dt_bias, more[1], **sizes)

    step = Step(token)
    for t in range(4):
        for each in (proj, eager[0]):
            each.set(normal(hosts[0].shape, np.float32, 20 + t))
        first, second = (each.numpy() for each in step())
        apart = kernels.gdn_step(*eager, **sizes, norm=norm).numpy()
        np.testing.assert_array_equal(first, apart)
        assert not np.array_equal(second, apart)
        for got in (conv, more[0]):
            np.testing.assert_array_equal(got.numpy(), eager[2].numpy())
        for got in (state, more[1]):
            np.testing.assert_array_equal(got.numpy(), eager[5].numpy())
    assert not arrivals(hiprt.current_stream()).numpy().any()


@pytest.mark.parametrize("is_normed", [True, False])
def test_only_the_first_layer_step_of_a_graph_starts_early(branch, is_normed, normal):
    """It reads all but the input before that is there; the second one's states are what the first one writes."""
    hosts, sizes = layer(normal, 1, 1, 2, 32, 16, np.float32)
    device, norm = [hiprt.array(v) for v in hosts], hiprt.array(normal(16, np.float32, 7)) if is_normed else None
    recording = Recording(edges="data")
    with recording.record(hiprt.current_stream()):
        for _ in range(2):
            proj = kernels.add(device[0], 1.0)
            kernels.gdn_step(proj, *device[1:], **sizes, norm=norm)
    assert [bool(recording.raw(i).may_overlap) for i in (1, 3)] == [True, False]


@pytest.mark.parametrize(
    ("batch", "units", "is_counted"),
    [
        (COUNTERS, 2 * COUNTERS, True),
        (COUNTERS + 1, 4 * COUNTERS, False),
        (1, 1, True),
        (66, 132, True),
        (67, 132, False),
    ],
)
def test_more_heads_than_counters_or_processors_are_taken_by_key(batch, units, is_counted):
    """Each head of keys of each sequence has a counter of its own; several sequences have a processor for each head."""
    sizes = 1, 2, 8, 8, 1e-6, 1e-6
    with force_generic():
        here = replace(target_of(hiprt.current_stream()), compute_units=units)
        shapes = (batch, 52), (32, 4), (batch, 3, 32), (2,), (2,), (batch, 2, 8, 8)
        forms = [hiprt.empty(shape, np.float32).form for shape in shapes]
        plan = gdn_step_plan(*forms, None, *sizes, here)
    assert plan.is_counted == is_counted
    assert plan.plan.launch.grid == (2 if is_counted else 1, batch, 1)


@pytest.mark.parametrize("shape", [(1, 2, 4, 128, 128), (3, 1, 3, 40, 24), (2, 2, 2, 256, 64), (8, 1, 1, 7, 9)])
def test_inputs_of_the_reference(branch, dtype, shape, normal, close):
    hosts, sizes = layer(normal, *shape, dtype)
    device = [hiprt.array(v) for v in hosts[:5]]
    exact, conv = reference.gdn_inputs(*hosts[:5], shape[1:])
    for got, value in zip(kernels.gdn_inputs(*device, **sizes), exact, strict=True):
        assert got.dtype == (np.float32 if value.ndim == 3 else dtype)
        close(got, value, magnitude=np.abs(value) + 1, steps=60)
    np.testing.assert_array_equal(device[2].numpy(), conv)


@pytest.mark.parametrize("steps", [1, 2, 11])
def test_inputs_of_many_steps_are_those_one_by_one(branch, dtype, steps, normal, close):
    hosts, sizes = layer(normal, 2, 1, 2, 40, 8, dtype)
    weight, conv, a_log, dt_bias = hosts[1:5]
    proj = normal((2, steps, hosts[0].shape[-1]), dtype, 9)
    gates = proj.shape[-1] - 5
    kept = hiprt.array(conv)
    vectors = [hiprt.array(v) for v in (weight, a_log, dt_bias)]
    got = kernels.gdn_inputs(hiprt.array(proj), vectors[0], kept, *vectors[1:], gates=gates, **sizes)
    exact, after = reference.gdn_inputs(proj, weight, conv, a_log, dt_bias, (1, 2, 40, 8), gates)
    np.testing.assert_array_equal(kept.numpy(), after)
    for one, value in zip(got, exact, strict=True):
        close(one, value, magnitude=np.abs(value) + 1, steps=60)
    kept = hiprt.array(conv)
    for t in range(steps):
        part = kernels.gdn_inputs(hiprt.array(proj[:, t]), vectors[0], kept, *vectors[1:], gates=gates, **sizes)
        for one, whole in zip(part, got, strict=True):
            np.testing.assert_array_equal(one.numpy()[:, 0], whole.numpy()[:, t])


def test_input_mistakes_are_named(dtype, normal):
    hosts, sizes = layer(normal, 1, 1, 2, 16, 8, dtype)
    _, weight, conv, a_log, dt_bias = given = [hiprt.array(v) for v in hosts[:5]]
    line = hiprt.zeros(144, dtype)
    for error, message, changed in [
        (ValueError, "3 heads of values are not a multiple of 2", {"key_heads": 2, "value_heads": 3}),
        (ValueError, "1 to 256", {"key_width": 264}),
        (ValueError, "proj has shape", {"value_width": 32}),
        (ValueError, "2 or 3 axes", {"proj": line}),
        (ValueError, "gates=47; columns behind the 48", {"gates": 47}),
        (ValueError, "proj has shape", {"gates": 1000}),
        (ValueError, "conv_weight has shape", {"conv_weight": weight.reshape(16, 12)}),
        (ValueError, "conv has shape", {"conv": conv[:, :2]}),
        (ValueError, "dt_bias has shape", {"dt_bias": dt_bias[:1]}),
        (TypeError, "a_log is int32", {"a_log": a_log.view(np.int32)}),
        (ValueError, "overlap", {"conv": line.reshape(1, 3, 48), "dt_bias": line[:2]}),
    ]:
        names = ("proj", "conv_weight", "conv", "a_log", "dt_bias")
        with pytest.raises(error, match=message):
            kernels.gdn_inputs(**{**dict(zip(names, given)), **sizes, **changed})


def test_layer_mistakes_are_named(dtype, normal):
    hosts, sizes = layer(normal, 1, 1, 2, 16, 8, dtype)
    proj, weight, conv, a_log, dt_bias, state = given = [hiprt.array(v) for v in hosts]
    for error, message, changed in [
        (ValueError, "3 heads of values are not a multiple of 2", {"key_heads": 2, "value_heads": 3}),
        (ValueError, "multiples of 8", {"key_width": 12}),
        (ValueError, "at most 256", {"key_width": 264}),
        (ValueError, "conv_weight has shape", {"value_width": 16}),
        (ValueError, "conv_weight has shape", {"conv_weight": weight.reshape(16, 12)}),
        (ValueError, "proj has shape", {"proj": conv.reshape(3, 48)}),
        (ValueError, "conv has shape", {"conv": conv[:, :2]}),
        (ValueError, "dt_bias has shape", {"dt_bias": dt_bias[:1]}),
        (ValueError, "norm has shape", {"norm": dt_bias}),
        (TypeError, "a_log is int32", {"a_log": a_log.view(np.int32)}),
        (ValueError, "state has shape", {"state": state.reshape(1, 2, 16, 8)}),
        (ValueError, "out overlaps", {"out": proj.reshape(proj.size)[:16].reshape(1, 16)}),
    ]:
        names = ("proj", "conv_weight", "conv", "a_log", "dt_bias", "state")
        values = {**dict(zip(names, given)), **sizes, **changed}
        with pytest.raises(error, match=message):
            kernels.gdn_step(**values)


def test_mistakes_are_named(dtype, normal):
    line = hiprt.zeros(25, dtype)
    logits, y = hiprt.zeros((2, 8), dtype), hiprt.zeros((2, 3, 8), dtype)
    x, state, weight = hiprt.zeros((2, 1, 8), dtype), hiprt.zeros((2, 3, 8), dtype), hiprt.zeros((8, 4), dtype)
    q, k, v, g, beta, kept = (hiprt.array(value) for value in delta(normal, 1, 1, 2, 4, 8, 8, dtype))
    wide, long = hiprt.zeros((1, 1, 2, 300), dtype), hiprt.zeros((1, 1048561, 1), dtype)
    for error, message, wrong in [
        (ValueError, "k=9", lambda: kernels.moe_route(logits, 9)),
        (ValueError, "k=0", lambda: kernels.moe_route(logits, 0)),
        (ValueError, "k=8", lambda: kernels.moe_route(logits, 8, shared=True)),
        (ValueError, "at most 2048", lambda: kernels.moe_route(hiprt.zeros((1, 5000), dtype), 8)),
        (TypeError, "logits is int32", lambda: kernels.moe_route(hiprt.zeros((2, 8), np.int32), 1)),
        (ValueError, "weights", lambda: kernels.moe_combine(y, logits)),
        (ValueError, "go together", lambda: kernels.moe_combine(y, hiprt.zeros((2, 3), dtype), logits)),
        (ValueError, "gate has shape", lambda: kernels.moe_combine(y, hiprt.zeros((2, 3), dtype), logits, logits)),
        (ValueError, "state has shape", lambda: kernels.conv_step(x, x, weight)),
        (ValueError, "weight has shape", lambda: kernels.conv_step(x, state, weight.reshape(4, 8))),
        (ValueError, "bias has shape", lambda: kernels.conv_step(x, state, weight, weight)),
        (ValueError, "out overlaps", lambda: kernels.conv_step(x, state, weight, out=x)),
        (
            ValueError,
            "state overlaps",
            lambda: kernels.conv_step(line[:24].reshape(1, 3, 8), line[1:].reshape(1, 3, 8), weight),
        ),
        (ValueError, "3 axes", lambda: kernels.conv_step(logits, state, weight)),
        (ValueError, "at most 1048560 steps", lambda: kernels.conv_step(long, state, weight)),
        (ValueError, "do not fit", lambda: kernels.gated_delta(q, v, v, g, beta, kept)),
        (ValueError, "multiple of 4", lambda: kernels.gated_delta(v, v, q, g, beta, kept)),
        (ValueError, "1 to 256", lambda: kernels.gated_delta(wide, wide, v, g, beta, kept)),
        (TypeError, "g is", lambda: kernels.gated_delta(q, k, v, g.view(np.int32), beta, kept)),
        (ValueError, "state has shape", lambda: kernels.gated_delta(q, k, v, g, beta, kept.reshape(1, 2, 16, 8))),
        (ValueError, "dt_bias has shape", lambda: kernels.gated_delta_gates(logits, logits, hiprt.zeros(8), logits)),
    ]:
        with pytest.raises(error, match=message):
            wrong()
