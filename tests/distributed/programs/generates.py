"""One rank of a model that mlx-lm's unmodified code splits and runs; rank 0 prints the tokens."""

import sys

import mlx.core as mx
from mlx_lm.generate import generate_step
from mlx_lm.utils import sharded_load

group = mx.distributed.init()
model, tokenizer = sharded_load(sys.argv[1], tensor_group=group)[:2]
for token, _ in generate_step(mx.array(tokenizer.encode("Once")), model, max_tokens=900):
    if group.rank() == 0:
        print(token, flush=True)
