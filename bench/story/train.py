"""Train the story model and write it as a 4-bit Hugging Face directory: ``python -m hiprt.bench.story.train``.

The second part of the training sees its weights as the checkpoint will store them, so that little is lost in storing.
Needs torch; one H200 takes a few minutes, ``--rows 64 --steps 4 --hidden 128 --layers 2`` tries the script on a CPU.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from hiprt.bench.story import CHECKPOINT, corpus, grammar
from hiprt.bench.story.prompts import score
from hiprt.bench.story.reference import Model
from hiprt.kernels.reference.quantize import quantize

try:
    import torch

    from hiprt.bench.story import torch_model
except ImportError as error:
    raise SystemExit("training needs torch: install it beside hiprt, for example with pip install torch") from error


def main() -> None:
    """Train, write the directory, score it."""
    options = _options()
    began = time.perf_counter()
    torch.manual_seed(options.seed)
    written = list(corpus.rows(options.rows, options.seed, options.workers))
    tokenizer = corpus.tokenizer([story.rest for row in written[:2000] for story in row.stories], options.vocabulary)
    tokens, targets = corpus.encode(written, tokenizer, options.length)
    print(f"{tokens.size / 1e6:.1f} M tokens in {len(tokens)} rows, {time.perf_counter() - began:.0f} s", flush=True)

    config = _config(options, tokenizer.get_vocab_size(), corpus.end_of_text(tokenizer))
    weights, losses = _train(options, config, torch.from_numpy(tokens), torch.from_numpy(targets))
    seconds = time.perf_counter() - began
    sampled = _sampled_rate(config, weights, tokenizer, options.seed)

    options.out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(options.out / "tokenizer.json"))
    parameters = _export(options.out, config, weights)
    result = score(Model(options.out).write)
    report = {
        "parameters": parameters,
        "training_tokens": options.steps * options.batch * options.length,
        "distinct_tokens": int(tokens.size),
        "seconds": round(seconds, 1),
        "machine": torch.cuda.get_device_name() if options.device == "cuda" else platform.machine() + " CPU",
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__},
        "options": {k: v for k, v in vars(options).items() if k not in {"out", "workers"}},
        "loss": losses,
        "prompts": {"sentences": result.sentences, "parse_rate": result.rate, "faults": result.faults},
        "sampled": sampled,
    }
    (options.out / "training.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({k: report[k] for k in ("parameters", "seconds", "machine", "prompts", "sampled")}, indent=1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--out", type=Path, default=CHECKPOINT, help="directory to write")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes that write stories")
    parser.add_argument("--rows", type=int, default=50_000, help="distinct training rows")
    parser.add_argument("--length", type=int, default=1024, help="tokens of a row")
    parser.add_argument("--batch", type=int, default=32, help="rows of a step")
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--rate", type=float, default=2e-3, help="highest learning rate")
    parser.add_argument("--rounded-from", type=float, default=0.5, help="part of the steps before 4-bit rounding")
    parser.add_argument("--vocabulary", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    return parser.parse_args()


def _config(options: argparse.Namespace, vocabulary: int, end: int) -> dict[str, Any]:
    quantization = {"group_size": 64, "bits": 4}
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": end,
        "eos_token_id": end,
        "head_dim": 64,
        "hidden_act": "silu",
        "hidden_size": options.hidden,
        "initializer_range": 0.02,
        "intermediate_size": 3 * options.hidden,
        "max_position_embeddings": options.length,
        "max_window_layers": options.layers,
        "num_attention_heads": options.hidden // 64,
        "num_hidden_layers": options.layers,
        "num_key_value_heads": options.hidden // 128,
        "quantization": quantization,
        "quantization_config": quantization,
        "rms_norm_eps": 1e-6,
        "rope_scaling": None,
        "rope_theta": 1_000_000,
        "sliding_window": None,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": vocabulary,
    }


def _train(
    options: argparse.Namespace, config: dict[str, Any], tokens: torch.Tensor, targets: torch.Tensor
) -> tuple[torch_model.Weights, list[tuple[int, float]]]:
    """Train; return the weights, and pairs of a step and its loss."""
    weights = torch_model.initial(config, options.seed, options.device)
    matrices = [w for w in weights.values() if w.dim() == 2]
    vectors = [w for w in weights.values() if w.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
        betas=(0.9, 0.95),
        fused=options.device == "cuda",
    )
    tokens, targets = tokens.to(options.device), targets.to(options.device)
    order = np.random.default_rng(options.seed)
    losses: list[tuple[int, float]] = []
    began = time.perf_counter()
    for step in range(options.steps):
        for group in optimizer.param_groups:
            group["lr"] = options.rate * _schedule(step, options.steps)
        chosen = torch.from_numpy(order.integers(len(tokens), size=options.batch)).to(options.device)
        used = _stored(weights, config) if step >= options.rounded_from * options.steps else weights
        with torch.autocast(options.device, torch.bfloat16, enabled=options.device == "cuda"):
            out = torch_model.logits(config, used, tokens[chosen])
        loss = torch.nn.functional.cross_entropy(
            out.float().flatten(0, 1), targets[chosen].flatten(), ignore_index=corpus.IGNORED
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
        optimizer.step()
        if step % max(1, options.steps // 60) == 0 or step == options.steps - 1:
            losses.append((step, round(loss.item(), 4)))
            print(f"step {step}: loss {losses[-1][1]:.4f}, {time.perf_counter() - began:.0f} s", flush=True)
    return {name: w.detach() for name, w in weights.items()}, losses


def _schedule(step: int, steps: int) -> float:
    """Return the part of the highest rate for a step: a linear rise, then half a cosine down to a hundredth."""
    warm = max(1, steps // 30)
    if step < warm:
        return (step + 1) / warm
    return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


def _stored(weights: torch_model.Weights, config: dict[str, Any]) -> torch_model.Weights:
    return torch_model.rounded(weights, config["quantization"]["group_size"], config["quantization"]["bits"])


def _sampled_rate(
    config: dict[str, Any], weights: torch_model.Weights, tokenizer: Any, seed: int, count: int = 128, length: int = 200
) -> dict[str, Any]:
    """Score stories that the stored weights write from nothing, drawn at temperature 1."""
    used = _stored(weights, config)
    device = used["model.norm"].device
    torch.manual_seed(seed)
    tokens = torch.full((count, 1), config["bos_token_id"], device=device)
    with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        for _ in range(min(length, config["max_position_embeddings"] - 1)):
            likely = torch_model.logits(config, used, tokens)[:, -1].float().softmax(dim=-1)
            tokens = torch.cat([tokens, torch.multinomial(likely, 1)], dim=1)
    found = faults = misnamed = 0
    for ids in tokens[:, 1:].tolist():
        story = tokenizer.decode(ids[: ids.index(config["eos_token_id"])] if config["eos_token_id"] in ids else ids)
        wrong = sum(not grammar.parse(sentence) for sentence in grammar.sentences(story))
        found, faults = found + len(grammar.sentences(story)), faults + wrong
        misnamed += len(grammar.check_story(story)) - wrong
    return {"sentences": found, "parse_rate": 1 - faults / max(1, found), "wrong_pronouns": misnamed}


def _export(directory: Path, config: dict[str, Any], weights: torch_model.Weights) -> int:
    """Write everything but the tokenizer itself; return the number of parameters."""
    stored: dict[str, NDArray[Any]] = {}
    for name, w in weights.items():
        array = w.cpu().numpy().astype(ml_dtypes.bfloat16)
        if array.ndim == 2:
            parts = quantize(array, **config["quantization"])
            stored.update(zip((f"{name}.weight", f"{name}.scales", f"{name}.biases"), parts))
        else:
            stored[f"{name}.weight"] = array
    (directory / "model.safetensors").write_bytes(save(stored, {"format": "mlx"}))
    parameters: int = sum(w.numel() for w in weights.values())
    sizes = {"total_size": sum(array.nbytes for array in stored.values()), "total_parameters": parameters}
    documents: dict[str, dict[str, Any]] = {
        "config": config,
        "generation_config": {"bos_token_id": config["bos_token_id"], "eos_token_id": config["eos_token_id"]},
        "tokenizer_config": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "add_prefix_space": False,
            "bos_token": corpus.END_OF_TEXT,
            "eos_token": corpus.END_OF_TEXT,
            "pad_token": corpus.END_OF_TEXT,
            "clean_up_tokenization_spaces": False,
            "model_max_length": config["max_position_embeddings"],
        },
        "model.safetensors.index": {
            "metadata": sizes,
            "weight_map": dict.fromkeys(sorted(stored), "model.safetensors"),
        },
    }
    for name, document in documents.items():
        (directory / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    return parameters


if __name__ == "__main__":
    main()
