"""Makes a small random model by mlx-lm's code, of two layers and four key heads, with the shipped model's tokenizer."""

import importlib
import shutil
import sys
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map
from mlx_lm.utils import save_config, save_model

from hiprt.bench.story import CHECKPOINT

folder, family, form = Path(sys.argv[1]), *sys.argv[2:]
config = {
    "model_type": family, "hidden_size": 128, "num_hidden_layers": 2, "intermediate_size": 256,
    "num_attention_heads": 4, "head_dim": 32, "num_key_value_heads": 4, "rms_norm_eps": 1e-6, "vocab_size": 1024,
    "max_position_embeddings": 1024, "tie_word_embeddings": False, "rope_theta": 1e4,
}  # fmt: skip
module = importlib.import_module(f"mlx_lm.models.{family}")
mx.random.seed(1)
model = module.Model(module.ModelArgs.from_dict(config))
model.update(tree_map(lambda each: 0.2 * mx.random.normal(each.shape), model.parameters()))
if form == "quantized":
    config["quantization"] = {"group_size": 32, "bits": 4}
    nn.quantize(model, **config["quantization"])
folder.mkdir()
save_model(folder, model)
save_config(config, folder / "config.json")
for each in ("tokenizer.json", "tokenizer_config.json"):
    shutil.copy(CHECKPOINT / each, folder)
