"""Three families on hiprt's ops: the logits of an independent float32 forward pass, and the same bits as a graph."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from helpers import transformers_logits
from helpers.families import BITS, ROUTER_BITS, Family
from helpers.reference_model import ReferenceModel

import hiprt
from hiprt.bench.engine.checkpoint import Checkpoint
from hiprt.bench.engine.generation import generate
from hiprt.bench.engine.models import load
from hiprt.bench.engine.models.moe import Moe
from hiprt.bench.engine.models.presets import MINIS
from hiprt.bench.engine.models.upload import Part
from hiprt.bench.engine.request import Request
from hiprt.graphs import Step
from hiprt.kernels.ops.quantized.formats import Format
from hiprt.kernels.reference.quantize import FLOATING, quantize, quantize_floating
from hiprt.kernels.tuning import target
from hiprt.kernels.tuning.target import target_of

# In bfloat16 a token may take another expert where two are within a rounding of each other, and be off by up to 0.06:
# with one of five random models, not with these.
TOLERANCE = {"float32": 1e-3, "bfloat16": 2e-2}
PROMPT, STEPS = 9, 32
TOKENS = np.random.default_rng(1).integers(0, 256, PROMPT + STEPS).astype(np.int32)
# Where the reference library is installed, if not here.
PYTHON = os.environ.get("TRANSFORMERS_PYTHON", sys.executable)


def relative(found, expected):
    """Return the length of the difference, relative to that of what was expected."""
    found = found.astype(np.float64)
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def decode(model, state, tokens, position):
    """Take a token of each sequence; return the logits on the host."""
    return model.decode(*(hiprt.array(np.asarray(values, np.int32)) for values in (tokens, position)), state).numpy()


def prefill(model, state, tokens, sequence):
    """Take the first tokens of a sequence; return the logits on the host."""
    position = hiprt.array(np.arange(len(tokens), dtype=np.int32))
    return model.prefill(hiprt.array(np.asarray(tokens, np.int32)), position, state, sequence).numpy()[0]


def text(model):
    """Prefill a text and decode behind it; return the logits after the prompt and after every step."""
    state = model.state(1, 64)
    logits = [prefill(model, state, TOKENS[:PROMPT], 0)]
    return logits + [decode(model, state, [TOKENS[at]], [at])[0] for at in range(PROMPT, PROMPT + STEPS)]


@pytest.fixture(params=[False, True], ids=["plain ops", "fused"])
def fused(request):
    return request.param


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", MINIS)
def test_logits_are_those_of_numpy(tmp_path, stream, name, dtype, fused):
    """The logits agree after the prompt, after each of 32 decode steps, and after a longer prompt."""
    family = Family(name, dtype)
    expected = ReferenceModel(family.config, family.weights).logits(TOKENS)
    model = load(Checkpoint(family.write_mlx(tmp_path)), fused=fused)
    for found, row in zip(text(model), expected[PROMPT - 1 :], strict=True):
        assert relative(found, row) < TOLERANCE[dtype]
    assert relative(prefill(model, model.state(1, 64), TOKENS, 0), expected[-1]) < TOLERANCE[dtype]


@pytest.mark.parametrize("name", ["qwen3-moe-mini", "qwen3.5-mini"])
def test_short_prompts_take_experts_as_steps_do(tmp_path, stream, monkeypatch, name):
    """Up to the tokens that the device's table has, and with the logits of products that are grouped by expert."""
    model = load(Checkpoint(Family(name, "float32").write_mlx(tmp_path)))
    here, fused, taken = target_of(stream), Moe.fused, []
    monkeypatch.setattr(Moe, "fused", lambda self, x: (taken.append(len(x)), fused(self, x))[1])
    logits = []
    for most in (0, PROMPT - 1, PROMPT):
        table = replace(here.table, prompt_tokens=most)
        monkeypatch.setitem(target.targets, stream.device.index, replace(here, table=table))
        logits.append(prefill(model, model.state(1, 64), TOKENS[:PROMPT], 0))
        assert taken == [PROMPT] * (most == PROMPT) * len(model.layers)
    assert logits[0].tobytes() == logits[1].tobytes()
    assert relative(logits[2], logits[0]) < 1e-5


