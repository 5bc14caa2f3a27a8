"""Communicators: the ranks of a program as one, whose collectives are kernels like any other.

A collective is recorded, replayed and ordered like an op of `hiprt.kernels`: within a step it is a node, and nothing of
Python runs for it when the step is replayed. All ranks make the same collectives in the same order. Kernels of our own
do them where the ranks reach each other's memory; else, or where ``HIPRT_COLLECTIVES`` says so, RCCL or NCCL does.

All collectives take contiguous arrays and the stream to work on, by default this thread's. They raise `RankError` where
a rank is gone, TypeError where the dtype is none of theirs, and ValueError where an array has gaps or does not fit, or
the communicator is closed.
"""

from __future__ import annotations

import math
from types import TracebackType
from typing import Any

import numpy as np

from hiprt import kernels
from hiprt.array import Array, empty, zeros
from hiprt.device import Device, current_device, device_count, set_device
from hiprt.distributed.collective_library import OPERATIONS, TYPES, LibraryRanks, collective_library
from hiprt.distributed.exchange import BROADCAST, GATHER, RECEIVE, REDUCTIONS, SCATTER, SEND, SUM_ADDED, SUMMED_IN
from hiprt.distributed.peer_ranks import PeerRanks
from hiprt.distributed.peers import bus_of, host
from hiprt.distributed.place import Place, place_of
from hiprt.distributed.rendezvous import Rendezvous
from hiprt.errors import RankError
from hiprt.flags import flags
from hiprt.stream import Stream, current_stream

__all__ = ["Communicator"]

MOST_RANKS = 8
LARGE = 1 << 20  # bytes from which HIPRT_COLLECTIVES=both leaves an array to the library


