"""Presets: what their decode steps are made of, and small ones that run."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from helpers.hollow import Hollow
from helpers.mixture_rings import both_rings
from helpers.plans import check_plan

import hiprt
from hiprt import kernels, objects
from hiprt.allocator import Arena, default_pool
from hiprt.bench.engine.models import PRESETS, Transformer, moe, preset, read
from hiprt.bench.engine.models.presets import MINIS, settings_of
from hiprt.graphs.record.recording import Recording
from hiprt.kernels.ops.experts import projected
from hiprt.kernels.ops.quantized import product_argmax
from hiprt.kernels.tuning import target as targets
from hiprt.kernels.tuning.rings import Ring
from hiprt.kernels.tuning.target import force_generic, make_target
from hiprt.kernels.tuning.vector_rings import VectorRing
from hiprt.objects import Planned
from hiprt.provider import NVIDIA, ROCM

CAPACITY = 1024
# Nodes of a layer of each kind: what mixes positions, and what follows.
MOST_NODES = {("attention", "mlp"): 7, ("attention", "moe"): 9, ("delta", "moe"): 7}
MOST_NODES_35B = 303


def hollow(name, form=(64, 4)):
    """Return a preset without values in its weights."""
    return Transformer.build(read(settings_of(name)), Hollow(hiprt.bfloat16, form), fused=True)


def recorded(function, stream):
    """Record what a function launches, and lay out its memory; return the number of nodes and the plan."""
    memory = Arena(default_pool.allocate, "step")
    recording = Recording(memory)
    with recording.record(stream):
        result = function()
    count = len(recording)
    recording.settle(stream)
    assert result.size
    return count, memory.plans[-1]


@pytest.fixture
def as_on_gpus():
    """Kernels take their GPU branch here; plain loops need fewer launches."""
    with force_generic():
        yield


@pytest.mark.parametrize("name", PRESETS)
def test_decode_steps_of_the_presets(name, stream, as_on_gpus):
    """At the published sizes a step has few nodes, and its memory is at most 1.05 times what is live at once."""
    model = hollow(name)
    tokens, position = hiprt.zeros(1, np.int32), hiprt.zeros(1, np.int32)
    state = model.state(1, CAPACITY)

    def step():
        logits = model.decode(tokens, position, state)
        kernels.sample(logits, temperature, seed, position)
        return logits

    temperature, seed = hiprt.zeros(1), hiprt.zeros(1, np.uint32)
    count, plan = recorded(step, stream)
    check_plan(plan)
    x = hiprt.zeros((1, model.config.hidden_size), model.dtype)
    layers = 0
    for layer, kept, kinds in zip(model.layers, state, model.config.layers):
        nodes, _ = recorded(partial(layer.decode, x, position, kept, True), stream)
        assert nodes <= MOST_NODES[kinds]
        layers += nodes
    assert count - layers <= 4  # embedding, head, and two of argmax, whose threadgroups share the row
    assert name != "qwen3.5-35b-a3b" or count <= MOST_NODES_35B


@pytest.mark.parametrize(
    ("arch", "units", "wave", "form"),
    [
        ("gfx942", 304, 64, (64, 4)),
        *((*gpu, (32, bits)) for gpu, bits in zip((("gfx942", 304, 64), ("gfx1151", 20, 32)) * 2, (2, 3, 5, 6))),
        pytest.param("gfx1201", 32, 32, (64, 4), marks=pytest.mark.wide),
    ],
)
def test_a_dense_layer_on_amd(arch, units, wave, form, stream, as_on_gpus, monkeypatch):
    """It has five nodes, by dot instructions; none of its kernels asks for the size of its threadgroups."""
    on = replace(make_target(arch, units, wave, ROCM), is_generic=True)
    monkeypatch.setitem(targets.targets, stream.device.index, on)
    model = hollow("qwen3-1.7b", form)
    x, position = hiprt.zeros((1, model.config.hidden_size), model.dtype), hiprt.zeros(1, np.int32)
    found = []
    before = objects.Launch.watch(lambda launch, given: found.append(launch.kernel))
    try:
        nodes, _ = recorded(partial(model.layers[0].decode, x, position, model.state(1, CAPACITY)[0], True), stream)
    finally:
        objects.Launch.watch(before)
    names = ["qmv_dots", "norm_rope_attention", "qmv_dots", "qmv_dots", "qmv_dots"]
    assert (nodes, [kernel.name for kernel in found]) == (5, names)
    assert not any(kernel.is_varied for kernel in found)


@pytest.mark.parametrize(("batch", "fused"), [(1, True), (2, True), (3, True), (1, False)])
def test_a_step_takes_the_likeliest_tokens(batch, fused, stream, monkeypatch, as_on_gpus):
    """They are those of `argmax`, which is no kernel of its own where the head's product finds the token."""
    ring = Ring(2, 1, 1, 1, 0, 16)
    rings = {1: ring, 3: VectorRing(ring, 2, 1, 1, 0, 1, 16)}
    monkeypatch.setattr(product_argmax, "chosen", lambda target, dtype, product, is_normed: rings.get(product.batch))
    monkeypatch.setattr(product_argmax, "launch_of", Planned(product_argmax.launch_of.function))
    sizes = {"hidden_size": 256, "vocab_size": 272}
    monkeypatch.setitem(PRESETS, "qwen3-mini", {**MINIS["qwen3-mini"], **sizes})
    model = preset("qwen3-mini", fused=fused)
    tokens, position = hiprt.array(np.arange(5, 5 + batch, dtype=np.int32)), hiprt.zeros(batch, np.int32)
    found = []
    before = objects.Launch.watch(lambda launch, given: found.append(launch.kernel.name))
    try:
        logits = model.decode(tokens, position, model.state(batch, 32), tokens)
    finally:
        objects.Launch.watch(before)
    assert tokens.numpy().tolist() == logits.numpy().astype(np.float64).argmax(axis=-1).tolist()
    places = {1: "qmv_argmax", 3: "qmv_vector_rings_argmax"} if fused else {}
    assert [name for name in found if "argmax" in name] == [places.get(batch, "argmax")]


