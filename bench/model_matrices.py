"""The matrices of a model, the bytes that a step reads of them, and the operations of their products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from hiprt.bench.engine.models.linear import Linear
from hiprt.bench.plain import Plain

__all__ = ["matrices", "operations", "weight_bytes"]


def matrices(part: Any, mixture: Any = None) -> Iterator[tuple[Linear, Any]]:
    """Yield the matrices inside a model, each with the mixture of experts to which it belongs, or None."""
    if isinstance(part, Linear):
        yield part, mixture
    elif isinstance(part, (tuple, list)):
        for item in part:
            yield from matrices(item, mixture)
    elif is_dataclass(part):
        mixture = getattr(part, "mixture", None) or mixture
        for name in (each.name for each in fields(part)):
            if name not in ("embedding", "config"):
                yield from matrices(getattr(part, name), mixture)


def weight_bytes(model: Any, batch: int = 1) -> int:
    """Return the bytes of weights that a step reads; of a stack of experts, those that its rows choose at most."""
    total = 0.0
    for matrix, mixture in matrices(model):
        parts = [p for p in (matrix.weight, matrix.scales, matrix.biases) if p is not None]
        count, part = (matrix.weight.shape[0], 1.0) if matrix.weight.ndim == 3 else (1, 1.0)
        if count > 1 and mixture is not None:
            shared = count - mixture.experts
            part = min(1.0, (batch * mixture.chosen + shared) / count)
        total += part * sum(p.nbytes for p in parts)
    return round(total)


def operations(model: Any, rows: int, drawn: int) -> dict[int, int]:
    """Return the additions and multiplications of rows with each matrix, by the address of its codes.

    Parameters
    ----------
    model : Model or Plain
        Stacks of experts are left out: what their rows choose is not known here.
    rows, drawn : int
        The rows that the layers take, and those of which logits are made.
    """
    own = model.own if isinstance(model, Plain) else model
    found = {}
    for matrix in [*(each for each, _ in matrices(own)), own.head]:
        if matrix.weight.ndim == 2:
            elements = matrix.weight.size * (32 // matrix.bits if matrix.bits else 1)
            found[matrix.weight.extent[0]] = 2 * (drawn if matrix is own.head else rows) * elements
    return found
