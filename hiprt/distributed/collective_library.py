"""The library of collectives that a GPU's maker gives, RCCL or NCCL, and the ranks of a program as it knows them.

RCCL has NCCL's functions and values. What it puts on a stream that a step records becomes nodes of the step.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import queue
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from ctypes import c_char, c_int, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np

from hiprt import library
from hiprt.array import Array, bfloat16
from hiprt.device import Device
from hiprt.distributed.rendezvous import Rendezvous
from hiprt.errors import HipError, HipWarning, RankError
from hiprt.event import Event
from hiprt.flags import flags
from hiprt.hip import call, lib
from hiprt.module import READ, WRITE
from hiprt.stream import Stream, current_stream

__all__ = ["CollectiveLibrary", "LibraryRanks", "collective_library"]

# ncclDataType_t and ncclRedOp_t of nccl.h, which do not change.
TYPES = {
    np.dtype(np.int8): 0, np.dtype(np.uint8): 1, np.dtype(np.int32): 2, np.dtype(np.uint32): 3, np.dtype(np.int64): 4,
    np.dtype(np.uint64): 5, np.dtype(np.float16): 6, np.dtype(np.float32): 7, np.dtype(np.float64): 8, bfloat16: 9,
}  # fmt: skip
OPERATIONS = {"sum": 0, "max": 2, "min": 3}
IN_PROGRESS = 7
NOT_READY = 600  # hipErrorNotReady
PAUSE = 0.05  # seconds between two questions
LEAVE = 10.0  # seconds in which the library has to let go


class UniqueId(ctypes.Structure):
    """What rank 0 makes and all ranks give: ncclUniqueId."""

    _fields_ = (("internal", c_char * 128),)


FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "GetVersion": (c_void_p,),
    "GetUniqueId": (c_void_p,),
    "CommInitRank": (c_void_p, c_int, UniqueId, c_int),
    "CommDestroy": (c_void_p,),
    "CommAbort": (c_void_p,),
    "CommGetAsyncError": (c_void_p, c_void_p),
    "AllReduce": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
    "AllGather": (c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p),
    "ReduceScatter": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
    "Broadcast": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
    "Send": (c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
    "Recv": (c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
}


class CollectiveLibrary:
    """RCCL or NCCL.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    path : Path
    version : str
        Of NCCL's interface, such as ``2.28.9``.

    Raises
    ------
    OSError
        The file is no library, or has not the functions.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        opened = ctypes.CDLL(str(path))
        self.functions: dict[str, Callable[..., int]] = {}
        for name, types in FUNCTIONS.items():
            try:
                function = getattr(opened, f"nccl{name}")
            except AttributeError as error:
                raise OSError(f"{path} is no library of collectives: {error}") from None
            function.argtypes = types
            self.functions[name] = function
        self.text = opened.ncclGetErrorString
        self.text.restype = ctypes.c_char_p
        number = c_int()
        self.call("GetVersion", ctypes.byref(number))
        # NCCL has counted by 1,000 before 2.9, and by 10,000 since.
        major = 10_000 if number.value >= 10_000 else 1_000
        self.version = f"{number.value // major}.{number.value % major // 100}.{number.value % 100}"

    def __str__(self) -> str:
        return f"{self.path}, NCCL {self.version}"

    def call(self, name: str, *args: Any) -> None:
        """Call a function.

        Raises
        ------
        RuntimeError
            It fails.
        """
        status = self.functions[name](*args)
        if status not in (0, IN_PROGRESS):
            raise RuntimeError(f"nccl{name}: {self.text(status).decode(errors='replace')} ({status})")


@cache
def collective_library() -> CollectiveLibrary | None:
    """Return the library of collectives that goes with the HIP library in use, or None where none is installed.

    ``HIPRT_NCCL_LIB`` names one.

    Raises
    ------
    OSError
        The named file cannot be opened.
    """
    if flags.nccl_lib:
        return CollectiveLibrary(Path(flags.nccl_lib))
    current = library.current()
    for path in current.provider.find_collectives(current.hip):
        try:
            return CollectiveLibrary(path)
        except OSError:
            continue  # It may be of another ROCm or CUDA than the one in use.
    return None


