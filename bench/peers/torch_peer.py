"""PyTorch, eagerly and by CUDA graphs; its decode step has bfloat16 weights, four times the bytes of 4 bits."""

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

WARM_UP, ROUNDS = 3, 20
Call = Callable[[], Any]
Answer = dict[str, Any]


def clock(call: Call, device: str, count: int = ROUNDS) -> tuple[float, float]:
    """Return the host's time and the whole time of a call, both medians in microseconds."""
    host, whole = [], []
    for _ in range(count):
        start = time.perf_counter()
        call()
        host.append(time.perf_counter() - start)
        if device == "cuda":
            torch.cuda.synchronize()
        whole.append(time.perf_counter() - start)
    return statistics.median(host) * 1e6, statistics.median(whole) * 1e6


def captured(call: Call) -> Any:
    """Return a CUDA graph of a call."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


def chain(nodes: int, device: str) -> Answer:
    """Time additions that read one another."""
    x, y = torch.ones(32, dtype=torch.int32, device=device), torch.zeros(32, dtype=torch.int32, device=device)

    def issue() -> None:
        for _ in range(nodes):
            y.add_(x)

    issue()
    answer: Answer = {"chain_eager_us_per_node": clock(issue, device)[0] / nodes}
    if device == "cuda":
        host, whole = clock(captured(issue).replay, device)
        answer |= {"chain_replay_us": host, "chain_device_us_per_node": whole / nodes}
    return answer


class Model:
    """A dense transformer's decode step, with weights drawn on the device."""

    def __init__(self, work: Answer, device: str) -> None:
        self.work, self.device = work, device
        hidden, inner, width = work["hidden_size"], work["intermediate_size"], work["head_dim"]
        self.heads, self.groups, self.width = work["num_attention_heads"], work["num_key_value_heads"], width
        rows = (self.heads + 2 * self.groups) * width
        shapes = [(rows, hidden), (hidden, self.heads * width), (2 * inner, hidden), (hidden, inner)]
        self.layers = [[self.draw(*shape) for shape in shapes] for _ in range(work["num_hidden_layers"])]
        self.embedding = self.draw(work["vocab_size"], hidden)
        self.ones, self.head_ones = (torch.ones(n, dtype=torch.bfloat16, device=device) for n in (hidden, width))
        capacity = work["context"] + work["tokens"] + 8
        shape = (2, work["num_hidden_layers"], self.groups, capacity, width)
        self.cache = torch.zeros(shape, dtype=torch.bfloat16, device=device)
        self.places = torch.arange(capacity, device=device)
        self.turns = 1e6 ** (-torch.arange(0, width, 2, device=device) / width)
        self.token, self.position = (torch.full((1,), n, dtype=torch.long, device=device) for n in (1, work["context"]))

    def draw(self, rows: int, columns: int) -> Any:
        """Return a random matrix."""
        return (torch.rand(rows, columns, dtype=torch.bfloat16, device=self.device) - 0.5) * columns**-0.5

    def norm(self, x: Any, weight: Any) -> Any:
        """Return the root-mean-square norm."""
        return functional.rms_norm(x, weight.shape, weight, 1e-6)

    def turn(self, x: Any) -> Any:
        """Return rotated heads."""
        angles = self.position * self.turns
        first, second = x.float().chunk(2, -1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat((first * cos - second * sin, first * sin + second * cos), -1).bfloat16()

    def step(self) -> None:
        """Take a token."""
        x = self.embedding[self.token]
        mask = (self.places <= self.position)[None, None, :]
        for i, (qkv, out, gate_up, down) in enumerate(self.layers):
            made = functional.linear(self.norm(x, self.ones), qkv).view(-1, self.width)
            q, k, v = made.split((self.heads, self.groups, self.groups))
            keys, values = self.cache[0, i], self.cache[1, i]
            keys.index_copy_(1, self.position, self.turn(self.norm(k, self.head_ones))[:, None])
            values.index_copy_(1, self.position, v[:, None])
            q = self.turn(self.norm(q, self.head_ones))[None, :, None]
            mixed = functional.scaled_dot_product_attention(
                q, keys[None], values[None], attn_mask=mask, enable_gqa=True
            )
            x = x + functional.linear(mixed.reshape(1, -1), out)
            gate, up = functional.linear(self.norm(x, self.ones), gate_up).chunk(2, -1)
            x = x + functional.linear(functional.silu(gate) * up, down)
        self.token.copy_(functional.linear(self.norm(x, self.ones), self.embedding).argmax(-1))
        self.position.add_(1)


def decode(work: Answer, device: str) -> Answer:
    """Decode tokens, eagerly and as a graph."""
    model = Model(work, device)
    answer: Answer = {}
    modes: dict[str, Call] = {"eager": model.step}
    if device == "cuda":
        modes["graph"] = captured(model.step).replay
    for name, call in modes.items():
        model.position.fill_(work["context"])
        call()
        model.position.fill_(work["context"])
        start = time.perf_counter()
        for _ in range(work["tokens"]):
            call()
        model.token.tolist()
        answer[f"decode_{name}_tok_s"] = work["tokens"] / (time.perf_counter() - start)
    return answer


def main() -> None:
    """Measure the workload in the first argument, which is JSON."""
    work = json.loads(sys.argv[1])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    with torch.inference_mode():
        answer = {"device": name, "version": torch.__version__, "weights": "bfloat16"}
        print(json.dumps({**answer, **chain(work["nodes"], device), **decode(work, device)}))


if __name__ == "__main__":
    main()
