"""mx.compile: the functions of ``hiprt bench compile``; a call of MLX returns before anything is computed."""

from typing import Any

import mlx.core as mx
from compile_timing import Answer, main, timed


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
    """Time the calls of a function, compiled."""
    mx.eval(x)
    return timed(mx.compile(function), x, mx.eval)


if __name__ == "__main__":
    about = {"version": mx.__version__, "device": str(mx.default_device())}
    main(about, {"elementwise": elementwise, "decode": decode}, measure)
