import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from hiprt.bench.story import CHECKPOINT, grammar
from hiprt.bench.story.prompts import PROMPTS, score
from hiprt.bench.story.reference import Model, load_weights
from hiprt.kernels.reference.quantize import dequantize


@pytest.fixture(scope="module")
def model():
    return Model()


@pytest.mark.wide(turn=1)
def test_at_least_95_percent_of_the_sentences_parse(model):
    result = score(model.write)
    assert result.sentences >= 60
    assert result.rate >= 0.95, result.faults


def test_the_checkpoint_is_small_and_complete():
    names = {"config", "generation_config", "tokenizer", "tokenizer_config", "model.safetensors.index"}
    assert all(json.loads((CHECKPOINT / f"{name}.json").read_text()) for name in names)
    assert sum(path.stat().st_size for path in CHECKPOINT.iterdir()) <= 4 * 2**20
    index = json.loads((CHECKPOINT / "model.safetensors.index.json").read_text())
    tensors = load_file(CHECKPOINT / "model.safetensors")
    assert set(index["weight_map"]) == set(tensors)
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in tensors.values())
    assert 2_000_000 <= index["metadata"]["total_parameters"] <= 6_000_000
    assert index["metadata"]["total_parameters"] == sum(
        tensor.size * (8 if tensor.dtype == np.uint32 else 1)
        for name, tensor in tensors.items()
        if name.endswith(".weight")
    )


def test_every_tensor_has_the_layout_of_4_bit_qwen3(model):
    config, tensors = model.config, load_file(CHECKPOINT / "model.safetensors")
    hidden, inner, width = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    heads, groups = config["num_attention_heads"] * width, config["num_key_value_heads"] * width
    matrices = {
        "self_attn.q_proj": (heads, hidden),
        "self_attn.k_proj": (groups, hidden),
        "self_attn.v_proj": (groups, hidden),
        "self_attn.o_proj": (hidden, heads),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }
    vectors = {"input_layernorm": hidden, "post_attention_layernorm": hidden}
    vectors |= {"self_attn.q_norm": width, "self_attn.k_norm": width}
    layers = [f"model.layers.{layer}." for layer in range(config["num_hidden_layers"])]
    expected = {"model.norm.weight": ("bfloat16", (hidden,))}
    quantised = {at + name: shape for at in layers for name, shape in matrices.items()}
    for name, (n, k) in (quantised | {"model.embed_tokens": (config["vocab_size"], hidden)}).items():
        expected[f"{name}.weight"] = ("uint32", (n, k // 8))
        expected[f"{name}.scales"] = expected[f"{name}.biases"] = ("bfloat16", (n, k // 64))
    expected |= {f"{at}{name}.weight": ("bfloat16", (size,)) for at in layers for name, size in vectors.items()}
    assert {name: (str(tensor.dtype), tensor.shape) for name, tensor in tensors.items()} == expected


def test_any_text_can_be_encoded_and_comes_back(model):
    for text in ("", "Grüße aus 東京 🦊\n\t\x00", *PROMPTS, grammar.generate(1)):
        assert model.tokenizer.decode(model.tokenizer.encode(text).ids) == text
    assert model.tokenizer.get_vocab_size() == model.config["vocab_size"]
    assert len(model.tokenizer.encode(grammar.generate(1)).ids) < 1.5 * len(grammar.generate(1).split())


def test_a_step_depends_on_the_tokens_before_it_alone(model):
    tokens = model.tokenizer.encode(PROMPTS[0]).ids
    first = [model.step(token, position) for position, token in enumerate(tokens)]
    model.step(7, len(tokens))
    again = [model.step(token, position) for position, token in enumerate(tokens)]
    assert np.array_equal(first, again)
    assert not np.array_equal(model.step(tokens[-1], 0), first[-1])
    assert first[0].shape == (model.config["vocab_size"],)
    assert first[0].dtype == np.float32


def test_weights_are_dequantised_in_float32(model):
    tensors = load_file(CHECKPOINT / "model.safetensors")
    name = "model.layers.0.mlp.down_proj"
    rounded = dequantize(*(tensors[f"{name}.{part}"] for part in ("weight", "scales", "biases")))
    weights = load_weights(CHECKPOINT, model.config)
    assert weights[name].dtype == np.float32
    assert np.allclose(weights[name], rounded.astype(np.float32), atol=2e-2 * np.abs(weights[name]).max())


def test_the_training_report_says_where_it_came_from():
    report = json.loads((CHECKPOINT / "training.json").read_text())
    assert report["machine"] == "NVIDIA H200"
    assert report["prompts"]["parse_rate"] >= 0.95
    assert report["loss"][-1][1] < report["loss"][0][1] / 4