class Communicator:
    """The ranks of a program, connected through each other's device memory or by RCCL or NCCL.

    Every rank makes one at the same place of its program. It is a context manager.

    Parameters
    ----------
    place : Place, optional
        This process's place; what its launcher says by default (`place_of`).
    seconds : float
        How long to wait for the other ranks.
    device : Device, optional
        This rank's device; by default that of the rank's number on its host, which becomes this thread's.

    Attributes
    ----------
    rank, ranks : int
        This process's number, from 0, and how many there are.

    Raises
    ------
    RankError
        A rank is missing, late or of another version; two ranks have one GPU; or the ranks cannot be connected, because
        they do not reach each other's memory and no library of collectives is installed.
    ValueError
        The launcher's variables say no place.
    """

    def __init__(self, place: Place | None = None, *, seconds: float = 60.0, device: Device | None = None) -> None:
        place = place or place_of()
        if place.ranks > MOST_RANKS:
            raise ValueError(f"{place.ranks} ranks: a communicator has at most {MOST_RANKS}")
        if device is None and place.ranks > 1:
            device = set_device(place.local_rank % device_count())
        self.begin(Rendezvous(place, seconds), device or current_device())

    def begin(self, rendezvous: Rendezvous, device: Device, turns: Array | None = None) -> None:
        """Connect the ranks that have met.

        Parameters
        ----------
        rendezvous : Rendezvous
        device : Device
        turns : Array, optional
            What all collectives are declared to write, so that they come in the order of the program; of its own by
            default.
        """
        self.rank, self.ranks, self.device = rendezvous.place.rank, rendezvous.place.ranks, device
        self.rendezvous = rendezvous
        self.peers: PeerRanks | None = None
        self.library: LibraryRanks | None = None
        self.is_closed = False
        if self.ranks > 1:
            try:
                self.turns = zeros(1, np.uint32) if turns is None else turns
                self.connect()
            except BaseException:
                self.rendezvous.close()
                raise

    def split(self, color: int, key: int = -1) -> Communicator:
        """Return a communicator of those ranks that give the same colour; every rank calls this.

        Its collectives and those of this one come in the order of the program. It does not need this one any more.

        Parameters
        ----------
        color : int
        key : int
            By which the ranks are numbered; a negative one stands for the rank's number here.

        Returns
        -------
        Communicator

        Raises
        ------
        RankError
            A rank is gone or late.
        """
        part = Communicator.__new__(Communicator)
        turns = self.turns if self.ranks > 1 else None
        part.begin(self.rendezvous.split(color, self.rank if key < 0 else key), self.device, turns)
        return part

    def connect(self) -> None:
        """Connect the ranks by our kernels, by a library, or by both."""
        choices = self.rendezvous.all_gather(flags.collectives)
        if len(set(choices)) > 1:
            raise RankError(f"HIPRT_COLLECTIVES differs between the ranks: {', '.join(choices)}")
        refuse_shared(self.rendezvous.all_gather([host(), bus_of(self.device), self.device.name]))
        refusal = None
        if flags.collectives != "library":
            try:
                self.peers = PeerRanks(self.rendezvous, self.device, self.turns)
            except RankError as error:
                refusal = error
                self.rendezvous.check()
        if self.peers is None or flags.collectives == "both":
            found = collective_library()
            missing = [rank for rank, has in enumerate(self.rendezvous.all_gather(found is not None)) if not has]
            if found is None or missing:
                cause = f"{refusal}; and no" if refusal else "no"
                message = f"{cause} library of collectives (RCCL or NCCL) was found by rank {missing[0]}"
                raise RankError(message, missing[0])
            self.library = LibraryRanks(found, self.rendezvous, self.device, self.turns)
        current_stream().synchronize()

    def check(self) -> None:
        """Raise if a rank is gone: what collectives have left since is no result then.

        It asks no device and no other rank. A program calls it behind each wait for the device.

        Raises
        ------
        RankError
        RuntimeError
            The library of collectives has failed.
        """
        self.rendezvous.check()
        if self.library is not None:
            self.library.check()

    def all_reduce(
        self,
        x: Array,
        *,
        op: str = "sum",
        residual: Array | None = None,
        out: Array | None = None,
        stream: Stream | None = None,
    ) -> Array:
        """Return the sum of the arrays that the ranks give, or the largest or least number at each place.

        Our kernel makes a sum in float32 (of integers in their dtype), of the residual and then the ranks in their
        order, and rounds it once: all ranks have the same bits in every run. The kernel is one-shot: each rank writes
        its array to each other one, which suits few ranks, or arrays of up to some 100 KiB.

        Parameters
        ----------
        x : Array
            float32, float16, bfloat16, int32 or uint32, of the same shape and dtype on each rank. A library takes
            integers of 8 and 64 bits and float64 too.
        op : str
            ``"sum"``, ``"max"`` or ``"min"``.
        residual : Array, optional
            What a sum begins with: of the shape and dtype of `x`, and the same on all ranks.
        out : Array, optional
            Where the result goes; `x` or `residual` may be given.
        stream : Stream, optional

        Returns
        -------
        Array
        """
        if op not in OPERATIONS or (residual is not None and op != "sum"):
            raise ValueError(f"all_reduce: op={op!r}: sum, max or min, and a residual with a sum only")
        self.expect("all_reduce", x, residual=residual, out=out)
        if self.ranks == 1:
            if residual is not None:
                return kernels.add(residual, x, out=out, stream=stream)
            if out is not None and out is not x:
                out.copy_from(x)
            return x if out is None else out
        out = empty(x.shape, x.dtype, stream=stream) if out is None else out
        if library := self.library_for(x):
            summed = out if residual is None else empty(x.shape, x.dtype, stream=stream)
            library.launch("AllReduce", [x], [summed], stream, x.size, TYPES[x.dtype], OPERATIONS[op])
            return out if residual is None else kernels.add(residual, summed, out=out, stream=stream)
        if residual is None:
            self.own.launch(REDUCTIONS[op], x, out, stream, S=SUMMED_IN[x.dtype])
        else:
            self.own.launch(SUM_ADDED, x, out, stream, residual=residual, S=SUMMED_IN[x.dtype])
        return out

    def reduce_scatter(self, x: Array, *, stream: Stream | None = None) -> Array:
        """Return this rank's part of the sum of the arrays that the ranks give.

        Parameters
        ----------
        x : Array, shape (ranks * n, …)
            As for `all_reduce`.
        stream : Stream, optional

        Returns
        -------
        Array, shape (n, …)
            Rows ``rank * n`` to ``(rank + 1) * n`` of the sum.
        """
        self.expect("reduce_scatter", x)
        if not x.ndim or len(x) % self.ranks:
            raise ValueError(f"reduce_scatter: {self.ranks} ranks do not divide the rows of {x.shape}")
        if self.ranks == 1:
            return x
        out = empty((len(x) // self.ranks, *x.shape[1:]), x.dtype, stream=stream)
        if library := self.library_for(x):
            library.launch("ReduceScatter", [x], [out], stream, out.size, TYPES[x.dtype], OPERATIONS["sum"])
        else:
            self.own.launch(SCATTER, x, out, stream, S=SUMMED_IN[x.dtype])
        return out

    def all_gather(self, x: Array, width: int = 0, *, stream: Stream | None = None) -> Array:
        """Return the arrays that the ranks give, side by side along the last axis.

        Parameters
        ----------
        x : Array
            Of the same shape and dtype on each rank: the columns `part` of the result.
        width : int
            The length of the result's last axis, where the ranks do not divide it; by default as long as all parts.
        stream : Stream, optional

        Returns
        -------
        Array
        """
        self.expect("all_gather", x, can_sum=False)
        x = x if x.ndim else x.reshape(1)
        *rows, part = x.shape
        width = width or self.ranks * part
        if part != -(-width // self.ranks):
            raise ValueError(
                f"all_gather: a part of {part} columns of each of {self.ranks} ranks does not make {width}"
            )
        if self.ranks == 1:
            return x
        out = empty((*rows, width), x.dtype, stream=stream)
        words, whole = in_words(x), in_words(out)
        if library := self.library_for(x):
            # The library puts one rank's rows behind those of another.
            is_row = math.prod(rows) == 1 and width == self.ranks * part
            behind = whole if is_row else empty((self.ranks, *words.shape), words.dtype, stream=stream)
            library.launch("AllGather", [words], [behind], stream, words.size, TYPES[words.dtype])
            if not is_row:
                beside(behind, whole, stream)
        else:
            self.own.launch(GATHER, words, whole, stream, width=words.shape[-1], total=whole.shape[-1])
        return out

    def broadcast(self, x: Array, root: int = 0, *, out: Array | None = None, stream: Stream | None = None) -> Array:
        """Return the array that a rank gives.

        Parameters
        ----------
        x : Array
            Of the same shape and dtype on each rank; the numbers of `root` count.
        root : int
        out : Array, optional
            Where they go; `x` may be given.
        stream : Stream, optional

        Returns
        -------
        Array
        """
        self.expect("broadcast", x, can_sum=False, out=out)
        self.expect_rank("broadcast", root)
        if self.ranks == 1:
            return self.all_reduce(x, out=out, stream=stream) if out is not None else x
        out = empty(x.shape, x.dtype, stream=stream) if out is None else out
        words, taken = in_words(x), in_words(out)
        if library := self.library_for(x):
            library.launch("Broadcast", [words], [taken], stream, words.size, TYPES[words.dtype], root)
        else:
            self.own.launch(BROADCAST, words, taken, stream, root=root)
        return out

    def send(self, x: Array, rank: int, *, stream: Stream | None = None) -> None:
        """Send an array to a rank, which calls `recv` for it.

        Messages of one rank to another come in their order. A message waits for its `recv`: two ranks that send to each
        other first, on one stream each, may wait for good.

        Parameters
        ----------
        x : Array
        rank : int
            Another one.
        stream : Stream, optional
        """
        self.expect("send", x, can_sum=False)
        self.expect_rank("send", rank, can_be_own=False)
        words = in_words(x)
        if library := self.library_for(x):
            library.launch("Send", [words], [], stream, words.size, TYPES[words.dtype], rank)
        else:
            self.own.pass_message(SEND, words, rank, stream)

    def recv(self, out: Array, rank: int, *, stream: Stream | None = None) -> Array:
        """Take the next message of a rank into an array, and return that.

        Parameters
        ----------
        out : Array
            Of the size and dtype of what is sent.
        rank : int
            Another one.
        stream : Stream, optional

        Returns
        -------
        Array
        """
        self.expect("recv", out, can_sum=False)
        self.expect_rank("recv", rank, can_be_own=False)
        words = in_words(out)
        if library := self.library_for(out):
            library.launch("Recv", [], [words], stream, words.size, TYPES[words.dtype], rank)
        else:
            self.own.pass_message(RECEIVE, words, rank, stream)
        return out

    def part(self, width: int, rank: int | None = None) -> slice:
        """Return which columns of an axis of this length are a rank's, by default this one's.

        All parts are equally long. Where the ranks do not divide the axis, the last ones overlap.
        """
        size = -(-width // self.ranks)
        start = min((self.rank if rank is None else rank) * size, width - size)
        return slice(start, start + size)

    @property
    def own(self) -> PeerRanks:
        """The ranks as our kernels connect them."""
        assert self.peers is not None
        return self.peers

    def library_for(self, x: Array) -> LibraryRanks | None:
        """Return the library's ranks where it is the library that takes an array."""
        return self.library if self.peers is None or x.nbytes >= LARGE else None

    def expect(self, op: str, x: Array, *, can_sum: bool = True, **others: Array | None) -> None:
        """Raise where a collective cannot be made."""
        self.check()
        taken = SUMMED_IN if self.ranks == 1 or self.library_for(x) is None else TYPES
        if can_sum and x.dtype not in taken:
            raise TypeError(f"{op}: {x.dtype}; it takes {', '.join(map(str, taken))}")
        for name, other in others.items():
            if other is not None and (other.shape, other.dtype) != (x.shape, x.dtype):
                raise ValueError(f"{op}: {name} is {other.dtype} {other.shape} and x {x.dtype} {x.shape}")
        if not all(each is None or each.is_contiguous for each in (x, *others.values())):
            raise ValueError(f"{op}: an array has gaps")
        if self.is_closed:
            raise ValueError(f"{op}: the communicator is closed")

    def expect_rank(self, op: str, rank: int, *, can_be_own: bool = True) -> None:
        """Raise where there is no such rank, or where it is this one and must be another."""
        if not 0 <= rank < self.ranks or (rank == self.rank and not can_be_own):
            raise ValueError(f"{op}: rank {rank} of {self.ranks} is {'this one' if rank == self.rank else 'none'}")

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

        Raises
        ------
        RankError
            A rank is gone or late. This one has left as by `drop`, and what collectives have left since `check` passed
            is no result.
        """
        self.is_closed = True
        try:
            if self.peers is not None:
                self.peers.close()
            if self.library is not None:
                self.barrier()
        except BaseException:
            self.drop()
            raise
        if self.library is not None:
            self.library.leave("CommDestroy")
        self.rendezvous.close()

    def drop(self) -> None:
        """Leave at once, without the others: for them this rank is lost."""
        self.is_closed = True
        self.rendezvous.drop()
        # What is on its way here would wait for the others.
        if self.peers is not None:
            self.peers.stop_waiting()
        if self.library is not None:
            self.library.leave("CommAbort")

    def __enter__(self) -> Communicator:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.drop()


def beside(parts: Array, whole: Array, stream: Stream | None) -> None:
    """Copy parts of shape (ranks, …, part) into the columns of (…, width); the last ones overlap as `part` says."""
    ranks, part, width = len(parts), parts.shape[-1], whole.shape[-1]
    if width == ranks * part:
        rows = parts.reshape(ranks, -1, part).transpose(1, 0, 2)
        kernels.contiguous(rows, out=whole.reshape(rows.shape), stream=stream)
        return
    # What a rank before has is its.
    own = [max(0, min(part, width - rank * part)) for rank in range(ranks)]
    pieces = [parts[rank, ..., part - own[rank] :] for rank in range(ranks) if own[rank]]
    kernels.concatenate(pieces, axis=-1, out=whole, stream=stream)


def in_words(x: Array) -> Array:
    """Return the memory of a contiguous array as one of 4 or 2 bytes an element, for what is moved unchanged.

    Raises
    ------
    TypeError
        The last axis has no whole number of them.
    """
    width = 4 if x.dtype.itemsize % 4 == 0 else 2
    *rows, last = x.shape or (1,)
    last, rest = divmod(last * x.dtype.itemsize, width)
    if rest:
        raise TypeError(f"{x.dtype} {x.shape}: rows of an odd number of bytes cannot be sent")
    return Array(x.buffer, (*rows, last), np.dtype(np.uint32 if width == 4 else np.float16), x.address)


def refuse_shared(places: list[list[str]]) -> None:
    """Raise where two ranks have one GPU: their kernels would wait for each other and not run side by side.

    Parameters
    ----------
    places : list of [str, str, str]
        Each rank's host, the place of its device on that host, and the device's name; "" where ranks may share it.

    Raises
    ------
    RankError
    """
    first: dict[tuple[str, str], int] = {}
    for rank, (where, bus, name) in enumerate(places):
        other = first.setdefault((where, bus), rank)
        if bus and other != rank:
            raise RankError(
                f"ranks {other} and {rank} have one device, {name} at {bus}: each rank needs one of its own, so start "
                "no more ranks on a host than it has devices",
                rank,
            )
