"""MLX: lazy arrays; its decode step has 4-bit weights in groups of 64, as hiprt's has."""

import json
import sys
import time
from typing import Any

import mlx.core as mx

FORM: Any = {"group_size": 64, "bits": 4}
Answer = dict[str, Any]


def chain(nodes: int) -> Answer:
    """Time additions that read one another."""
    x, y = mx.ones(32, mx.int32), mx.zeros(32, mx.int32)
    mx.eval(x, y)
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(nodes):
            y = y + x
        mx.eval(y)
        best = min(best, time.perf_counter() - start)
    return {"chain_eager_us_per_node": best * 1e6 / nodes}


class Model:
    """A dense transformer's decode step."""

    def __init__(self, work: Answer) -> None:
        hidden, inner, self.width = work["hidden_size"], work["intermediate_size"], work["head_dim"]
        self.heads, self.groups = work["num_attention_heads"], work["num_key_value_heads"]
        rows = (self.heads + 2 * self.groups) * self.width
        shapes = [(rows, hidden), (hidden, self.heads * self.width), (2 * inner, hidden), (hidden, inner)]
        self.layers = [[self.draw(*shape) for shape in shapes] for _ in range(work["num_hidden_layers"])]
        self.embedding = self.draw(work["vocab_size"], hidden)
        self.ones, self.head_ones = mx.ones(hidden, mx.bfloat16), mx.ones(self.width, mx.bfloat16)
        capacity = work["context"] + work["tokens"] + 8
        shape = (1, self.groups, capacity, self.width)
        self.cache = [[mx.zeros(shape, mx.bfloat16) for _ in "kv"] for _ in self.layers]
        self.token, self.position = mx.array([1]), work["context"]

    def draw(self, rows: int, columns: int) -> Any:
        """Return a random quantised matrix."""
        made = mx.quantize((mx.random.uniform(-0.5, 0.5, (rows, columns)) * columns**-0.5).astype(mx.bfloat16), **FORM)
        mx.eval(made)
        return made

    def times(self, x: Any, matrix: Any) -> Any:
        """Return a product."""
        return mx.quantized_matmul(x, *matrix, transpose=True, **FORM)

    def step(self) -> None:
        """Take a token."""
        x = mx.dequantize(*(part[self.token] for part in self.embedding), **FORM)
        at = self.position
        for (qkv, out, gate_up, down), cache in zip(self.layers, self.cache):
            made = self.times(mx.fast.rms_norm(x, self.ones, 1e-6), qkv).reshape(1, -1, 1, self.width)
            q, k, v = mx.split(made, [self.heads, self.heads + self.groups], axis=1)
            q, k = (
                mx.fast.rope(
                    mx.fast.rms_norm(part, self.head_ones, 1e-6),
                    self.width, traditional=False, base=1e6, scale=1.0, offset=at,
                )
                for part in (q, k)
            )  # fmt: skip
            cache[0][:, :, at : at + 1] = k
            cache[1][:, :, at : at + 1] = v
            keys, values = (part[:, :, : at + 1] for part in cache)
            mixed = mx.fast.scaled_dot_product_attention(q, keys, values, scale=self.width**-0.5)
            x = x + self.times(mixed.reshape(1, -1), out)
            gate, up = mx.split(self.times(mx.fast.rms_norm(x, self.ones, 1e-6), gate_up), 2, axis=-1)
            x = x + self.times(gate * mx.sigmoid(gate) * up, down)
        self.token = mx.argmax(self.times(mx.fast.rms_norm(x, self.ones, 1e-6), self.embedding), axis=-1)
        self.position += 1
        mx.async_eval(self.token)


def decode(work: Answer) -> Answer:
    """Decode tokens."""
    model = Model(work)
    model.step()
    mx.eval(model.token)
    model.position = work["context"]
    start = time.perf_counter()
    for _ in range(work["tokens"]):
        model.step()
    mx.eval(model.token)
    return {"decode_graph_tok_s": work["tokens"] / (time.perf_counter() - start)}


def main() -> None:
    """Measure the workload in the first argument, which is JSON."""
    work = json.loads(sys.argv[1])
    answer = {"device": str(mx.default_device()), "version": mx.__version__, "weights": "4 bits, groups of 64"}
    print(json.dumps({**answer, **chain(work["nodes"]), **decode(work)}))


if __name__ == "__main__":
    main()
