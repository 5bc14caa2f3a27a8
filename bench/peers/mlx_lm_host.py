"""mlx-lm: what a token costs the thread that asks for it, with MLX or with hiprt's module by ``hiprt run``.

The model is qwen3 with 36 layers so small that little is computed. Times are CPU time of the calling thread: building
the token's graph (the model, the last row's logits, argmax), and `async_eval`, which with MLX only hands the graph to
another thread. ``HIPRT_MLX_RECIPES=0`` shows what the model's Python costs.
"""

import json
import sys
import time
from statistics import median
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models import qwen3
from mlx_lm.models.cache import make_prompt_cache

LAYERS, TOKENS, WARM = 36, 60, 20


def model_of(layers: int) -> Any:
    """Return a small quantised model with random weights."""
    config = {
        "model_type": "qwen3", "num_hidden_layers": layers, "hidden_size": 128, "intermediate_size": 256,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 64, "vocab_size": 512, "rms_norm_eps": 1e-6,
        "max_position_embeddings": 4096, "rope_theta": 1e6, "tie_word_embeddings": True,
    }  # fmt: skip
    mx.random.seed(0)
    model = qwen3.Model(qwen3.ModelArgs.from_dict(config))
    nn.quantize(model, group_size=64, bits=4)
    mx.eval(model.parameters())
    return model


def main() -> None:
    """Print the median times of a token as JSON; the first argument may be the number of layers."""
    layers = int(sys.argv[1]) if len(sys.argv) > 1 else LAYERS
    model = model_of(layers)
    cache: Any = make_prompt_cache(model)
    token, built, launched = mx.array([1]), [], []
    for _ in range(WARM + TOKENS):
        start = time.thread_time()
        logits = model(token[None], cache=cache)[:, -1, :]
        token = mx.argmax(logits, axis=-1)
        middle = time.thread_time()
        mx.async_eval(token, logits)
        launched.append(time.thread_time() - middle)
        built.append(middle - start)
        mx.eval(token)
    answer = {
        "layers": layers,
        "build_us": round(1e6 * median(built[WARM:])),
        "launch_us": round(1e6 * median(launched[WARM:])),
        "core": mx.__name__,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
