"""mlx-lm: its own `stream_generate` on a model of random weights, with MLX or with hiprt's module by ``hiprt run``."""

import importlib
import itertools
import json
import sys
import time
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.generate import stream_generate
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.tokenizer_utils import NaiveStreamingDetokenizer, TokenizerWrapper

FORM: Any = {"group_size": 64, "bits": 4}
CODES = 4.6  # the standard deviation of uniform codes of 4 bits
Answer = dict[str, Any]


class Numbers:
    """A tokenizer whose texts are the tokens' numbers."""

    eos_token_id = chat_template = None
    clean_up_tokenization_spaces = False

    def encode(self, text: str, **options: Any) -> list[int]:
        """Return a token for each character."""
        return list(map(ord, text))

    def decode(self, tokens: Any, **options: Any) -> str:
        """Return the text of tokens, a line for each, so that no tokens but the last are turned into text again."""
        return "".join(f"{token}\n" for token in tokens)

    def apply_chat_template(self, messages: Any, **options: Any) -> list[int]:
        """Return the tokens of all messages."""
        return [token for each in messages for token in self.encode(each["content"])]

    def get_vocab(self) -> dict[str, int]:
        """Return no names: no token has a meaning of its own."""
        return {}


def drawn(name: str, like: Any, columns: int) -> Any:
    """Return a random parameter of the shape and dtype of another; codes, scales and biases of a matrix go together."""
    if like.dtype == mx.uint32:
        low, high = (mx.random.randint(0, 1 << 16, like.shape).astype(mx.uint32) for _ in range(2))
        return high * (1 << 16) + low
    scale = columns**-0.5 / CODES
    if name.endswith(".scales"):
        return mx.full(like.shape, scale, mx.bfloat16)
    if name.endswith(".biases"):
        return mx.full(like.shape, -7.5 * scale, mx.bfloat16)
    noise = mx.random.normal(like.shape)
    return (like + 0.1 * noise if like.ndim < 2 else noise * like.shape[-1] ** -0.5).astype(mx.bfloat16)


def model_of(config: Answer) -> Any:
    """Return a model of mlx-lm with quantised random weights; no weight of full width is ever there."""
    module = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    model = module.Model(module.ModelArgs.from_dict(config))
    nn.quantize(model, **FORM)
    shapes = dict(tree_flatten(model.parameters()))
    for name, like in shapes.items():
        scales = shapes.get(name.rpartition(".")[0] + ".scales")
        made = drawn(name, like, 1 if scales is None else scales.shape[-1] * FORM["group_size"])
        mx.eval(made)
        model.update(tree_unflatten([(name, made)]))
    return model


def rungs() -> tuple[dict[str, int], int]:
    """Return how often hiprt's lazy graphs took each rung, and the nodes of the largest that is there."""
    lazy: Any = sys.modules.get("hiprt.graphs.trace.lazy")
    steps = [lowered.step for lowered in lazy.known.values()] if lazy else []
    found: dict[str, int] = {}
    for step in steps:
        for rung, n in step.rungs.items():
            found[rung] = found.get(rung, 0) + n
    return found, max((step.nodes for step in steps), default=0)


def main() -> None:
    """Measure the workload in the first argument, which is JSON: the model's ``config``, ``context`` and ``tokens``."""
    work = json.loads(sys.argv[1])
    mx.random.seed(0)
    start = time.perf_counter()
    model = model_of(work["config"])
    loading = time.perf_counter() - start
    mx.clear_cache()
    mx.reset_peak_memory()
    weights = sum(each.nbytes for _, each in tree_flatten(model.parameters()))
    tokenizer = TokenizerWrapper(Numbers(), NaiveStreamingDetokenizer)
    cache = make_prompt_cache(model)
    prompt = [1 + i % 97 for i in range(work["context"])]
    before, _ = rungs()
    times, tokens = [], []
    start = time.perf_counter()
    for each in stream_generate(model, tokenizer, prompt, work["tokens"], prompt_cache=cache):
        times.append(time.perf_counter())
        tokens.append(each.token)
    after, nodes = rungs()
    taken = {rung: n - before.get(rung, 0) for rung, n in after.items()}
    half = len(times) // 2
    kept = sum(each.nbytes for layer in cache for _, each in tree_flatten(layer.state) if isinstance(each, mx.array))
    answer = {
        "model": work.get("name", work["config"]["model_type"]),
        "device": str(mx.device_info().get("device_name", mx.default_device())),
        "load_s": round(loading, 2),
        "first_token_s": round(times[0] - start, 3),
        "first_half_tok_s": round((half - 1) / (times[half - 1] - times[0]), 1),
        "tok_s": round((len(times) - 1 - half) / (times[-1] - times[half]), 1),
        "tok_s_by_256": [
            round((len(part) - 1) / (part[-1] - part[0]), 1)
            for part in (times[i : i + 257] for i in range(0, len(times) - 1, 256))
        ],
        "slowest_ms": [round(1e3 * each, 1) for each in sorted(b - a for a, b in itertools.pairwise(times))[-6:]],
        "rungs": taken,
        "nodes": nodes,
        "replay_share": round(taken.get("replay", 0) / len(times), 4),
        "weights_mib": weights >> 20,
        "cache_mib": kept >> 20,
        "peak_mib": mx.get_peak_memory() >> 20,
        "peak_of_weights_and_cache": round(mx.get_peak_memory() / (weights + kept), 3),
        "tokens": tokens[:8],
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
