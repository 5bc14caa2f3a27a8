"""A decode step in plain ops, compiled without shapes: the same tokens as eager, one launch each, traced once."""

from itertools import pairwise

import numpy as np
import pytest
from helpers.delta_rule import delta_step

import hiprt
from hiprt import kernels
from hiprt.bench.engine.checkpoint import Checkpoint
from hiprt.bench.engine.models import load
from hiprt.bench.engine.models.model import KeyValue, Recurrent
from hiprt.bench.engine.models.presets import preset
from hiprt.bench.plain import Plain
from hiprt.bench.story import CHECKPOINT
from hiprt.flags import flags
from hiprt.graphs import Step
from hiprt.metal_compat import metal_kernel

TOKENS = {"short": 200, "usual": 2000, "long": 2000}
FIRST = 64  # tokens for which there is room at first


class Text:
    """The arrays of one text, whose caches grow to twice their size when they are full.

    Attributes
    ----------
    block : Array of int32, [4, 1]
        The token, the position, the length of the prompt, the capacity.
    """

    def __init__(self, model, prompt, length):
        tokens = np.zeros((1, length + 1), np.int32)
        tokens[0, : len(prompt)] = prompt
        self.tokens = hiprt.array(tokens)
        self.block = hiprt.array(np.array([[prompt[0]], [0], [len(prompt)], [length + 1]], np.int32))
        self.temperature, self.seed = hiprt.full((1,), 0.7), hiprt.array(np.array([5], np.uint32))
        self.model, self.room = model, FIRST
        self.caches = self.make()

    def make(self):
        return [dict(vars(each)) for each in self.model.state(1, self.room)]

    def grow(self):
        """Move the caches to larger ones."""
        old, self.room = self.caches, 2 * self.room
        self.caches = [its if "conv" in its else mine for mine, its in zip(self.make(), old)]
        for mine, its in zip(self.caches, old):
            if mine is not its:
                for name in mine:
                    copy(mine[name], its[name])

    def arguments(self, position):
        if position >= self.room:
            self.grow()
        return self.block, self.tokens, self.temperature, self.seed, self.caches


def copy(whole, part):
    """Write a part to the first positions of a cache."""
    start = hiprt.zeros(4, np.int32)
    kernels.slice_update(whole, part, start, range(4), out=whole)


DECODE = ("simplify", "decode", "dead_code", "fusion", "copies")


def engine_of(name):
    """A model whose decode step calls the kernels by hand."""
    return load(Checkpoint(CHECKPOINT)) if name == "shipped" else preset(name)


def step_of(model):
    def step(block, tokens, temperature, seed, caches):
        state = [(Recurrent if "conv" in cache else KeyValue)(**cache) for cache in caches]
        logits = model.decode(block[0], block[1], state)
        drawn = kernels.sample(logits, temperature, seed, block[1])
        kernels.advance(block, tokens, drawn)
        return drawn

    return step


