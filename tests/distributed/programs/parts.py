"""One rank: models of which it has a part, whose logits are compared with those of the whole, which it has as well."""

import hashlib
import sys

import numpy as np

import hiprt
from hiprt import bfloat16
from hiprt.bench.engine.models.presets import HYBRID, MINI, MINI_MIXTURE, MOE, PRESETS, preset
from hiprt.distributed import Communicator
from hiprt.graphs import Step

BOUNDS = {"float32": 1e-5, "bfloat16": 0.02}  # of the largest logit's size
SIZES = {**MINI, "num_hidden_layers": 2, "intermediate_size": 256}
MIXTURE = {**SIZES, **MINI_MIXTURE, "moe_intermediate_size": 256}
PRESETS.update(
    dense={**PRESETS["qwen3-mini"], **SIZES, "tie_word_embeddings": True},
    moe={**MOE, **MIXTURE},
    hybrid={
        **HYBRID,
        **MIXTURE,
        "shared_expert_intermediate_size": 256,
        "full_attention_interval": 2,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 32,
        "linear_value_head_dim": 32,
    },
)


def logits(model, tokens, batch, dtype):
    """Return the logits behind a prompt, and of some tokens behind it for each of some texts, in a step."""
    state = model.state(batch, 64)
    place = hiprt.array(np.arange(5, dtype=np.int32))
    made = [model.prefill(hiprt.array(tokens[:5]), place, state, text).numpy() for text in range(batch)]
    token, position = hiprt.zeros(batch, np.int32), hiprt.zeros(batch, np.int32)
    step = Step(lambda: model.decode(token, position, state))
    for at in range(5, len(tokens)):
        token.set(np.roll(tokens, at)[:batch])
        position.set(np.full(batch, at))
        made.append(step().numpy())
    return np.concatenate(made).astype(np.float32)


tokens = np.random.default_rng(0).integers(0, 259, 12).astype(np.int32)
with Communicator(seconds=300) as ranks:
    for name, dtype, fused in [word.split(",") for word in sys.argv[1:]]:
        options = {"dtype": {"float32": np.float32, "bfloat16": bfloat16}[dtype], "fused": fused == "fused"}
        whole = logits(preset(name, **options), tokens, 2, dtype)
        split = logits(preset(name, ranks=ranks, **options), tokens, 2, dtype)
        ranks.check()
        assert split.shape == whole.shape
        apart = np.abs(split - whole).max() / np.abs(whole).max()
        if ranks.rank == 0:
            print(f"{name} {dtype} {fused}: {apart:.2g} apart, {(split.argmax(1) == whole.argmax(1)).mean():.0%} agree")
        assert apart < BOUNDS[dtype], (name, dtype, fused, apart)
        everyone = ranks.all_gather_value(hashlib.sha256(split.tobytes()).hexdigest())
        assert all(each == everyone[0] for each in everyone)