def has_transformers():
    """Return whether the interpreter has the library."""
    code = "import importlib.util as u, sys; sys.exit(not (u.find_spec('transformers') and u.find_spec('torch')))"
    return subprocess.run([PYTHON, "-I", "-c", code], check=False).returncode == 0


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The logits of transformers after every token, by the name of the family and the dtype of the weights."""
    if not has_transformers():
        pytest.skip("a dev extra: pip install transformers torch")
    folder = tmp_path_factory.mktemp("published")
    families = {(name, dtype): Family(name, dtype) for name in MINIS for dtype in TOLERANCE}
    folders = [family.write_published(folder / "-".join(key)) for key, family in families.items()]
    np.save(folder / "tokens.npy", TOKENS)
    command = [PYTHON, "-I", transformers_logits.__file__, folder / "tokens.npy", *folders]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    return {key: (family, np.load(at / "logits.npy")) for (key, family), at in zip(families.items(), folders)}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", MINIS)
def test_logits_are_those_of_transformers(tmp_path, stream, published, name, dtype, fused):
    """The logits agree with the published code in float32, after the prompt and after each of 32 decode steps."""
    family, logits = published[name, dtype]
    model = load(Checkpoint(family.write_mlx(tmp_path)), fused=fused)
    for found, row in zip(text(model), logits[PROMPT - 1 :], strict=True):
        assert relative(found, row) < TOLERANCE[dtype]


@pytest.mark.parametrize("name", MINIS)
def test_the_reference_is_that_of_transformers(published, name):
    """The numpy forward pass, against which every other test holds ours, gives what the published code gives."""
    family, logits = published[name, "float32"]
    assert relative(ReferenceModel(family.config, family.weights).logits(TOKENS), logits) < 1e-5


@pytest.mark.parametrize("name", MINIS)
def test_layouts_give_the_same_model(tmp_path, stream, name):
    """The published layout, MLX's, and MLX's inside a model of several parts give the same numbers."""
    family = Family(name, "float32")
    folders = [
        family.write_published(tmp_path / "published"),
        family.write_mlx(tmp_path / "mlx"),
        family.write_mlx(tmp_path / "nested", is_nested=True),
    ]
    plain, codes, same = (
        prefill(model, model.state(1, 32), TOKENS[:PROMPT], 0)
        for model in (load(Checkpoint(folder), form=None) for folder in folders)
    )
    assert relative(plain, codes) < 1e-5
    assert same.tobytes() == codes.tobytes()


@pytest.mark.parametrize("layout", ["published", "mlx"])
@pytest.mark.parametrize("name", MINIS)
def test_copies_that_come_late_give_the_same_model(tmp_path, stream, monkeypatch, name, layout):
    """Nothing that loads a model uses weights that threads are still reading."""
    family, read = Family(name, "float32"), Part.copy
    folder = getattr(family, f"write_{layout}")(tmp_path)
    expected = prefill(model := load(Checkpoint(folder)), model.state(1, 32), TOKENS[:PROMPT], 0)
    monkeypatch.setattr(Part, "copy", lambda self, piece: (time.sleep(0.02), read(self, piece)))
    found = prefill(model := load(Checkpoint(folder)), model.state(1, 32), TOKENS[:PROMPT], 0)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", ["qwen3-moe-mini", "qwen3.5-mini"])
def test_experts_that_are_one_tensor(tmp_path, stream, name):
    """Newer checkpoints, which stack the experts' matrices with gate and up in one, are read."""
    family = Family(name, "float32")
    apart = load(Checkpoint(family.write_published(tmp_path / "apart")), form=None)
    for layer in range(family.config["num_hidden_layers"]):
        at = f"model.layers.{layer}.mlp.experts"
        gate, up, down = (
            np.stack([family.weights.pop(f"{at}.{i}.{part}_proj.weight") for i in range(family.config["num_experts"])])
            for part in ("gate", "up", "down")
        )
        family.weights |= {f"{at}.gate_up_proj": np.concatenate([gate, up], axis=1), f"{at}.down_proj": down}
    stacked = load(Checkpoint(family.write_published(tmp_path / "stacked")), form=None)
    for one, other in zip(apart.layers, stacked.layers):
        for part in ("gate_up", "down"):
            a, b = (getattr(layer.feed, part).weight.numpy() for layer in (one, other))
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_plain_weights_are_quantised_as_they_are_loaded(tmp_path, stream, dtype):
    """Plain weights become the codes of MLX's quantize, routers 8 bits; the dtype is that of the file."""
    family = Family("qwen3-moe-mini", dtype)
    model = load(Checkpoint(family.write_published(tmp_path, dtype)), form=Format("affine", 32, 8))
    stored = Checkpoint(tmp_path).tensor("model.layers.1.self_attn.o_proj.weight", (128, 256), model.dtype)
    output = model.layers[1].mixer.output
    found = (part.numpy().tobytes() for part in (output.weight, output.scales, output.biases))
    assert tuple(found) == tuple(part.tobytes() for part in quantize(stored, 32, 8))
    assert load(Checkpoint(tmp_path)).layers[0].feed.router.bits == ROUTER_BITS
    assert load(Checkpoint(tmp_path)).layers[0].feed.down.bits == BITS


