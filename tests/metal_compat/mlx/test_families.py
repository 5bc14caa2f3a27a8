"""Models of mlx-lm under ``hiprt run``: with recipes and without the same logits and caches."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mlx_lm")
pytestmark = [pytest.mark.timeout(600), pytest.mark.only("cpu", reason="what it shows is above the device")]
COMMON = {
    "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128, "num_attention_heads": 2, "head_dim": 32,
    "num_key_value_heads": 1, "rms_norm_eps": 1e-6, "vocab_size": 96, "max_position_embeddings": 512,
    "tie_word_embeddings": True, "rope_theta": 1e4,
}  # fmt: skip
FAMILIES = {
    "qwen3": {},
    "gemma3_text": {"sliding_window": 6, "sliding_window_pattern": 2, "query_pre_attn_scalar": 32},
    "qwen3_moe": {
        "num_experts": 4, "num_experts_per_tok": 2, "decoder_sparse_step": 1, "mlp_only_layers": [],
        "moe_intermediate_size": 64, "norm_topk_prob": True,
    },
    "deepseek_v3": {
        "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 64,
        "first_k_dense_replace": 1, "kv_lora_rank": 32, "q_lora_rank": 32, "qk_rope_head_dim": 16,
        "qk_nope_head_dim": 16, "v_head_dim": 32, "n_group": 1, "topk_group": 1, "num_key_value_heads": 2,
    },
}  # fmt: skip
CACHES = {"own": {}, "rotating": {"max_kv_size": 8}, "quantized": None}
PROGRAM = """
import importlib, json, sys
import numpy as np
import mlx.core as mx
from mlx.utils import tree_flatten, tree_map
from mlx_lm.models.cache import KVCache, QuantizedKVCache, make_prompt_cache
from hiprt.flags import flags
from hiprt.graphs.trace import lazy
from hiprt.metal_compat.mlx.module_calls import recipes_of

config, options, rows = json.loads(sys.argv[1])
module = importlib.import_module("mlx_lm.models." + config["model_type"])
mx.random.seed(1)
model = module.Model(module.ModelArgs.from_dict(config))
model.update(tree_map(lambda each: 0.2 * mx.random.normal(each.shape), model.parameters()))
tokens = np.random.default_rng(0).integers(0, 96, (26, rows, 1))
KVCache.step = QuantizedKVCache.step = 16
lower, passed, calls, grown = lazy.lower, lazy.passed, [], []


def lower_again(name, program, arrays, dead, before, earlier):
    calls.clear()
    made = lower(name, program, arrays, dead, before, earlier)
    if earlier is not None and not calls:
        grown.append(name)
        assert made.program.text() == passed(program, dead, arrays, made.constants).text()
    return made


def pass_once(*given):
    calls.append(1)
    return passed(*given)


lazy.lower, lazy.passed = lower_again, pass_once


def run(is_on, passes=("simplify", "dead_code", "fusion")):
    cache = make_prompt_cache(model, **options) if options is not None else None
    cache = cache or [QuantizedKVCache(group_size=32, bits=8) for _ in model.layers]
    found = []
    with flags.override(mlx_recipes=is_on, mlx_passes=passes):
        for each in [tokens[:5, :, 0].T, *tokens[5:]]:
            logits = model(mx.array(each), cache=cache)
            found.append(np.array(logits))
    held = tree_flatten([each.state for each in cache])
    return found, [np.array(each) if isinstance(each, mx.array) else each for _, each in held]


expected, made = run(False), run(True)
for ours, theirs in zip(made, expected):
    assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
for each in (lazy.known, lazy.seen):
    each.clear()
run(True, flags.mlx_passes)
print(recipes_of(model).uses, len(grown))
"""


@pytest.mark.parametrize(
    ("family", "cache", "rows", "grown"),
    [("qwen3", "own", 1, True), ("qwen3", "rotating", 2, False), ("qwen3", "quantized", 1, False),
     ("gemma3_text", "own", 1, True), ("qwen3_moe", "own", 2, False), ("deepseek_v3", "own", 1, False)],
)  # fmt: skip
def test_recipes_give_what_python_gives(family, cache, rows, grown, tmp_path):
    # A program that was inferred for longer caches is the one that the passes make.
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    work = json.dumps([{**COMMON, **FAMILIES[family], "model_type": family}, CACHES[cache], rows])
    done = subprocess.run(
        [sys.executable, "-m", "hiprt", "run", str(program), work],
        capture_output=True, text=True, timeout=500, env=os.environ | {"HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert not done.returncode, done.stderr
    uses, programs = map(int, done.stdout.split()[-2:])
    assert uses > 10
    assert bool(programs) is grown


SAMPLING = """
import json, sys
import mlx.core as mx
import mlx.nn as nn
from mlx_lm.generate import generate_step
from mlx_lm.models import qwen3
from mlx_lm.sample_utils import make_sampler

