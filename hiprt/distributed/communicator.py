"""Communicators: the ranks of a program as one, whose collectives are kernels like any other.

A collective is recorded, replayed and ordered like an op of `hiprt.kernels`: within a step it is a node, and nothing of
Python runs for it when the step is replayed. All ranks make the same collectives in the same order.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from hiprt.array import Array, array, bfloat16, empty, zeros
from hiprt.buffer import Buffer
from hiprt.device import Device, current_device, device_count, set_device
from hiprt.distributed.peers import Peers
from hiprt.distributed.place import Place, place_of
from hiprt.distributed.rendezvous import RankError, Rendezvous
from hiprt.hip import call, handle, lib
from hiprt.kernels import hip_kernel
from hiprt.stream import Stream, current_stream

__all__ = ["Communicator"]

THREADS = 256  # of a block of all_reduce.hip
MOST_BLOCKS = 16  # 4 KiB of words are on their way at a time for each of them: 64 KiB keep a link of a host busy
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
        self.blocks = 1 if one else min(MOST_BLOCKS, self.device.compute_units)
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

    def all_reduce(self, x: Array, *, out: Array | None = None, stream: Stream | None = None) -> Array:
        """Return the sum of the arrays that the ranks give.

        The sum is made in float32 in the order of the ranks, and rounded once: all ranks have the same bits in every
        run. The kernel is one-shot: each rank writes its array to each other one, which suits arrays of up to some
        100 KiB.

        Parameters
        ----------
        x : Array
            float32, float16 or bfloat16, of the same shape and dtype on each rank, in row order.
        out : Array, optional
            Where the sum goes; `x` itself may be given.
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
        self.check()
        if x.dtype not in DTYPES:
            raise TypeError(f"all_reduce: {x.dtype}; it takes float32, float16 and bfloat16")
        if out is not None and (out.shape, out.dtype) != (x.shape, x.dtype):
            raise ValueError(f"all_reduce: out is {out.dtype} {out.shape} and x {x.dtype} {x.shape}")
        if self.is_closed:
            raise ValueError("all_reduce: the communicator is closed")
        if self.peers is None:
            if out is not None and out is not x:
                out.copy_from(x)
            return x if out is None else out
        out = empty(x.shape, x.dtype, stream=stream) if out is None else out
        if x.size:
            kernel, template = all_reduce_kernel(), {"T": x.dtype, "RANKS": self.ranks}
            kernel(
                x, out, self.rounds, self.places, self.is_gone, x.size, self.rank, self.blocks,
                grid=self.blocks, block=THREADS, template=template, stream=stream,
            )  # fmt: skip
        return out

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


@cache
def all_reduce_kernel() -> Any:
    """Return the kernel, which is compiled at its first call for each dtype and number of ranks."""
    arguments = {
        "x": "read T", "out": "write T over x", "rounds": "update uint32", "places": "read uint64",
        "gone": "read uint32", "n": "int32", "rank": "int32", "blocks": "int32",
    }  # fmt: skip
    text = (Path(__file__).parent / "all_reduce.hip").read_text()
    return hip_kernel(text, "all_reduce<T, RANKS>", arguments)