@pytest.mark.parametrize("mode", FLOATING)
def test_plain_weights_are_quantised_to_floating_codes(tmp_path, stream, mode):
    """What the engine writes of them is what it writes of the same weights quantised before; routers keep integers."""
    family = Family("qwen3-moe-mini", "float32")
    checkpoint = Checkpoint(family.write_published(tmp_path, "float32"))
    model = load(checkpoint, form=Request(q_mode=mode).form)
    stored = checkpoint.tensor("model.layers.1.self_attn.o_proj.weight", (128, 256), model.dtype)
    output = model.layers[1].mixer.output
    assert (output.mode, output.group_size, output.bits, output.biases) == (mode, *FLOATING[mode], None)
    for part, exact in zip((output.weight, output.scales), quantize_floating(np.asarray(stored), mode)):
        np.testing.assert_array_equal(part.numpy(), exact)
    router = model.layers[0].feed.router
    assert (router.mode, router.bits) == ("affine", ROUTER_BITS)
    report = generate(Request(model=tmp_path, q_mode=mode, prompt_ids=((1, 2, 3),), tokens=4, verify=True))
    assert report.verified


def test_a_mode_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match="q_mode=fp2: must be one of affine, mxfp4, mxfp8, nvfp4"):
        Request(q_mode="fp2")


def test_formats_that_differ_become_the_widest(tmp_path, stream):
    """Queries of 4 bits, keys of 8 in smaller groups and plain values share a matrix without loss."""
    family = Family("qwen3-mini", "float32")
    expected = ReferenceModel(family.config, family.weights).logits(TOKENS[:PROMPT])[-1]
    for layer, kind in ((0, "k_proj"), (1, "v_proj")):
        module = f"model.layers.{layer}.self_attn.{kind}"
        if kind == "k_proj":
            wide = quantize(family.weights[f"{module}.weight"], 32, 8)
            family.codes[module] = (*wide, 32, 8)
        else:
            family.codes.pop(module)
    model = load(Checkpoint(family.write_mlx(tmp_path)))
    assert (model.layers[0].mixer.projection.bits, model.layers[0].mixer.projection.group_size) == (8, 32)
    assert model.layers[1].mixer.projection.scales is None
    assert relative(prefill(model, model.state(1, 32), TOKENS[:PROMPT], 0), expected) < 1e-2


@pytest.mark.parametrize("name", ["qwen3-mini", "qwen3-moe-mini", "qwen3.5-mini"])
def test_sequences_do_not_see_each_other(tmp_path, stream, name, fused):
    """Three texts of different lengths, one of them begun anew, are written as if each were alone."""
    model = load(Checkpoint(Family(name, "bfloat16").write_mlx(tmp_path)), fused=fused)
    texts = [TOKENS[:7], TOKENS[3:6], TOKENS[10:22]]
    together = model.state(3, 64)
    prefill(model, together, TOKENS[20:40], 1)
    for kept in together:
        kept.reset(1)
    for sequence, tokens in enumerate(texts):
        prefill(model, together, tokens, sequence)
    alone = [model.state(1, 64) for _ in texts]
    for state, tokens in zip(alone, texts):
        prefill(model, state, tokens, 0)
    for step in range(4):
        at = [len(tokens) + step for tokens in texts]
        rows = decode(model, together, [50 + step, 60, 70 - step], at)
        for row, state, token, position in zip(rows, alone, (50 + step, 60, 70 - step), at):
            assert relative(row, decode(model, state, [token], [position])[0].astype(np.float64)) < 1e-2


