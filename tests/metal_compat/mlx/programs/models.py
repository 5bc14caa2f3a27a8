"""One rank: tokens and likelihoods that mlx-lm's unmodified code makes with a model of which this rank has a part."""

import json
import sys
from pathlib import Path

import mlx.core as mx
import numpy as np
from mlx_lm.generate import generate_step
from mlx_lm.utils import sharded_load

from hiprt.graphs.trace import lazy

folder, how, most, out = sys.argv[1:]
group = mx.distributed.init()
model, tokenizer = sharded_load(folder, **{"pipeline_group": group} if how == "pipeline" else {"tensor_group": group})
prompt = mx.array(tokenizer.encode("Once upon a time"))
tokens, likelihoods = [], []
for token, logs in generate_step(prompt, model, max_tokens=int(most)):
    tokens.append(token)
    likelihoods.append(np.array(logs.astype(mx.float32)).tolist())
lowered = max(lazy.known.values(), key=lambda each: sum(each.step.rungs.values()))
ops = [primitive.op.name for primitive in lowered.program.primitives]
made = {"tokens": tokens, "likelihoods": likelihoods, "rungs": dict(lowered.step.rungs), "ops": ops}
Path(out, f"{group.rank()}.json").write_text(json.dumps(made))
