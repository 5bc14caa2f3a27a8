"""``mx.distributed`` of one process: what is summed or gathered over the group is one's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hiprt.metal_compat.mlx.array import array, as_array
from hiprt.metal_compat.mlx.dtypes import Dtype

__all__ = [
    "Group",
    "all_gather",
    "all_max",
    "all_min",
    "all_sum",
    "init",
    "is_available",
    "recv",
    "recv_like",
    "send",
    "sum_scatter",
]


class Group:
    """A group of one process."""

    def rank(self) -> int:
        """Return 0."""
        return 0

    def size(self) -> int:
        """Return 1."""
        return 1

    def split(self, color: int, key: int = -1) -> Group:
        """Refuse, as MLX does, to split one process.

        Raises
        ------
        RuntimeError
        """
        raise RuntimeError("[split] Cannot split the singleton group.")


def is_available(backend: str = "any") -> bool:
    """Whether several processes can work together."""
    return False


def init(strict: bool = False, backend: str = "any", **_: Any) -> Group:
    """Return the group of this process.

    Raises
    ------
    RuntimeError
        `strict` asks for a backend, and there is none.
    """
    if strict:
        raise RuntimeError(f"[distributed] There is no backend {backend!r} for several processes: this runs as one.")
    return Group()


def all_sum(x: array, *, group: Group | None = None, stream: Any = None) -> array:
    """Return `x`."""
    return as_array(x)


def all_max(x: array, *, group: Group | None = None, stream: Any = None) -> array:
    """Return `x`."""
    return as_array(x)


def all_min(x: array, *, group: Group | None = None, stream: Any = None) -> array:
    """Return `x`."""
    return as_array(x)


def all_gather(x: array, *, group: Group | None = None, stream: Any = None) -> array:
    """Return `x`."""
    return as_array(x)


def sum_scatter(x: array, *, group: Group | None = None, stream: Any = None) -> array:
    """Return `x`."""
    return as_array(x)


def send(x: array, dst: int, *, group: Group | None = None, stream: Any = None) -> array:
    """Refuse: there is nobody else."""
    raise alone("send")


def recv(shape: Sequence[int], dtype: Dtype, src: int, *, group: Group | None = None, stream: Any = None) -> array:
    """Refuse: there is nobody else."""
    raise alone("recv")


def recv_like(x: array, src: int, *, group: Group | None = None, stream: Any = None) -> array:
    """Refuse: there is nobody else."""
    raise alone("recv_like")


def alone(function: str) -> RuntimeError:
    """Return the error of a message to or from another process."""
    return RuntimeError(f"[{function}] Cannot communicate with other processes in the singleton group.")
