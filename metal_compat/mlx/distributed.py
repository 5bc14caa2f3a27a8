"""``mx.distributed``: what several processes put together, as nodes of the graphs in which they compute.

The processes are the ranks of `hiprt.distributed`, which a launcher starts; every backend is that. They make the same
collectives in the same order, as lazy arrays that are computed when they are asked for. What waits for the device
raises `hiprt.distributed.RankError` when a rank is gone.
"""

from __future__ import annotations

import atexit
import math
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from hiprt import kernels
from hiprt.array import Array, empty
from hiprt.distributed import Communicator, Place, RankError, place_of
from hiprt.distributed.exchange import SUMMED_IN
from hiprt.errors import HipWarning
from hiprt.flags import flags
from hiprt.graphs.trace import lazy
from hiprt.metal_compat.mlx.array import array, as_array, packed
from hiprt.metal_compat.mlx.dtypes import Dtype
from hiprt.metal_compat.mlx.lazy import apply
from hiprt.op import Op

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

BACKENDS = ("any", "mpi", "nccl", "jaccl", "ring")
INT32 = np.dtype(np.int32)
# What takes the numbers of two ranks together where no collective does.
PAIRS: dict[str, Callable[[Array, Array], Array]] = {
    "sum": kernels.add,
    "max": kernels.maximum,
    "min": kernels.minimum,
}


class Group:
    """Processes that work together; `init` and `split` make one.

    Parameters
    ----------
    ranks : Communicator, optional
        This process is alone without it.

    Attributes
    ----------
    all_reduce, all_gather, reduce_scatter, send, recv : Op
        The collectives of `ranks`, of which a program makes each call, in order.
    """

    def __init__(self, ranks: Communicator | None = None) -> None:
        self.ranks = ranks
        if ranks is not None:
            self.all_reduce = Op(ranks.all_reduce, has_effect=True)
            self.all_gather = Op(ranks.all_gather, has_effect=True)
            self.reduce_scatter = Op(ranks.reduce_scatter, has_effect=True)
            self.send = Op(self.sent, "send", has_effect=True)
            self.recv = Op(self.received, "recv", has_effect=True)

    def rank(self) -> int:
        """Return the number of this process, from 0."""
        return 0 if self.ranks is None else self.ranks.rank

    def size(self) -> int:
        """Return how many processes there are."""
        return 1 if self.ranks is None else self.ranks.ranks

    def split(self, color: int, key: int = -1) -> Group:
        """Return the group of those processes that give the same colour; every process of this group calls it.

        Parameters
        ----------
        color : int
        key : int
            By which they are numbered; a negative one stands for the number in this group.

        Raises
        ------
        RuntimeError
            The process is alone.
        """
        if self.ranks is None:
            raise RuntimeError("Cannot split the distributed group further.")
        return group_of(self.ranks.split(color, key))

    def sent(self, x: Array, rank: int) -> Array:
        """Send an array to a rank, and return it."""
        if self.ranks is not None:
            self.ranks.send(x, rank)
        return x

    def received(self, shape: tuple[int, ...], dtype: DTypeLike, rank: int) -> Array:
        """Return what a rank sends."""
        out = empty(shape, dtype)
        return out if self.ranks is None else self.ranks.recv(out, rank)


ALONE = Group()
groups: list[Group] = []  # those of several processes; the first is that of all
lock = threading.Lock()


def group_of(ranks: Communicator) -> Group:
    """Return the group of a communicator's ranks, which is left when the process ends."""
    if ranks.ranks == 1:
        return ALONE
    if not groups:
        atexit.register(leave)
    groups.append(Group(ranks))
    lazy.checks.append(ranks.check)
    return groups[-1]


def leave() -> None:
    """Leave all groups: together with the other processes, or at once where an error has ended this one."""
    is_failed = getattr(sys, "last_value", None) is not None
    for group in reversed(groups):
        assert group.ranks is not None
        with suppress(RankError):
            (group.ranks.drop if is_failed else group.ranks.close)()


def is_available(backend: str = "any") -> bool:
    """Whether `init` takes a backend of this name."""
    return backend in BACKENDS


def init(strict: bool = False, backend: str = "any", *, all_gather_factory: Callable[..., Any] | None = None) -> Group:
    """Return the group of all processes that a launcher has started.

    The first call waits for the other processes, and chooses this one's device: that of its number on its host.

    Parameters
    ----------
    strict : bool
        Whether it is an error that no launcher has started several processes; else this one is alone.
    backend : str
        One of MLX's names. The processes are connected in the same way by each.
    all_gather_factory : callable, optional
        Not used: processes meet as `hiprt.distributed` says.

    Raises
    ------
    RuntimeError
        No launcher has started several processes.
    RankError
        A process is missing, late, or of another version.
    ValueError
        There is no backend of this name.

    Warns
    -----
    HipWarning
        The launcher's variables say no place, so that this process is alone.
    """
    if backend not in BACKENDS:
        raise ValueError(
            "[distributed] The only valid values for backend are 'any', 'mpi', 'nccl', 'jaccl' and 'ring' but "
            f"'{backend}' was provided."
        )
    with lock:
        if groups:
            return groups[0]
        cause = "no launcher has started several processes"
        try:
            place = place_of()
        except ValueError as error:
            place, cause = Place(0, 1, 0, "", 0), str(error)
            if not strict:
                warnings.warn(f"mx.distributed: this process is alone: {cause}", HipWarning, stacklevel=2)
        if place.ranks > 1:
            ranks = Communicator(place)
            flags.set(device=ranks.device.index)  # of all threads
            return group_of(ranks)
        if strict:
            raise RuntimeError(f"[distributed] Couldn't initialize any backend: {cause}")
        return ALONE