@pytest.mark.parametrize("batch", [1, 2, 5, 8])
def test_the_head_on_an_h200(batch, stream, as_on_gpus, monkeypatch):
    """It is one node, which finds the likeliest tokens too; they would be two more."""
    on = replace(make_target("sm_90", 132, 32, NVIDIA), is_generic=True)
    monkeypatch.setitem(targets.targets, stream.device.index, on)
    model, likeliest = hollow("qwen3-0.6b"), hiprt.zeros(batch, np.int32)
    x = hiprt.zeros((batch, model.config.hidden_size), model.dtype)
    assert recorded(lambda: model.logits(x, True, likeliest), stream)[0] == 1
    assert recorded(lambda: kernels.argmax(model.logits(x, True), out=likeliest), stream)[0] == 3


@pytest.mark.parametrize("name", MINIS)
def test_a_seed_draws_the_same_model(name, stream):
    """One seed gives the same logits bit by bit, another seed gives others, and all are finite."""

    def logits(seed):
        model = preset(name, seed=seed)
        tokens, position = hiprt.array(np.array([5, 7], np.int32)), hiprt.array(np.zeros(2, np.int32))
        return model.decode(tokens, position, model.state(2, 32)).numpy()

    first = logits(1)
    assert first.tobytes() == logits(1).tobytes() != logits(2).tobytes()
    assert 0.1 < first.astype(np.float32).std() < 100
    assert not np.array_equal(first[0], first[1])


@pytest.mark.parametrize(
    ("name", "dtype", "form"),
    [
        ("qwen3-mini", "float32", (32, 8)),
        ("qwen3-mini", "float16", (128, 4)),
        ("qwen3-mini", "bfloat16", (64, 6)),
        ("qwen3-moe-mini", "bfloat16", (32, 5)),
        ("qwen3.5-mini", "float32", (64, 3)),
    ],
)
def test_presets_have_any_dtype_and_format(name, dtype, form, stream):
    """Fused kernels and plain ops give nearly the same."""
    model = preset(name, dtype=dtype, form=form)
    assert model.dtype == hiprt.array(np.zeros(1), dtype).dtype
    values = kernels.dequantize(*model.head.codes, **model.head.form).numpy().astype(np.float32)
    spread = 1 if name == "qwen3-mini" else model.config.hidden_size**-0.5  # which is the embedding as well
    assert abs(values.mean()) < 0.02
    assert abs(values.std() / spread - 1) < 0.02
    tokens, position = hiprt.array(np.array([5], np.int32)), hiprt.zeros(1, np.int32)
    models = [preset(name, dtype=dtype, form=form, fused=kind) for kind in (True, False)]
    fused, plain = (each.decode(tokens, position, each.state(1, 32)) for each in models)
    a, b = (logits.numpy().astype(np.float64) for logits in (fused, plain))
    assert np.linalg.norm(a - b) < 2e-2 * np.linalg.norm(b)


@pytest.mark.parametrize("name", ["qwen3-moe-mini", "qwen3.5-mini"])
def test_a_product_in_front_of_a_mixture_leaves_its_logits(name, stream, monkeypatch, as_on_gpus):
    """The mixer's last product and the router are one kernel where there is one; the logits are nearly the same."""
    others = {"shared_expert_intermediate_size": 64, "linear_value_head_dim": 64} if name == "qwen3.5-mini" else {}
    monkeypatch.setitem(PRESETS, name, {**MINIS[name], "hidden_size": 512, "moe_intermediate_size": 64, **others})
    tokens, position = hiprt.array(np.array([5], np.int32)), hiprt.zeros(1, np.int32)
    plain = preset(name)
    expected = plain.decode(tokens, position, plain.state(1, 32)).numpy().astype(np.float64)
    monkeypatch.setattr(moe, "reads_folded", lambda target: True)
    both_rings(monkeypatch, Ring(2, 1, 1, 1, 0, 16), Ring(2, 2, 1, 1, 0, 7))
    made = len(projected.PROJECTED.functions)
    model = preset(name)
    got = model.decode(tokens, position, model.state(1, 32)).numpy().astype(np.float64)
    assert len(projected.PROJECTED.functions) > made
    assert np.linalg.norm(got - expected) < 2e-2 * np.linalg.norm(expected)


@pytest.mark.parametrize("form", [(64, 4), (32, 8)])
def test_a_router_is_folded_in_the_formats_of_its_matrices(monkeypatch, form):
    """Both have the model's group size; the matrix in front has its bits as well."""
    monkeypatch.setattr(moe, "reads_folded", lambda target: True)
    layer = hollow("qwen3-moe-mini", form).layers[0]
    router, output = layer.feed.router, layer.mixer.output
    assert layer.feed.folded.shape == (len(router.weight), output.scales.shape[1] * form[0] + len(output.weight))


def test_unknown_presets_are_refused():
    """An unknown preset is refused with the names of those that exist."""
    with pytest.raises(ValueError, match=re.escape("no preset 'qwen3-9b'") + ".*qwen3-8b"):
        preset("qwen3-9b")
