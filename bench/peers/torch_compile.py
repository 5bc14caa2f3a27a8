"""torch.compile(mode="reduce-overhead"): the functions of ``hiprt bench compile``."""

import json
import statistics
import sys
import time
from typing import Any

import torch

CALLS, WARM_UP = 500, 5
Answer = dict[str, Any]


def elementwise(work: Answer, device: str) -> tuple[Any, Any]:
    """Return the function of elementwise ops, and what it is called with."""
    y, rounds = torch.linspace(0, 1, 1024, device=device), work["rounds"]

    def function(x: Any) -> Any:
        for _ in range(rounds):
            x = torch.maximum((x + y) * 0.5, x * 0.25)
        return x

    return function, torch.ones(1024, device=device)


def decode(work: Answer, device: str) -> tuple[Any, Any]:
    """Return the decode step in plain ops, and what it is called with."""
    width, inner, tokens = work["width"], work["inner"], work["tokens"]
    attention = (width, width), (width, tokens), (tokens, width), (width, width)
    sizes = *attention, (width, inner), (width, inner), (inner, width)
    layers = [[torch.randn(*size, device=device) * size[0] ** -0.5 for size in sizes] for _ in range(work["layers"])]
    head = torch.randn(width, 256, device=device) * width**-0.5

    def norm(x: Any) -> Any:
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)

    def function(x: Any) -> Any:
        for q, k, v, o, gate, up, down in layers:
            h = torch.softmax(norm(x) @ q @ k, -1) @ v
            x = x + h @ o
            h = norm(x)
            g = h @ gate
            x = x + (g * torch.sigmoid(g) * (h @ up)) @ down
        return torch.argmax(norm(x) @ head, dim=-1)

    return function, torch.linspace(-1, 1, width, device=device).reshape(1, width)


def measure(function: Any, x: Any, device: str) -> Answer:
    """Time the first call, and later ones."""

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    compiled = torch.compile(function, mode="reduce-overhead")
    with torch.inference_mode():
        start = time.perf_counter()
        compiled(x)
        wait()
        first = time.perf_counter() - start
        for _ in range(WARM_UP):
            compiled(x)
            wait()
        calls, whole = [], []
        for _ in range(CALLS):
            start = time.perf_counter()
            compiled(x)
            calls.append(time.perf_counter() - start)
            wait()
            whole.append(time.perf_counter() - start)
    return {
        "first_call_ms": first * 1e3,
        "call_us": statistics.median(calls) * 1e6,
        "whole_us": statistics.median(whole) * 1e6,
    }


def main() -> None:
    """Measure the workload in the first argument, which is JSON."""
    work = json.loads(sys.argv[1])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    answer = {"version": torch.__version__, "device": device}
    makers = {"elementwise": elementwise, "decode": decode}
    for name in work["functions"]:
        answer[name] = measure(*makers[name](work, device), device)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