class LibraryRanks:
    """The ranks of a program, connected by RCCL or NCCL.

    Every rank makes it at the same place of its program.

    Parameters
    ----------
    library : CollectiveLibrary
    rendezvous : Rendezvous
    device : Device
        This rank's device.
    turns : Array
        What all collectives of the ranks are declared to write, so that they come one behind the other.

    Raises
    ------
    RankError
        A rank is gone, late, or has another version of the library.
    RuntimeError
        The library cannot connect the ranks.
    """

    def __init__(self, library: CollectiveLibrary, rendezvous: Rendezvous, device: Device, turns: Array) -> None:
        self.library, self.rendezvous, self.device, self.turns = library, rendezvous, device, turns
        versions = rendezvous.all_gather(library.version)
        for rank, version in enumerate(versions):
            if version != versions[0]:
                raise RankError(f"rank {rank} has NCCL {version}, and rank 0 NCCL {versions[0]}", rank)
        # Collectives of a program come one behind the other, also in graphs: what orders those that run side by side
        # would be events of other streams in a graph.
        os.environ.setdefault("NCCL_GRAPH_MIXING_SUPPORT", "0")
        self.lock = threading.Lock()
        self.streams = WeakSet[Stream]()
        self.ladders = WeakSet[Any]()  # of the steps whose graphs have nodes of the library
        self.ending = queue.SimpleQueue[str]()
        key = UniqueId()
        if rendezvous.place.rank == 0:
            library.call("GetUniqueId", ctypes.byref(key))
        ctypes.memmove(ctypes.byref(key), bytes.fromhex(rendezvous.all_gather(bytes(key).hex())[0]), 128)
        self.handle = 0
        self.failure: BaseException | None = None
        self.has_come = threading.Event()
        # What it calls waits for the other ranks or for graphs, however long they take. The interpreter starts no
        # thread at its end, so that this one is there from the start.
        self.thread = threading.Thread(target=self.live, args=(key,), daemon=True, name="ranks of the library")
        self.thread.start()
        try:
            self.wait_for_all()
        except BaseException:
            self.ending.put("CommAbort")
            raise
        atexit.register(self.leave, "CommAbort")
        rendezvous.on_loss(lambda _error: self.ending.put("CommAbort"))

    def live(self, key: UniqueId) -> None:
        """Connect the ranks, and give them up as soon as `ending` says by which function."""
        made = c_void_p()
        try:
            call(lib.hipSetDevice(self.device.index))
            place = self.rendezvous.place
            self.library.call("CommInitRank", ctypes.byref(made), place.ranks, key, place.rank)
        except BaseException as error:
            self.failure = error
        self.handle = made.value or 0
        self.has_come.set()
        name = self.ending.get()
        # A call that waits for a rank that is gone ends by CommAbort only.
        is_held = self.lock.acquire(timeout=1.0)
        handle, self.handle = self.handle, 0
        if is_held:
            self.lock.release()
        if handle:
            self.library.functions[name](handle)

    def wait_for_all(self) -> None:
        """Wait until all ranks are connected."""
        until = time.monotonic() + self.rendezvous.seconds
        while not self.has_come.wait(PAUSE):
            self.rendezvous.check()
            if time.monotonic() > until:
                raise RankError(f"{self.library} did not connect all ranks within {self.rendezvous.seconds:g} s")
        if self.failure is not None:
            raise self.failure

    def check(self) -> None:
        """Raise if the library has failed since, which it finds on threads of its own.

        Raises
        ------
        RankError
            A rank is gone.
        RuntimeError
            Something else, in the library's words.
        """
        self.rendezvous.check()
        status = c_int()
        with self.lock:
            if self.handle:
                self.library.call("CommGetAsyncError", self.handle, ctypes.byref(status))
        if status.value not in (0, IN_PROGRESS):
            self.rendezvous.check()
            raise RuntimeError(f"{self.library}: {self.library.text(status.value).decode(errors='replace')}")

    def launch(
        self, name: str, reads: Sequence[Array], writes: Sequence[Array], stream: Stream | None, *args: Any
    ) -> None:
        """Put a collective on a stream; within a step it becomes nodes.

        Parameters
        ----------
        name : str
            The function's, without ``nccl``.
        reads, writes : sequence of Array
            What it takes, in the order of its parameters, which are addresses.
        stream : Stream or None
            This thread's where it is None.
        *args
            Its other arguments, but for the handle and the stream.
        """
        stream = stream or current_stream()
        if stream.written is not None:  # of a rehearsal
            stream.written += [*writes, self.turns]
            return
        session = stream.session
        if stream.recording and session is None:
            raise RuntimeError(f"{name}: the stream records, but for no step")
        call(lib.hipSetDevice(self.device.index))
        if session is None:
            for each in reads:
                stream.wait_for(each.buffer, READ)
            for each in (*writes, self.turns):
                stream.wait_for(each.buffer, WRITE)
        else:
            self.ladders.add(session.ladder)
        self.streams.add(stream)
        inside = nullcontext() if session is None else session.capture([*reads], [*writes, self.turns])
        with inside:
            addresses = [each.settled_extent()[0] for each in (*reads, *writes)]
            with self.lock:
                self.rendezvous.check()
                self.library.call(name, *addresses, *args, self.handle, stream.raw)

    def leave(self, name: str) -> None:
        """Give the ranks up, in the order that the library needs, and return when it has done so.

        What it has on its way ends first, then the graphs that have nodes of it go, because the library waits for that,
        and then the ranks: before the device and the interpreter, whose end the library's threads would not survive.

        Parameters
        ----------
        name : str
            ``CommDestroy``, which every rank calls, or ``CommAbort``, after which nothing waits for a rank.

        Warns
        -----
        HipWarning
            The library took longer than some seconds.
        """
        atexit.unregister(self.leave)
        until = time.monotonic() + LEAVE
        if name == "CommAbort":
            self.ending.put(name)  # what waits for a rank that is gone does not end before
        self.wait_for_streams(until)
        if time.monotonic() < until:  # else it would wait for good for a graph that runs
            for ladder in list(self.ladders):
                ladder.let_go()
        self.ending.put(name)
        self.thread.join(max(0.0, until - time.monotonic()))
        if self.thread.is_alive():
            warnings.warn(f"{self.library} did not end within {LEAVE:g} s", HipWarning, stacklevel=2)

    def wait_for_streams(self, until: float) -> None:
        """Wait for what is on its way, or until this time of the monotonic clock."""
        with suppress(HipError):  # A device that has failed has nothing on its way.
            call(lib.hipSetDevice(self.device.index))
            events = [(Event(timing=False), stream) for stream in self.streams if stream.is_open]
            for event, stream in events:
                event.record(stream)
            for event, _ in events:
                while lib.hipEventQuery(event.handle) == NOT_READY and time.monotonic() < until:
                    time.sleep(PAUSE / 10)
                event.close()
