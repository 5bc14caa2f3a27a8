"""torch.compile(mode="reduce-overhead"): the functions of ``hiprt bench compile``."""

from typing import Any

import torch
from compile_timing import Answer, main, timed

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def elementwise(work: Answer) -> tuple[Any, Any]:
    """Return the function of elementwise ops, and what it is called with."""
    y, rounds = torch.linspace(0, 1, 1024, device=DEVICE), work["rounds"]

    def function(x: Any) -> Any:
        for _ in range(rounds):
            x = torch.maximum((x + y) * 0.5, x * 0.25)
        return x

    return function, torch.ones(1024, device=DEVICE)


def decode(work: Answer) -> tuple[Any, Any]:
    """Return the decode step in plain ops, and what it is called with."""
    width, inner, tokens = work["width"], work["inner"], work["tokens"]
    attention = (width, width), (width, tokens), (tokens, width), (width, width)
    sizes = *attention, (width, inner), (width, inner), (inner, width)
    layers = [[torch.randn(*size, device=DEVICE) * size[0] ** -0.5 for size in sizes] for _ in range(work["layers"])]
    head = torch.randn(width, 256, device=DEVICE) * width**-0.5

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

    return function, torch.linspace(-1, 1, width, device=DEVICE).reshape(1, width)


def wait(_: Any) -> None:
    """Wait until the device is done."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def measure(function: Any, x: Any) -> Answer:
    """Time the calls of a function, compiled."""
    with torch.inference_mode():
        return timed(torch.compile(function, mode="reduce-overhead"), x, wait)


if __name__ == "__main__":
    main({"version": torch.__version__, "device": DEVICE}, {"elementwise": elementwise, "decode": decode}, measure)