def all_sum(x: array, *, group: Group | None = None, stream: Any = None) -> array:
    """Return the sum of the arrays that the processes give."""
    return reduced("sum", x, group)


def all_max(x: array, *, group: Group | None = None, stream: Any = None) -> array:
    """Return the largest number at each place of the arrays that the processes give."""
    return reduced("max", x, group)


def all_min(x: array, *, group: Group | None = None, stream: Any = None) -> array:
    """Return the least number at each place of the arrays that the processes give."""
    return reduced("min", x, group)


def reduced(op: str, x: array, group: Group | None) -> array:
    """Return what the numbers of all processes make at each place."""
    group = group or init()
    made: array = operand(x) if group.ranks is None else apply(reduction, group, operand(x), op)
    return made


def reduction(group: Group, x: Array, op: str) -> Array:
    """Return what the numbers of all ranks make; of those of 8 and 16 bits as of 32."""
    if x.dtype in SUMMED_IN:
        return call(group.all_reduce, packed(x), op=op)
    if x.dtype.itemsize < INT32.itemsize:
        return kernels.astype(call(group.all_reduce, kernels.astype(x, INT32), op=op), x.dtype)
    each = call(group.all_gather, packed(x).reshape(1, x.size)).reshape(group.size(), x.size)
    made = each[0]
    for rank in range(1, group.size()):
        made = PAIRS[op](made, each[rank])
    return made.reshape(x.shape)


def all_gather(x: array, *, group: Group | None = None, stream: Any = None) -> array:
    """Return the arrays that the processes give, one behind the other along the first axis."""
    group = group or init()
    made: array = operand(x) if group.ranks is None else apply(gathered, group, operand(x))
    return made


def gathered(group: Group, x: Array) -> Array:
    """Return the arrays of all ranks, joined along the first axis."""
    rows, *rest = x.shape or (1,)
    words = as_words(x)
    whole = call(group.all_gather, words.reshape(1, x.size)).reshape(group.size() * rows, *rest)
    return whole if whole.dtype == x.dtype else kernels.astype(whole, x.dtype)


def sum_scatter(x: array, *, group: Group | None = None, stream: Any = None) -> array:
    """Return this process's part, along the first axis, of the sum of the arrays that the processes give."""
    group, x = group or init(), operand(x)
    if not x.ndim or x.shape[0] % group.size():
        shape = ",".join(map(str, x.shape))
        raise ValueError(
            f"[sum_scatter] Invalid shape=({shape}) for a group of size {group.size()}. The first dimension (axis 0) "
            "must be divisible by the group size and input mst have at least one."
        )
    made: array = x if group.ranks is None else apply(scattered, group, x)
    return made


def scattered(group: Group, x: Array) -> Array:
    """Return a rank's rows of the sum."""
    if x.dtype in SUMMED_IN:
        return call(group.reduce_scatter, packed(x))
    rows = len(x) // group.size()
    return reduction(group, x, "sum")[group.rank() * rows : (group.rank() + 1) * rows]


def send(x: array, dst: int, *, group: Group | None = None, stream: Any = None) -> array:
    """Send an array to a process; what is returned equals `x`, and is sent when that is computed."""
    group = group or init()
    check("send to", "destination", dst, group)
    made: array = apply(passed, group, operand(x), int(dst))
    return made


def passed(group: Group, x: Array, rank: int) -> Array:
    """Return an array that is sent to a rank."""
    made = call(group.send, as_words(x), rank)
    return made if made.dtype == x.dtype else kernels.astype(made, x.dtype)


def recv(shape: Sequence[int], dtype: Dtype, src: int, *, group: Group | None = None, stream: Any = None) -> array:
    """Return the array of this form that a process sends."""
    group = group or init()
    check("recv from", "source", src, group)
    made: array = apply(taken, group, tuple(shape), dtype.numpy, int(src))
    return made


def taken(group: Group, shape: tuple[int, ...], dtype: np.dtype[Any], rank: int) -> Array:
    """Return what a rank sends."""
    made = call(group.recv, shape, INT32 if is_odd(shape, dtype) else dtype, rank)
    return made if made.dtype == dtype else kernels.astype(made, dtype)


def recv_like(x: array, src: int, *, group: Group | None = None, stream: Any = None) -> array:
    """Return the array of the shape and dtype of `x` that a process sends."""
    return recv(x.shape, x.dtype, src, group=group)


def check(act: str, role: str, rank: int, group: Group) -> None:
    """Refuse a rank that is none."""
    if group.ranks is None:
        raise ValueError(f"Cannot {act} a singleton group")
    if not 0 <= rank < group.size():
        raise ValueError(f"Invalid {role}={rank} for a group of size {group.size()}")


def operand(x: Any) -> array:
    """Return an array, or a number as one; nothing else is taken."""
    if isinstance(x, (list, tuple)):
        raise ValueError(f"Invalid type {type(x).__name__} received in array initialization.")
    return as_array(x)


def as_words(x: Array) -> Array:
    """Return contiguous numbers that can be moved: those of 8 bits as ones of 32 where they are an odd number."""
    return kernels.astype(x, INT32) if is_odd(x.shape, x.dtype) else packed(x)


def is_odd(shape: Sequence[int], dtype: np.dtype[Any]) -> bool:
    """Whether an array has an odd number of bytes, of which ranks pass two at a time."""
    return bool(math.prod(shape) * dtype.itemsize % 2)


def call(collective: Op, /, *args: Any, **kwargs: Any) -> Array:
    """Return the only result of an op."""
    made: Array = collective(*args, **kwargs)
    return made