@pytest.mark.parametrize("name", MINIS)
def test_a_graph_gives_the_bits_of_eager_steps(tmp_path, stream, name, fused):
    """From the second token on there is one launch for each, and the host reads nothing inside a step."""
    model = load(Checkpoint(Family(name, "bfloat16").write_mlx(tmp_path)), fused=fused)
    tokens, position = hiprt.zeros(2, np.int32), hiprt.zeros(2, np.int32)
    graph_state, eager_state = model.state(2, 64), model.state(2, 64)
    step = Step(partial(model.decode, tokens, position, graph_state), stream=stream)
    for at in range(20):
        tokens.set([TOKENS[at], TOKENS[40 - at]])
        position.set([at, at])
        before = stream.launches
        graph = step()
        assert stream.launches - before <= 2  # the graph, and the copy of its result
        assert graph.numpy().tobytes() == model.decode(tokens, position, eager_state).numpy().tobytes()
    assert step.rungs == {"replay": 19, "patch": 0, "update": 0, "instantiate": 1, "eager": 0}


def test_a_text_may_begin_by_decoding(tmp_path, stream, fused):
    """Tokens taken one by one leave the state that a prefill leaves."""
    model = load(Checkpoint(Family("qwen3.5-mini", "float32").write_mlx(tmp_path)), fused=fused)
    whole, single = model.state(1, 64), model.state(1, 64)
    logits = prefill(model, whole, TOKENS[:20], 0)
    for at in range(20):
        last = decode(model, single, TOKENS[at : at + 1], [at])[0]
    assert relative(last, logits.astype(np.float64)) < 1e-5
    after = [decode(model, state, [TOKENS[20]], [20])[0] for state in (whole, single)]
    assert relative(after[0], after[1].astype(np.float64)) < 1e-5


def test_a_shared_expert_may_have_its_own_width(tmp_path, stream, fused):
    """A shared expert of another width is no member of the stack."""
    family = Family("qwen3.5-mini", "float32", shared_expert_intermediate_size=192)
    model = load(Checkpoint(family.write_mlx(tmp_path)), fused=fused)
    state = model.state(1, 64)
    prefill(model, state, TOKENS[:8], 0)
    expected = ReferenceModel(family.config, family.weights).logits(TOKENS[:9])[-1]
    assert relative(decode(model, state, [TOKENS[8]], [8])[0], expected) < TOLERANCE["float32"]


def test_some_layers_may_be_dense(tmp_path, stream, fused):
    """Layers in ``mlp_only_layers`` have an MLP."""
    family = Family("qwen3-moe-mini", "float32", mlp_only_layers=[1])
    model = load(Checkpoint(family.write_mlx(tmp_path)), fused=fused)
    assert [layer for _, layer in model.config.layers] == ["moe", "mlp"]
    expected = ReferenceModel(family.config, family.weights).logits(TOKENS[:1])[-1]
    assert relative(decode(model, model.state(1, 32), TOKENS[:1], [0])[0], expected) < TOLERANCE["float32"]


def test_hybrids_without_experts(tmp_path, stream, fused):
    """Qwen3.5's dense models have no experts."""
    family = Family("qwen3.5-mini", "float32", num_experts=None, model_type="qwen3_5_text")
    model = load(Checkpoint(family.write_mlx(tmp_path)), fused=fused)
    expected = ReferenceModel(family.config, family.weights).logits(TOKENS[:1])[-1]
    assert relative(decode(model, model.state(1, 32), TOKENS[:1], [0])[0], expected) < TOLERANCE["float32"]


@pytest.mark.parametrize("name", MINIS)
def test_every_family_writes_text(tmp_path, name):
    """Plain weights, left so or quantised, give the logits of an eager run."""
    folder = Family(name, "bfloat16").write_published(tmp_path, "bfloat16")
    for plain in (False, True):
        report = generate(Request(model=folder, prompt="Once upon", tokens=6, verify=True, plain=plain))
        assert report.verified
        assert report.tokens == 6