config, forms = json.loads(sys.argv[1])
for form in forms:
    mx.random.seed(0)
    model = qwen3.Model(qwen3.ModelArgs.from_dict(config))
    nn.quantize(model, group_size=64, bits=4)
    mx.eval(model.parameters())
    mx.random.seed(7)
    steps = generate_step(mx.array([1, 2, 3, 4, 5]), model, max_tokens=64, sampler=make_sampler(**form["options"]))
    tokens = [int(token) for token, _ in steps]
    assert tokens == form["tokens"], (form["options"], tokens)
print(mx.__name__, len(forms))
"""


@pytest.mark.wide
def test_sampled_tokens_are_those_of_mlx(tmp_path):
    # This program, with MLX 0.32's own CPU build in the place of the module, wrote the tokens.
    forms = json.loads(Path(__file__).with_name("sampled_tokens.json").read_text())
    config = {
        **COMMON, "model_type": "qwen3", "num_hidden_layers": 3, "hidden_size": 128, "intermediate_size": 256,
        "head_dim": 64, "vocab_size": 512, "max_position_embeddings": 4096, "rope_theta": 1e6,
    }  # fmt: skip
    program = tmp_path / "program.py"
    program.write_text(SAMPLING)
    done = subprocess.run(
        [sys.executable, "-m", "hiprt", "run", str(program), json.dumps([config, forms])],
        capture_output=True, text=True, timeout=500, env=os.environ | {"HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert not done.returncode, done.stderr
    assert done.stdout.split()[-1] == "4"


GREEDY = """
import importlib, json, sys
import numpy as np
import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.generate import generate_step

found = {}
for family, config in json.load(open(sys.argv[1])).items():
    module = importlib.import_module("mlx_lm.models." + config["model_type"])
    model = module.Model(module.ModelArgs.from_dict(config))
    draws = np.random.default_rng(3)
    weights = []
    for name, like in tree_flatten(model.parameters()):
        low, high = (-0.3, 0.3) if like.ndim > 1 else (0.5, 1.5)
        weights.append((name, mx.array(draws.uniform(low, high, like.shape).astype(np.float32))))
    model.update(tree_unflatten(weights))
    has_groups = lambda _, each: hasattr(each, "to_quantized") and each.weight.shape[-1] % 32 == 0
    nn.quantize(model, group_size=32, bits=4, class_predicate=has_groups)
    mx.eval(model.parameters())
    steps = generate_step(mx.array([1, 2, 3, 4, 5]), model, max_tokens=64)
    found[family] = [int(token) for token, _ in steps]
print(json.dumps(found))
"""


CONVERTED = """
import importlib, json, sys
from pathlib import Path
import numpy as np
import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.convert import convert
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import KVCache
from mlx_lm.utils import load
from tokenizers import Tokenizer, models

found = {}
KVCache.step = 16  # caches grow while the tokens are written
for family, config in json.load(open(sys.argv[1])).items():
    module = importlib.import_module("mlx_lm.models." + config["model_type"])
    shapes = tree_flatten(module.Model(module.ModelArgs.from_dict(config)).parameters())
    draws = np.random.default_rng(3)
    weights = {}
    for name, like in shapes:
        low, high = (-0.3, 0.3) if like.ndim > 1 else (0.5, 1.5)
        weights[name] = mx.array(draws.uniform(low, high, like.shape).astype(np.float32))
    source, made = Path(family), Path(family + "-4bit")
    source.mkdir()
    mx.save_safetensors(str(source / "model.safetensors"), weights, metadata={"format": "mlx"})
    (source / "config.json").write_text(json.dumps(config))
    words = {f"word{i}": i for i in range(96)}
    Tokenizer(models.WordLevel(words, unk_token="word0")).save(str(source / "tokenizer.json"))
    (source / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    convert(str(source), str(made), quantize=True, q_group_size=32, q_bits=4)
    model, _ = load(str(made))
    steps = generate_step(mx.array([1, 2, 3, 4, 5]), model, max_tokens=64)
    found[family] = [int(token) for token, _ in steps]
print(json.dumps(found))
"""


@pytest.mark.wide
@pytest.mark.parametrize(("text", "tokens"), [(GREEDY, "tokens"), (CONVERTED, "converted")])
def test_greedy_tokens_of_twelve_families_are_those_of_mlx(text, tokens, tmp_path):
    # This program, with MLX 0.32's own CPU build in the place of the module, wrote the tokens.
    families = json.loads(Path(__file__).with_name("greedy_tokens.json").read_text())
    program, configs = tmp_path / "program.py", tmp_path / "configs.json"
    program.write_text(text)
    configs.write_text(json.dumps({name: each["config"] for name, each in families.items()}))
    done = subprocess.run(
        [sys.executable, "-m", "hiprt", "run", str(program), str(configs)],
        capture_output=True, text=True, timeout=500, env=os.environ | {"HF_HUB_OFFLINE": "1"}, cwd=tmp_path,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == 12
    for name, each in families.items():
        assert found[name] == each[tokens], name
