"""The ops that a program in a file may call, by name."""

from __future__ import annotations

from functools import cache

from hiprt import kernels
from hiprt.array import empty, full, zeros
from hiprt.graphs.trace import value
from hiprt.op import Op, custom_ops

__all__ = ["is_portable", "op_named"]


@cache
def table() -> dict[str, Op]:
    """Return the ops of this library."""
    found = (*vars(kernels).values(), *vars(value).values(), empty, full, zeros)
    return {each.name: each for each in found if isinstance(each, Op)}


def op_named(name: str) -> Op | None:
    """Return the op of a name; None for one that no library of this version has."""
    return table().get(name) or (custom_ops[name][0] if name in custom_ops else None)


def is_portable(op: Op) -> bool:
    """Whether a file can name an op: a function of a user's own, declared an op, is known in his process only."""
    return op_named(op.name) is op
