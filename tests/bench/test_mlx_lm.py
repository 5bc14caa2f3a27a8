"""mlx-lm's checkpoints: its greedy tokens in float32, for every family and format. Needs the extra `dev`."""

import importlib
import json
import shutil

import pytest

from hiprt.bench.engine.checkpoint import Checkpoint
from hiprt.bench.engine.decoder import Decoder
from hiprt.bench.engine.models import load
from hiprt.bench.story import CHECKPOINT

mx = pytest.importorskip("mlx.core")
mlx_lm = pytest.importorskip("mlx_lm")

PROMPT, TOKENS = [5, 17, 99, 200, 3], 24
SIZES = {
    "vocab_size": 320,
    "hidden_size": 256,
    "intermediate_size": 384,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
}
ROPE = {"rope_theta": 10000.0}
DELTA = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 64,
    "linear_value_head_dim": 64,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 2,
}
MIXTURE = {
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 128,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
SHARED = {"shared_expert_intermediate_size": 128}
# mlx-lm reads the rotary settings of Qwen3.5 here only.
NESTED = {
    "rope_parameters": {"type": "default", "mrope_section": [11, 11, 10], "partial_rotary_factor": 0.25, **ROPE},
}
FAMILIES = {
    "qwen3": SIZES | ROPE,
    "qwen3_moe": SIZES | ROPE | MIXTURE,
    "qwen3_next": SIZES | ROPE | DELTA | MIXTURE | SHARED | {"partial_rotary_factor": 0.25},
    "qwen3_5": SIZES | DELTA | NESTED,
    "qwen3_5_moe": SIZES | DELTA | NESTED | MIXTURE | SHARED,
}
FORMS = {
    "plain": None,
    "4 bits": {"q_bits": 4, "q_group_size": 64},
    "3 bits": {"q_bits": 3, "q_group_size": 64},
    "8 bits": {"q_bits": 8, "q_group_size": 64},
    "groups of 32": {"q_bits": 4, "q_group_size": 32},
    "groups of 128": {"q_bits": 4, "q_group_size": 128},
    "mixed_2_6": {"quant_predicate": "mixed_2_6"},
    "mixed_3_6": {"quant_predicate": "mixed_3_6"},
    "mixed_4_6": {"quant_predicate": "mixed_4_6"},
    "mxfp4": {"q_mode": "mxfp4"},
    "mxfp8": {"q_mode": "mxfp8"},
    "nvfp4": {"q_mode": "nvfp4"},
}


def write(folder, family):
    """Write a random model of a family in float32."""
    from mlx.utils import tree_flatten, tree_map

    module = importlib.import_module(f"mlx_lm.models.{family}")
    config = {"model_type": family, **FAMILIES[family]}
    if family.startswith("qwen3_5"):
        text = {**FAMILIES[family], "model_type": f"{family}_text"}
        config = {"model_type": family, "text_config": text, "tie_word_embeddings": False}
    mx.random.seed(7)
    model = module.Model(module.ModelArgs.from_dict(config))

    def drawn(weight):
        noise = mx.random.normal(weight.shape)
        return (0.12 * noise if weight.ndim > 1 else weight + 0.1 * noise).astype(mx.float32)

    model.update(tree_map(drawn, model.parameters()))
    folder.mkdir(parents=True)
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    shutil.copy(CHECKPOINT / "tokenizer.json", folder)
    return folder


def theirs(folder):
    """Return the greedy tokens of mlx-lm."""
    from mlx_lm.generate import generate_step
    from mlx_lm.utils import load_model

    model, _ = load_model(folder)
    steps = generate_step(mx.array(PROMPT), model, max_tokens=TOKENS)
    return [int(token) for (token, _), _ in zip(steps, range(TOKENS))]


def ours(folder, stream):
    """Return the greedy tokens of the engine, from graphs."""
    decoder = Decoder(load(Checkpoint(folder), form=None), stream, 128)
    decoder.start([PROMPT])
    for _ in decoder.prefill():
        pass
    found = [decoder.token()]
    for _ in range(TOKENS - 1):
        decoder.step()
        found.append(decoder.token())
    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_are_those_of_mlx_lm(tmp_path, stream, family, form):
    """A directory that mlx-lm wrote gives mlx-lm's text."""
    folder = write(tmp_path / "plain", family)
    if FORMS[form] is not None:
        mlx_lm.convert(str(folder), str(tmp_path / "converted"), quantize=True, dtype="float32", **FORMS[form])
        folder = tmp_path / "converted"
    expected = theirs(folder)
    assert len(set(expected)) > 1
    assert ours(folder, stream) == expected
