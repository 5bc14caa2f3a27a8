"""Decode steps as mlx-lm writes them: the kernels that they become, the weights that they capture, the memory."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import hiprt
from hiprt.flags import flags
from hiprt.graphs.trace import lazy
from hiprt.graphs.trace.passes import PASSES
from hiprt.metal_compat import mlx as mx

HIDDEN, HEADS, GROUPS, WIDTH, INNER, EXPERTS, CHOSEN, VOCABULARY = 128, 4, 2, 64, 192, 8, 2, 96
FORMAT = {"group_size": 64, "bits": 4}
ONE_BY_ONE = ("simplify", "dead_code", "fusion")


@pytest.fixture(autouse=True)
def forgotten():
    """Structures that other tests have left are not taken for those of this one."""
    for table in (lazy.known, lazy.seen):
        table.clear()
    yield
    for table in (lazy.known, lazy.seen):
        table.clear()


class Layer:
    """A layer with a cache, with the projections, views and updates of mlx-lm's Qwen3."""

    def __init__(self, random, is_mixture):
        def matrix(*shape):
            return mx.quantize(mx.array((random.normal(size=shape) * 0.08).astype(np.float32)), **FORMAT)

        def weight(n):
            return mx.array((1 + 0.1 * random.normal(size=n)).astype(np.float32))

        self.q, self.o = matrix(HEADS * WIDTH, HIDDEN), matrix(HIDDEN, HEADS * WIDTH)
        self.k, self.v = (matrix(GROUPS * WIDTH, HIDDEN) for _ in range(2))
        self.first, self.second = weight(HIDDEN), weight(HIDDEN)
        self.q_norm, self.k_norm = weight(WIDTH), weight(WIDTH)
        stack = (EXPERTS,) if is_mixture else ()
        self.gate, self.up = (matrix(*stack, INNER, HIDDEN) for _ in range(2))
        self.down = matrix(*stack, HIDDEN, INNER)
        self.router = matrix(EXPERTS, HIDDEN) if is_mixture else None
        self.keys, self.values = (mx.zeros((1, GROUPS, 16, WIDTH)) for _ in range(2))

    def __call__(self, x, position):
        h = x + self.attention(mx.fast.rms_norm(x, self.first, 1e-6), position)
        rest = mx.fast.rms_norm(h, self.second, 1e-6)
        return h + (self.mlp(rest) if self.router is None else self.experts(rest))

    def attention(self, x, position):
        heads = [multiply(x, m).reshape(1, 1, n, -1) for m, n in ((self.q, HEADS), (self.k, GROUPS), (self.v, GROUPS))]
        q, k = (mx.fast.rms_norm(each, w, 1e-6) for each, w in zip(heads, (self.q_norm, self.k_norm)))
        q, k, v = (each.transpose(0, 2, 1, 3) for each in (q, k, heads[2]))
        options = {"traditional": False, "base": 1e4, "scale": 1.0, "offset": position}
        q, k = (mx.fast.rope(each, WIDTH, **options) for each in (q, k))
        self.keys[..., position : position + 1, :] = k
        self.values[..., position : position + 1, :] = v
        seen = (each[..., : position + 1, :] for each in (self.keys, self.values))
        mixed = mx.fast.scaled_dot_product_attention(q, *seen, scale=WIDTH**-0.5)
        return multiply(mixed.transpose(0, 2, 1, 3).reshape(1, 1, -1), self.o)

    def mlp(self, x):
        gate = multiply(x, self.gate)
        return multiply(gate * mx.sigmoid(gate) * multiply(x, self.up), self.down)

    def experts(self, x):
        shares = mx.softmax(multiply(x, self.router), axis=-1)
        chosen = mx.argpartition(shares, kth=-CHOSEN, axis=-1)[..., -CHOSEN:]
        scores = mx.take_along_axis(shares, chosen, axis=-1)
        scores = scores / mx.sum(scores, axis=-1, keepdims=True)
        wide = mx.expand_dims(x, (-2, -3))
        gate, up = (mx.gather_qmm(wide, *m, rhs_indices=chosen, **FORMAT) for m in (self.gate, self.up))
        made = mx.gather_qmm(gate * mx.sigmoid(gate) * up, *self.down, rhs_indices=chosen, **FORMAT).squeeze(-2)
        return (made * scores[..., None]).sum(axis=-2)


