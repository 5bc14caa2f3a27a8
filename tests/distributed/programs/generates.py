"""One rank of a model that mlx-lm's unmodified code splits and runs: the model, the victim, and its last step."""

import sys

import mlx.core as mx
from death import die
from mlx_lm.generate import generate_step
from mlx_lm.utils import sharded_load

folder, victim, last = sys.argv[1], *map(int, sys.argv[2:])
group = mx.distributed.init()
model, tokenizer = sharded_load(folder, tensor_group=group)[:2]
for step, (token, _) in enumerate(generate_step(mx.array(tokenizer.encode("Once")), model, max_tokens=900), 1):
    if group.rank() == 0:
        print(token, flush=True)
    if (group.rank(), step) == (victim, last):  # the step behind it has been launched
        die()