@pytest.mark.soak
@pytest.mark.parametrize("passes", [flags.compile_passes, DECODE], ids=["exact", "decode"])
@pytest.mark.parametrize("name", ["shipped", "qwen3.5-mini"])
def test_a_decode_step_in_plain_ops(form_in_turn, name, passes):
    """With the pass that rounds otherwise, the tokens are those of the kernels that it puts in, called by hand."""
    engine = engine_of(name)
    model = Plain.of(engine)
    count = TOKENS[form_in_turn]
    compiled = hiprt.compile(step_of(model), shapeless=True)
    step = step_of(engine if "decode" in passes else model)
    mine, its = Text(model, [1, 5, 9, 2], count), Text(engine, [1, 5, 9, 2], count)
    stream = hiprt.current_stream()
    launches = []
    for position in range(count):
        given = mine.arguments(position)
        before = stream.launches
        with flags.override(compile_passes=passes):
            compiled(*given)
        launches.append(stream.launches - before)
        step(*its.arguments(position))
    assert mine.room > FIRST
    np.testing.assert_array_equal(mine.tokens.numpy(), its.tokens.numpy())
    assert len(np.unique(mine.tokens.numpy())) > 20
    assert compiled.traces == 1
    assert set(launches[1:]) == {1}  # the first call may join matrices
    assert "decode" in passes or launches[0] == 1
    (graph,) = compiled.steps
    assert graph.rungs["replay"] + graph.rungs["instantiate"] + graph.rungs["patch"] + graph.rungs["update"] == count
    assert graph.rungs["replay"] >= count - 3 * (mine.room // FIRST)


CAPPED = metal_kernel(
    "capped",
    ["logits"],
    ["out"],
    "uint i = thread_position_in_grid.x; out[i] = T(CAP * metal::precise::tanh(float(logits[i]) / CAP));",
)


def capped(logits):
    """Keep logits within a bound, by a custom kernel whose grid and shape follow from theirs."""
    return CAPPED(
        inputs=[logits],
        template=[("T", logits.dtype), ("CAP", 30)],
        output_shapes=[logits.shape],
        output_dtypes=[logits.dtype],
        grid=(logits.size, 1, 1),
        threadgroup=(64, 1, 1),
    )[0]


def gdn_step_apart(proj, conv_weight, conv, a_log, dt_bias, state, *, norm, eps, **sizes):
    """Do what `kernels.gdn_step` does by three kernels, of which the custom one is the second."""
    heads, width = sizes["value_heads"], sizes["value_width"]
    channels = len(conv_weight)
    ends = (0, channels, channels + heads * width, proj.shape[1])
    qkv, z, gates = (kernels.contiguous(proj[:, start:end]) for start, end in pairwise(ends))
    proj = kernels.concatenate([qkv, gates], axis=1)
    answer = delta_step(*kernels.gdn_inputs(proj, conv_weight, conv, a_log, dt_bias, **sizes), state)
    return kernels.gated_rms_norm(answer, z.reshape(answer.shape), norm, eps).reshape(len(proj), -1)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("recurrence", "passes"),
    [("an op", DECODE), ("a custom kernel", flags.compile_passes), ("a custom kernel", DECODE)],
    ids=["an op", "exact", "decode"],
)
def test_a_decode_step_with_custom_kernels(form_in_turn, recurrence, passes, monkeypatch):
    """Custom kernels, gather_qmm and the gated delta rule: traced once, one launch a token, the tokens of eager.

    With the pass that rounds otherwise, the tokens are those of the kernels that it puts in, called by hand, and the
    nodes are those of the engine's step, or few more.
    """
    engine = preset("qwen3.5-mini")
    model = Plain.of(engine)
    count = TOKENS[form_in_turn]

    def step_with(model):
        def step(block, tokens, temperature, seed, caches):
            state = [(Recurrent if "conv" in cache else KeyValue)(**cache) for cache in caches]
            logits = capped(model.decode(block[0], block[1], state))
            drawn = kernels.sample(logits, temperature, seed, block[1])
            kernels.advance(block, tokens, drawn)
            return drawn

        return step

    engines = Step(step_with(engine))
    engines(*Text(engine, [1, 5, 9, 2], count).arguments(0))
    if recurrence == "a custom kernel":
        monkeypatch.setattr(kernels, "gated_delta", delta_step)
        monkeypatch.setattr(kernels, "gdn_step", gdn_step_apart)
    hand = step_with(engine if passes is DECODE else model)
    compiled = hiprt.compile(step_with(model), shapeless=True)
    mine, its = Text(model, [1, 5, 9, 2], count), Text(engine, [1, 5, 9, 2], count)
    stream = hiprt.current_stream()
    launches = []
    for position in range(count):
        given = mine.arguments(position)
        before = stream.launches
        with flags.override(compile_passes=passes):
            compiled(*given)
        launches.append(stream.launches - before)
        hand(*its.arguments(position))
    np.testing.assert_array_equal(mine.tokens.numpy(), its.tokens.numpy())
    assert len(np.unique(mine.tokens.numpy())) > 20
    assert compiled.traces == 1
    assert set(launches[1:]) == {1}
    plain = hiprt.compile(step_with(model), shapeless=True).record(mine.arguments(count - 1), {}, shapeless=True)[0]
    ops = {primitive.op.name for primitive in plain.primitives}
    assert {"metal_kernel", "gather_qmm"} <= ops
    assert ("gated_delta" in ops) == (recurrence == "an op")
    if passes is DECODE:
        assert compiled.steps[0].nodes <= 1.25 * engines.nodes


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("name", ["qwen3-mini", "qwen3-moe-mini", "qwen3.5-mini"])
def test_the_nodes_of_plain_ops_are_those_of_the_engine(name, rows):
    """Compiled plain ops with a matrix for each projection have the nodes of kernels called by hand, and their bits."""
    tokens, position = (hiprt.array(np.array(n[:rows], np.int32)) for n in ([3, 7], [0, 5]))

    def step_of(model):
        state = model.state(rows, 64)
        return lambda tokens, position: model.decode(tokens, position, state)

    engine = preset(name)
    with flags.override(compile_passes=DECODE):
        compiled = hiprt.compile(step_of(Plain.of(engine)))
        hand = Step(step_of(engine))
        for _ in range(3):
            mine, its = compiled(tokens, position).numpy(), hand(tokens, position).numpy()
            assert mine.tobytes() == its.tobytes()
    assert compiled.steps[0].nodes == hand.nodes
    assert "decode: " in compiled.explain()
    assert "arrays of matrices are joined" in compiled.explain()


def test_plain_ops_of_the_engine_become_its_kernels():
    """Where the engine has joined the matrices, nothing is copied."""
    engine, plain = preset("qwen3-moe-mini"), preset("qwen3-moe-mini", fused=False)
    tokens, position = (hiprt.array(np.array([n, 7], np.int32)) for n in (3, 0))
    state, own = engine.state(2, 64), plain.state(2, 64)
    with flags.override(compile_passes=DECODE):
        compiled = hiprt.compile(lambda tokens, position: plain.decode(tokens, position, own))
        mine = compiled(tokens, position).numpy()
    assert mine.tobytes() == engine.decode(tokens, position, state).numpy().tobytes()
    assert "joined" not in compiled.explain()


@pytest.mark.parametrize("name", ["qwen3-moe-mini", "qwen3.5-mini"])
def test_what_the_pass_changes_is_rounding(name):
    """Results differ from those without passes by the bound that the documentation names."""
    model = Plain.of(preset(name, dtype=np.float32))
    states = [model.state(2, 64) for _ in range(2)]
    with flags.override(compile_passes=DECODE):
        compiled = hiprt.compile(lambda tokens, position: model.decode(tokens, position, states[0]))
        for place in range(8):
            tokens, position = (hiprt.array(np.array(n, np.int32)) for n in ([3 + place, 7], [place, place]))
            mine = compiled(tokens, position).numpy().astype(np.float64)
            its = model.decode(tokens, position, states[1]).numpy().astype(np.float64)
            np.testing.assert_allclose(mine, its, rtol=0, atol=2e-5 * np.abs(its).max())
