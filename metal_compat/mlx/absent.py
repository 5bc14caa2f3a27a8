"""Names of ``mlx.core`` that are no part of a decode runtime: calling one says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

__all__ = ["grad", "hadamard_transform", "jvp", "value_and_grad", "vjp", "vmap"]


def absent(name: str) -> Callable[..., NoReturn]:
    """Return a function that says that something is not there."""

    def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(f"mlx.core.{name} is not part of a decode runtime; use MLX itself for it.")

    refuse.__name__ = name
    return refuse


grad, jvp, value_and_grad, vjp, vmap = (absent(name) for name in ("grad", "jvp", "value_and_grad", "vjp", "vmap"))
hadamard_transform = absent("hadamard_transform")