def multiply(x, matrix):
    return mx.quantized_matmul(x, *matrix, **FORMAT)


class Text:
    """Two layers, and the tokens that they are given."""

    def __init__(self, is_mixture=False, seed=3):
        random = np.random.default_rng(seed)
        self.layers = [Layer(random, is_mixture) for _ in range(2)]
        self.embedding = mx.array(random.normal(size=(VOCABULARY, HIDDEN)).astype(np.float32))
        self.head = mx.quantize(mx.array(random.normal(size=(VOCABULARY, HIDDEN)).astype(np.float32)), **FORMAT)
        arrays = [each for layer in self.layers for part in vars(layer).values() for each in part_of(part)]
        mx.eval(arrays, self.embedding, self.head)

    def logits(self, token, position):
        x = self.embedding[mx.array([[token]])]
        for layer in self.layers:
            x = layer(x, position)
        made = multiply(x, self.head)[:, -1, :]
        mx.eval(made, [[layer.keys, layer.values] for layer in self.layers])
        return np.array(made, copy=True)


def part_of(part):
    return [part] if isinstance(part, mx.array) else [each for each in part or () if isinstance(each, mx.array)]


def run(is_mixture, passes, tokens=range(8)):
    with flags.override(mlx_passes=passes):
        text = Text(is_mixture)
        found = np.stack([text.logits(token, place) for place, token in enumerate(tokens)])
        lowered = max(lazy.known.values(), key=lambda each: sum(each.step.rungs.values()))
    return found, lowered


@pytest.mark.parametrize(
    ("is_mixture", "inner"), [(False, ["product"] * 2), (True, ["product", "moe_route", "moe_gate_up", "moe_down"])]
)
def test_a_step_becomes_the_kernels_of_decode_steps(is_mixture, inner):
    found, lowered = run(is_mixture, tuple(PASSES))
    kernels = [each.op.name for each in lowered.program.primitives if each.rule[1] and each.op.name in NAMES]
    assert kernels == ["take", *["product", "norm_rope_attention", "product", *inner] * 2, "quantized_matmul"]
    assert lowered.step.nodes == len(kernels)
    assert lowered.step.rungs["replay"] >= 4
    expected, plain = run(is_mixture, ONE_BY_ONE)
    assert plain.step.nodes > 1.5 * lowered.step.nodes
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5 * np.abs(expected).max())


NAMES = {
    "take", "product", "norm_rope_attention", "moe_route", "moe_gate_up", "moe_down", "quantized_matmul", "attention",
    "gather_qmm", "rms_norm", "rope", "kv_write", "slice_update", "fused", "add", "multiply", "contiguous", "softmax",
}  # fmt: skip


@pytest.mark.parametrize("is_mixture", [False, True])
def test_joined_weights_are_there_once(is_mixture):
    """Matrices are moved to where they are joined: what the model holds are parts of that memory."""
    text = Text(is_mixture)
    gc.collect()
    hiprt.current_stream().synchronize()
    before = mx.get_active_memory()
    for place in range(6):
        text.logits(place, place)
    gc.collect()
    hiprt.current_stream().synchronize()
    assert any(lowered.step.rungs["replay"] for lowered in lazy.known.values())
    assert mx.get_active_memory() < before + 60_000  # a matrix of q/k/v has 32 kB of codes, a stack of experts 98 kB
    layer = text.layers[0]
    assert memory(layer.gate[0]).buffer is memory(layer.up[0]).buffer
    assert memory(layer.q[0]).buffer is memory(layer.v[0]).buffer


def memory(a):
    return lazy.held(a.value)


def test_other_weights_in_the_place_of_captured_ones():
    """Weights that are replaced, or belong to another model, are the ones that count."""
    text, other = Text(), Text(seed=5)
    for place in range(5):
        text.logits(place, place)
    text.layers[0].gate = other.layers[0].gate
    text.layers[1].q = mx.quantize(mx.zeros((HEADS * WIDTH, HIDDEN)), **FORMAT)
    mx.eval(text.layers[1].q)
    found = [text.logits(place, place) for place in range(5, 8)]
    alike = [other.logits(place, place) for place in range(5)]
    for table in (lazy.known, lazy.seen):
        table.clear()
    with flags.override(mlx_passes=ONE_BY_ONE):
        fresh = Text()
        for place in range(5):
            fresh.logits(place, place)
        fresh.layers[0].gate = other.layers[0].gate
        fresh.layers[1].q = text.layers[1].q
        expected = [fresh.logits(place, place) for place in range(5, 8)]
        again = Text(seed=5)
        others = [again.logits(place, place) for place in range(5)]
    for mine, its in zip([*found, *alike], [*expected, *others]):
        np.testing.assert_allclose(mine, its, rtol=0, atol=2e-5 * np.abs(its).max())


