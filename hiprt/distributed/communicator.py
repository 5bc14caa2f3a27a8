"""Communicators: the ranks of a program as one, whose collectives are kernels like any other.

A collective is recorded, replayed and ordered like an op of `hiprt.kernels`: within a step it is a node, and nothing of
Python runs for it when the step is replayed. All ranks make the same collectives in the same order. Kernels of our own
do them where the ranks reach each other's memory; else, or where ``HIPRT_COLLECTIVES`` says so, RCCL or NCCL does.

All collectives take contiguous arrays and the stream to work on, by default this thread's. They raise `RankError` where
a rank is gone, TypeError where the dtype is none of theirs, and ValueError where an array has gaps or does not fit, or
the communicator is closed.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from hiprt import kernels
from hiprt.array import Array, array, bfloat16, empty, zeros
from hiprt.buffer import Buffer
from hiprt.device import Device, current_device, device_count, set_device
from hiprt.distributed.collective_library import OPERATIONS, TYPES, LibraryRanks, collective_library
from hiprt.distributed.peers import Peers, bus_of, host
from hiprt.distributed.place import Place, place_of
from hiprt.distributed.rendezvous import Rendezvous
from hiprt.errors import RankError
from hiprt.flags import flags
from hiprt.hip import call, handle, lib
from hiprt.kernels.lang.kernel import Kernel
from hiprt.stream import Stream, current_stream

__all__ = ["Communicator"]

THREADS = 256  # of a block of exchange.hip
MOST_BLOCKS = 128  # each has 1 KiB of numbers on their way at a time; it takes that many to keep a link busy
WORD = 8
MOST_RANKS = 8
LARGE = 1 << 20  # bytes from which HIPRT_COLLECTIVES=both leaves an array to the library
FLOAT32 = np.dtype(np.float32)
# What numbers are added up in, by dtype.
SUMMED_IN = {
    FLOAT32: FLOAT32,
    np.dtype(np.float16): FLOAT32,
    np.dtype(bfloat16): FLOAT32,
    np.dtype(np.int32): np.dtype(np.int32),
    np.dtype(np.uint32): np.dtype(np.uint32),
}


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
        self.rank, self.ranks = place.rank, place.ranks
        if device is None and place.ranks > 1:
            device = set_device(place.local_rank % device_count())
        self.device = device or current_device()
        self.rendezvous = Rendezvous(place, seconds)
        self.peers: Peers | None = None
        self.library: LibraryRanks | None = None
        self.is_closed = False
        if self.ranks > 1:
            try:
                self.connect()
            except BaseException:
                self.rendezvous.close()
                raise

    def connect(self) -> None:
        """Connect the ranks by our kernels, by a library, or by both."""
        choices = self.rendezvous.all_gather(flags.collectives)
        if len(set(choices)) > 1:
            raise RankError(f"HIPRT_COLLECTIVES differs between the ranks: {', '.join(choices)}")
        refuse_shared(self.rendezvous.all_gather([host(), bus_of(self.device), self.device.name]))
        refusal = None
        if flags.collectives != "library":
            try:
                self.connect_kernels()
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
            # What our kernels have in turn orders them with the library's too.
            turns = zeros(1, np.uint32) if self.peers is None else self.rounds
            self.library = LibraryRanks(found, self.rendezvous, self.device, turns)
        current_stream().synchronize()

    def connect_kernels(self) -> None:
        """Make what our kernels share."""
        # Blocks of one launch wait for blocks of others: they must run side by side, which the CPU device's need not.
        one = self.device.provider.takes_loops
        blocks = 1 if one else min(MOST_BLOCKS, self.device.compute_units)
        self.blocks = min(self.rendezvous.all_gather(blocks))
        # Two turns of words for the collectives of all, for messages, and for the answers to them.
        self.peers = Peers(self.rendezvous, 3 * 2 * self.ranks * self.blocks * THREADS * WORD, self.device)
        self.places = array(np.array(self.peers.addresses, np.uint64))
        self.rounds = zeros(self.blocks, np.uint32)
        self.sent, self.received = (zeros((self.ranks, self.blocks), np.uint32) for _ in range(2))
        word = handle(lib.hipHostMalloc, 4, 0)
        # It goes with the last recording that reads it; hipHostFree waits for the device.
        memory = Buffer(word, 4, self.device.index, lambda: call(lib.hipHostFree(word)))
        self.is_gone = Array(memory, (1,), np.dtype(np.uint32), word)
        self.gone = ctypes.c_uint32.from_address(word)
        self.gone.value = 0
        self.rendezvous.on_loss(self.stop_waiting)

    def stop_waiting(self, _error: RankError) -> None:
        """Let the kernels that wait for a rank end; what they leave is not a result."""
        self.gone.value = 1

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
        its array to each other one, which suits arrays of up to some 100 KiB.

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
            self.launch(REDUCTIONS[op], x, out, stream, S=SUMMED_IN[x.dtype])
        else:
            self.launch(SUM_ADDED, x, out, stream, residual=residual, S=SUMMED_IN[x.dtype])
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
            self.launch(SCATTER, x, out, stream, S=SUMMED_IN[x.dtype])
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
        words = in_words(x)
        if library := self.library_for(x):
            parts = empty((self.ranks, math.prod(rows), part), x.dtype, stream=stream)
            library.launch("AllGather", [words], [parts], stream, words.size, TYPES[words.dtype])
            for row, whole in enumerate(out.reshape(-1, width) if out.size else ()):
                for rank in range(self.ranks):
                    start = self.part(width, rank).start
                    whole[start : start + part].copy_from(parts[rank, row], stream)
        else:
            self.launch(GATHER, words, in_words(out), stream, width=words.shape[-1], total=in_words(out).shape[-1])
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
            self.launch(BROADCAST, words, taken, stream, root=root)
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
        self.pass_message(SEND, x, rank, stream)

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
        self.pass_message(RECEIVE, out, rank, stream)
        return out

    def part(self, width: int, rank: int | None = None) -> slice:
        """Return which columns of an axis of this length are a rank's, by default this one's.

        All parts are equally long. Where the ranks do not divide the axis, the last ones overlap.
        """
        size = -(-width // self.ranks)
        start = min((self.rank if rank is None else rank) * size, width - size)
        return slice(start, start + size)

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

    def launch(self, kernel: Kernel, x: Array, out: Array, stream: Stream | None, **given: Any) -> None:
        """Launch a collective; each block has a round for so many words of it."""
        n = min(x.size, out.size)  # of reduce_scatter that is the part; of all_gather as well
        words = -(-n * x.dtype.itemsize // 4)
        template = {"T": x.dtype, "RANKS": self.ranks} | ({"S": given.pop("S")} if "S" in given else {})
        if words:
            grid = (min(self.blocks, -(-words // THREADS)), 1, 1)
            kernel(
                stream or current_stream(), grid, (THREADS, 1, 1), template,
                x=x, out=out, rounds=self.rounds, places=self.places, gone=self.is_gone, n=n, rank=self.rank,
                blocks=self.blocks, **given,
            )  # fmt: skip

    def pass_message(self, kernel: Kernel, x: Array, peer: int, stream: Stream | None) -> None:
        """Put one half of a message, of a kernel that sends or receives, on a stream."""
        is_sent, words = kernel is SEND, in_words(x)
        if library := self.library_for(x):
            reads, writes = [words][: int(is_sent)], [words][int(is_sent) :]
            library.launch("Send" if is_sent else "Recv", reads, writes, stream, words.size, TYPES[words.dtype], peer)
        elif count := -(-words.nbytes // 4):
            grid = (min(self.blocks, -(-count // THREADS)), 1, 1)
            kernel(
                stream or current_stream(), grid, (THREADS, 1, 1), {"T": words.dtype, "RANKS": self.ranks},
                rounds=(self.sent if is_sent else self.received)[peer], turns=self.rounds, places=self.places,
                gone=self.is_gone, n=words.size, rank=self.rank, peer=peer, blocks=self.blocks,
                **{"x" if is_sent else "out": words},
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
        if self.library is not None:
            with suppress(RankError):
                self.barrier()
            self.library.leave("CommDestroy")
        self.rendezvous.close()

    def __enter__(self) -> Communicator:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.is_closed = True
            self.rendezvous.drop()
            # What is on its way here would wait for the others.
            if self.peers is not None:
                self.gone.value = 1
            if self.library is not None:
                self.library.leave("CommAbort")


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


def exchange(
    file: str,
    name: str,
    macros: dict[str, str],
    *,
    inputs: Iterable[str] = ("x",),
    updates: Iterable[str] = (),
    outputs: Iterable[str] = ("out",),
    aliasing: tuple[str, ...] = (),
    scalars: Iterable[str] = (),
) -> Kernel:
    """Return a kernel, which is compiled at its first call for each dtype and number of ranks."""
    text = (Path(__file__).parent / file).read_text()
    return Kernel(
        name,
        inputs={**dict.fromkeys(inputs, "T"), "places": "ulong", "gone": "uint"},
        updates=dict.fromkeys(("rounds", *updates), "uint"),
        outputs=dict.fromkeys(outputs, "T"),
        scalars=dict.fromkeys(("n", "rank", "blocks", *scalars), "uint"),
        template={"T": "dtype", "RANKS": "int"} | ({"S": "dtype"} if "COMBINE(a, b)" in macros else {}),
        aliasing={"out": aliasing} if aliasing else None,
        ahead=("places",),
        source="".join(f"#define {macro} {value}\n" for macro, value in macros.items()) + text,
    )


def reduction(name: str, combine: str, initial: str, **more: Any) -> Kernel:
    """Return a kernel that puts numbers of all ranks together."""
    macros = {"COMBINE(a, b)": combine, "INITIAL": initial, **more.pop("macros", {})}
    return exchange("exchange.hip", name, macros, **more)


OWN = "x[start + i]"  # what max and min begin with, which changes nothing; a NaN stays one
REDUCTIONS = {
    "sum": reduction("all_reduce", "(a) + (b)", "0", aliasing=("x",)),
    "max": reduction("all_reduce_max", "(b) > (a) || (b) != (b) ? (b) : (a)", OWN, aliasing=("x",)),
    "min": reduction("all_reduce_min", "(b) < (a) || (b) != (b) ? (b) : (a)", OWN, aliasing=("x",)),
}
SUM_ADDED = reduction(
    "all_reduce_added", "(a) + (b)", "residual[start + i]", inputs=("x", "residual"), aliasing=("x", "residual")
)
SCATTER = reduction("reduce_scatter", "(a) + (b)", "0", macros={"SCATTERED": ""})
GATHER = exchange("exchange.hip", "all_gather", {"GATHERED": ""}, scalars=("width", "total"))
BROADCAST = exchange("exchange.hip", "broadcast", {"ROOTED": ""}, aliasing=("x",), scalars=("root",))
# A message takes its turn among the collectives: else one rank could wait in a message and the other in a sum.
MESSAGE: dict[str, Any] = {"updates": ("turns",), "scalars": ("peer",)}
SEND = exchange("message.hip", "send", {"SENT": ""}, outputs=(), **MESSAGE)
RECEIVE = exchange("message.hip", "receive", {"RECEIVED": ""}, inputs=(), **MESSAGE)
