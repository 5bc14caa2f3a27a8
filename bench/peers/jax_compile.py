"""jax.jit: the functions of ``hiprt bench compile``."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from compile_timing import Answer, main, timed


def elementwise(work: Answer) -> tuple[Any, Any]:
    """Return the function of elementwise ops, and what it is called with."""
    y, rounds = jnp.linspace(0, 1, 1024, dtype=jnp.float32), work["rounds"]

    def function(x: Any) -> Any:
        for _ in range(rounds):
            x = jnp.maximum((x + y) * 0.5, x * 0.25)
        return x

    return function, jnp.ones(1024, jnp.float32)


def decode(work: Answer) -> tuple[Any, Any]:
    """Return the decode step in plain ops, and what it is called with."""
    width, inner, tokens = work["width"], work["inner"], work["tokens"]
    draw = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> Any:
        return jnp.asarray((draw.standard_normal((rows, columns)) * rows**-0.5).astype(np.float32))

    attention = (width, width), (width, tokens), (tokens, width), (width, width)
    sizes = *attention, (width, inner), (width, inner), (inner, width)
    layers = [[matrix(*size) for size in sizes] for _ in range(work["layers"])]
    head = matrix(width, 256)

    def norm(x: Any) -> Any:
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)

    def function(x: Any) -> Any:
        for q, k, v, o, gate, up, down in layers:
            h = jax.nn.softmax(norm(x) @ q @ k) @ v
            x = x + h @ o
            h = norm(x)
            g = h @ gate
            x = x + (g * jax.nn.sigmoid(g) * (h @ up)) @ down
        return jnp.argmax(norm(x) @ head, axis=-1)

    return function, jnp.linspace(-1, 1, width, dtype=jnp.float32).reshape(1, width)


def measure(function: Any, x: Any) -> Answer:
    """Time the calls of a function, compiled."""
    return timed(jax.jit(function), x, jax.block_until_ready)


if __name__ == "__main__":
    about = {"version": jax.__version__, "device": str(jax.devices()[0])}
    main(about, {"elementwise": elementwise, "decode": decode}, measure)