def test_weights_are_released_with_their_model():
    gc.collect()
    before = mx.get_active_memory()
    text = Text()
    for place in range(5):
        text.logits(place, place)
    assert lazy.known
    del text
    gc.collect()
    mx.clear_cache()
    hiprt.current_stream().synchronize()
    assert not lazy.known
    assert mx.get_active_memory() <= before + 4096


def test_memory_that_others_see_is_not_moved():
    text = Text()
    view = np.from_dlpack(text.layers[0].q[0]) if hiprt.current_stream().device.provider == "cpu" else None
    text.layers[0].q[0].__dlpack__()
    address = memory(text.layers[0].q[0]).address
    for place in range(5):
        text.logits(place, place)
    assert memory(text.layers[0].q[0]).address == address
    assert memory(text.layers[1].q[0]).buffer is memory(text.layers[1].k[0]).buffer
    del view


class GrowingLayer:
    """A layer with a cache that becomes longer by concatenation, as mlx-lm's does."""

    def __init__(self, random):
        self.weight = mx.array(random.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 8)
        self.keys = mx.zeros((1, 2, 16, WIDTH))

    def __call__(self, x, position):
        if position == self.keys.shape[2]:
            self.keys = mx.concatenate([self.keys, mx.zeros((1, 2, 16, WIDTH))], axis=2)
        self.keys[..., position : position + 1, :] = x @ self.weight
        seen = self.keys[..., : position + 1, :]
        return x + mx.fast.scaled_dot_product_attention(x, seen, seen, scale=WIDTH**-0.5)


def test_a_cache_that_grows_is_one_more_program_and_leaves_no_memory(monkeypatch):
    passed, calls = lazy.passed, []
    monkeypatch.setattr(lazy, "passed", lambda *given: calls.append(given) or passed(*given))
    random = np.random.default_rng(5)
    layers = [GrowingLayer(random) for _ in range(2)]
    table = random.normal(size=(40, 2 * WIDTH)).astype(np.float32)
    rows, weights = mx.array(table), [layer.weight.numpy().astype(np.float64) for layer in layers]
    caches, gone, reads, wanted = [[], []], [], [], []
    with ThreadPoolExecutor(2) as readers:  # they read while later tokens run, and while the caches grow
        for position in range(40):
            x = mx.take(rows, mx.array([position]), axis=0).reshape(1, 2, 1, WIDTH)
            if position in (16, 32):
                gone += [weakref.ref(lazy.held(layer.keys.value).buffer) for layer in layers]
            for layer in layers:
                x = layer(x, position)
            mx.async_eval(x)
            reads += [readers.submit(x.numpy) for _ in range(2)]
            y = table[position].reshape(2, WIDTH).astype(np.float64)
            for weight, cache in zip(weights, caches):
                cache.append(y @ weight)
                scores = np.stack([(y * key).sum(-1) for key in cache]) * WIDTH**-0.5
                share = np.exp(scores - scores.max(0))
                y = y + (share[..., None] * np.stack(cache)).sum(0) / share.sum(0)[:, None]
            wanted += [y, y]
        for read, y in zip(reads, wanted):
            np.testing.assert_allclose(read.result().reshape(2, WIDTH), y, rtol=1e-4, atol=1e-4)
    mx.synchronize()
    first, *grown = [lowered.step.rungs for lowered in lazy.known.values() if lowered.state >= 0]
    assert first["instantiate"] == 1
    assert [sum(rungs.values()) for rungs in grown] == [16, 8]
    assert [rungs["replay"] for rungs in grown] == [15, 7]
    assert [reference() for reference in gone] == [None] * 4
    assert len(calls) == 1  # the passes' program is inferred again for the longer caches
