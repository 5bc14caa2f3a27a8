"""mx.compile: the functions of ``hiprt bench compile``; a call of MLX returns before anything is computed."""

import json
import statistics
import sys
import time
from typing import Any

import mlx.core as mx

CALLS, WARM_UP = 500, 5
Answer = dict[str, Any]


def elementwise(work: Answer) -> tuple[Any, Any]:
    """Return the function of elementwise ops, and what it is called with."""
    y, rounds = mx.linspace(0, 1, 1024), work["rounds"]

    def function(x: Any) -> Any:
        for _ in range(rounds):
            x = mx.maximum((x + y) * 0.5, x * 0.25)
        return x

    return function, mx.ones(1024)


def decode(work: Answer) -> tuple[Any, Any]:
    """Return the decode step in plain ops, and what it is called with."""
    width, inner, tokens = work["width"], work["inner"], work["tokens"]
    attention = (width, width), (width, tokens), (tokens, width), (width, width)
    sizes = *attention, (width, inner), (width, inner), (inner, width)
    layers = [[mx.random.normal(size) * size[0] ** -0.5 for size in sizes] for _ in range(work["layers"])]
    head, ones = mx.random.normal((width, 256)) * width**-0.5, mx.ones(width)
    mx.eval(layers, head, ones)

    def function(x: Any) -> Any:
        for q, k, v, o, gate, up, down in layers:
            h = mx.softmax(mx.fast.rms_norm(x, ones, 1e-5) @ q @ k, axis=-1) @ v
            x = x + h @ o
            h = mx.fast.rms_norm(x, ones, 1e-5)
            g = h @ gate
            x = x + (g * mx.sigmoid(g) * (h @ up)) @ down
        return mx.argmax(mx.fast.rms_norm(x, ones, 1e-5) @ head, axis=-1)

    return function, mx.linspace(-1, 1, width).reshape(1, width)


def measure(function: Any, x: Any) -> Answer:
    """Time the first call, and later ones."""
    compiled = mx.compile(function)
    mx.eval(x)
    start = time.perf_counter()
    mx.eval(compiled(x))
    first = time.perf_counter() - start
    for _ in range(WARM_UP):
        mx.eval(compiled(x))
    calls, whole = [], []
    for _ in range(CALLS):
        start = time.perf_counter()
        made = compiled(x)
        calls.append(time.perf_counter() - start)
        mx.eval(made)
        whole.append(time.perf_counter() - start)
    return {
        "first_call_ms": first * 1e3,
        "call_us": statistics.median(calls) * 1e6,
        "whole_us": statistics.median(whole) * 1e6,
    }


def main() -> None:
    """Measure the workload in the first argument, which is JSON."""
    work = json.loads(sys.argv[1])
    answer = {"version": mx.__version__, "device": str(mx.default_device())}
    makers = {"elementwise": elementwise, "decode": decode}
    for name in work["functions"]:
        answer[name] = measure(*makers[name](work))
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
