"""Communicators: the ranks of a program as one, whose collectives are kernels like any other.

A collective is recorded, replayed and ordered like an op of `hiprt.kernels`: within a step it is a node, and nothing of
Python runs for it when the step is replayed. All ranks make the same collectives in the same order.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from hiprt import kernels
from hiprt.array import Array, array, bfloat16, empty, zeros
from hiprt.buffer import Buffer
from hiprt.device import Device, current_device, device_count, set_device
from hiprt.distributed.peers import Peers
from hiprt.distributed.place import Place, place_of
from hiprt.distributed.rendezvous import Rendezvous
from hiprt.errors import RankError
from hiprt.hip import call, handle, lib
from hiprt.kernels.lang.kernel import Kernel
from hiprt.stream import Stream, current_stream

__all__ = ["Communicator"]

THREADS = 256  # of a block of exchange.hip
MOST_BLOCKS = 128  # each has 1 KiB of numbers on their way at a time; it takes that many to keep a link busy
WORD = 8
MOST_RANKS = 8
DTYPES = (np.dtype(np.float32), np.dtype(np.float16), np.dtype(bfloat16))


class Communicator:
    """The ranks of a program on one host, connected through each other's device memory.

    Every rank makes one at the same place of its program. It is a context manager.

    Parameters
    ----------
    place : Place, optional
        This process's place; what its launcher says by default (`place_of`).
    seconds : float
        How long to wait for the other ranks.
    device : Device, optional
        This rank's device; by default that of the rank's number on its host, in turn where there are fewer devices,
        which becomes this thread's.

    Attributes
    ----------
    rank, ranks : int
        This process's number, from 0, and how many there are.

    Raises
    ------
    RankError
        A rank is missing, late, of another version or on another host.
    ValueError
        The launcher's variables say no place.
    """

    def __init__(self, place: Place | None = None, *, seconds: float = 60.0, device: Device | None = None) -> None:
        place = place or place_of()
        if place.ranks > MOST_RANKS:
            raise ValueError(f"{place.ranks} ranks: a communicator has at most {MOST_RANKS}")
        self.rank, self.ranks = place.rank, place.ranks
        if device is None and place.ranks > 1:
            device = set_device(place.local_rank % device_count())
        self.device = device or current_device()
        self.rendezvous = Rendezvous(place, seconds)
        self.peers: Peers | None = None
        self.is_closed = False
        if self.ranks > 1:
            try:
                self.connect()
            except BaseException:
                self.rendezvous.close()
                raise

    def connect(self) -> None:
        """Make what the kernels of collectives share."""
        # Blocks of one launch wait for blocks of others: they must run side by side, which the CPU device's need not.
        one = self.device.provider.takes_loops
        blocks = 1 if one else min(MOST_BLOCKS, self.device.compute_units)
        self.blocks = min(self.rendezvous.all_gather(blocks))
        self.peers = Peers(self.rendezvous, 2 * self.ranks * self.blocks * THREADS * WORD, self.device)
        self.places = array(np.array(self.peers.addresses, np.uint64))
        self.rounds = zeros(self.blocks, np.uint32)
        word = handle(lib.hipHostMalloc, 4, 0)
        # It goes with the last recording that reads it; hipHostFree waits for the device.
        memory = Buffer(word, 4, self.device.index, lambda: call(lib.hipHostFree(word)))
        self.is_gone = Array(memory, (1,), np.dtype(np.uint32), word)
        self.gone = ctypes.c_uint32.from_address(word)
        self.gone.value = 0
        self.rendezvous.on_loss(self.stop_waiting)
        current_stream().synchronize()

    def stop_waiting(self, _error: RankError) -> None:
        """Let the kernels that wait for a rank end; what they leave is not a result."""
        self.gone.value = 1

    def check(self) -> None:
        """Raise if a rank is gone: what collectives have left since is no result then.

        It asks no device and no other rank. A program calls it behind each wait for the device.

        Raises
        ------
        RankError
        """
        self.rendezvous.check()

    def all_reduce(
        self, x: Array, *, residual: Array | None = None, out: Array | None = None, stream: Stream | None = None
    ) -> Array:
        """Return the sum of the arrays that the ranks give.

        The sum is made in float32, of the residual and then the ranks in their order, and rounded once: all ranks have
        the same bits in every run. The kernel is one-shot: each rank writes its array to each other one, which suits
        arrays of up to some 100 KiB.

        Parameters
        ----------
        x : Array
            float32, float16 or bfloat16, of the same shape and dtype on each rank, in row order.
        residual : Array, optional
            What the sum begins with: of the shape and dtype of `x`, and the same on all ranks.
        out : Array, optional
            Where the sum goes; `x` or `residual` may be given.
        stream : Stream, optional
            This thread's by default.

        Returns
        -------
        Array

        Raises
        ------
        RankError
            A rank is gone.
        TypeError, ValueError
            An array is not like that, or the communicator is closed.
        """
        self.expect("all_reduce", x, residual=residual, out=out)
        if self.peers is None:
            if residual is not None:
                return kernels.add(residual, x, out=out, stream=stream)
            if out is not None and out is not x:
                out.copy_from(x)
            return x if out is None else out
        out = empty(x.shape, x.dtype, stream=stream) if out is None else out
        if residual is None:
            self.launch(SUM, x, out, stream)
        else:
            self.launch(SUM_ADDED, x, out, stream, residual=residual)
        return out

    def all_gather(self, x: Array, width: int = 0, *, stream: Stream | None = None) -> Array:
        """Return the arrays that the ranks give, side by side along the last axis.

        Parameters
        ----------
        x : Array
            float32, float16 or bfloat16, of the same shape and dtype on each rank, in row order: the columns `part` of
            the result.
        width : int
            The length of the result's last axis, where the ranks do not divide it; by default as long as all parts.
        stream : Stream, optional
            This thread's by default.

        Returns
        -------
        Array

        Raises
        ------
        RankError
            A rank is gone.
        TypeError, ValueError
            The array is not like that, or the communicator is closed.
        """
        self.expect("all_gather", x)
        *rows, part = x.shape
        width = width or self.ranks * part
        if part != -(-width // self.ranks):
            raise ValueError(
                f"all_gather: a part of {part} columns of each of {self.ranks} ranks does not make {width}"
            )
        if self.peers is None:
            return x
        out = empty((*rows, width), x.dtype, stream=stream)
        self.launch(GATHER, x, out, stream, width=part, total=width)
        return out

    def part(self, width: int) -> slice:
        """Return which columns of an axis of this length are this rank's.

        All parts are equally long. Where the ranks do not divide the axis, the last ones overlap.
        """
        size = -(-width // self.ranks)
        start = min(self.rank * size, width - size)
        return slice(start, start + size)

    def expect(self, op: str, x: Array, **others: Array | None) -> None:
        """Raise where a collective cannot be made."""
        self.check()
        if x.dtype not in DTYPES:
            raise TypeError(f"{op}: {x.dtype}; it takes float32, float16 and bfloat16")
        for name, other in others.items():
            if other is not None and (other.shape, other.dtype) != (x.shape, x.dtype):
                raise ValueError(f"{op}: {name} is {other.dtype} {other.shape} and x {x.dtype} {x.shape}")
        if not all(each is None or each.is_contiguous for each in (x, *others.values())):
            raise ValueError(f"{op}: an array has gaps")
        if self.is_closed:
            raise ValueError(f"{op}: the communicator is closed")

    def launch(self, kernel: Kernel, x: Array, out: Array, stream: Stream | None, **given: Any) -> None:
        """Launch a collective; each block has a round for so many words of it."""
        words = -(-x.nbytes // 4)
        if words:
            grid = (min(self.blocks, -(-words // THREADS)), 1, 1)
            kernel(
                stream or current_stream(), grid, (THREADS, 1, 1), {"T": x.dtype, "RANKS": self.ranks},
                x=x, out=out, rounds=self.rounds, places=self.places, gone=self.is_gone, n=x.size, rank=self.rank,
                blocks=self.blocks, **given,
            )  # fmt: skip

    def all_gather_value(self, value: Any) -> list[Any]:
        """Return what each rank gives, in their order; on the host, and for what JSON can say."""
        return self.rendezvous.all_gather(value)

    def barrier(self) -> None:
        """Wait for the device, and then for all ranks."""
        current_stream().synchronize()
        self.rendezvous.all_gather(None)

    def close(self) -> None:
        """Leave; every rank does.

        Afterwards the communicator cannot be used, nor can steps that have recorded its collectives.
        """
        peers, self.peers, self.is_closed = self.peers, None, True
        if peers is not None:
            peers.close()
        self.rendezvous.close()

    def __enter__(self) -> Communicator:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.rendezvous.drop()
            if self.peers is not None:
                self.gone.value = 1  # what is on its way here would wait for the others


def exchange(name: str, macro: str, aliasing: tuple[str, ...] = (), **more: dict[str, str]) -> Kernel:
    """Return a kernel of exchange.hip, which is compiled at its first call for each dtype and number of ranks."""
    text = (Path(__file__).parent / "exchange.hip").read_text()
    return Kernel(
        name,
        inputs={"x": "T", **more.get("inputs", {}), "places": "ulong", "gone": "uint"},
        updates={"rounds": "uint"},
        outputs={"out": "T"},
        scalars={**dict.fromkeys(("n", "rank", "blocks"), "uint"), **more.get("scalars", {})},
        template={"T": "dtype", "RANKS": "int"},
        aliasing={"out": aliasing} if aliasing else None,
        ahead=("places",),
        source=f"#define {macro}\n{text}",
    )


SUM = exchange("all_reduce", "INITIAL 0.0f", ("x",))
SUM_ADDED = exchange("all_reduce_added", "INITIAL residual[start + i]", ("x", "residual"), inputs={"residual": "T"})
GATHER = exchange("all_gather", "GATHERED", scalars={"width": "uint", "total": "uint"})
