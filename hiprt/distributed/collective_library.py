"""The library of collectives that a GPU's maker gives, RCCL or NCCL, and the ranks of a program as it knows them.

RCCL has NCCL's functions and values. What it puts on a stream that a step records becomes nodes of the step.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from ctypes import c_char, c_int, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hiprt import library
from hiprt.array import Array, bfloat16
from hiprt.device import Device
from hiprt.distributed.rendezvous import Rendezvous
from hiprt.errors import RankError
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
PAUSE = 0.05  # seconds between two questions


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
        self.is_recorded = False
        key = UniqueId()
        if rendezvous.place.rank == 0:
            library.call("GetUniqueId", ctypes.byref(key))
        ctypes.memmove(ctypes.byref(key), bytes.fromhex(rendezvous.all_gather(bytes(key).hex())[0]), 128)
        self.handle = self.connect(key)
        rendezvous.on_loss(lambda _error: self.let_go("CommAbort"))

    def connect(self, key: UniqueId) -> int:
        """Return this rank's handle, as soon as all ranks have come."""
        made, failures = c_void_p(), list[BaseException]()

        def work() -> None:
            try:
                call(lib.hipSetDevice(self.device.index))
                place = self.rendezvous.place
                self.library.call("CommInitRank", ctypes.byref(made), place.ranks, key, place.rank)
            except BaseException as error:
                failures.append(error)

        # On a thread of its own, because it waits for the other ranks however long they take.
        thread = threading.Thread(target=work, daemon=True, name="ranks of the library")
        thread.start()
        until = time.monotonic() + self.rendezvous.seconds
        while thread.is_alive():
            thread.join(PAUSE)
            self.rendezvous.check()
            if time.monotonic() > until:
                raise RankError(f"{self.library} did not connect all ranks within {self.rendezvous.seconds:g} s")
        if failures:
            raise failures[0]
        return made.value or 0

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
            self.is_recorded = True
        inside = nullcontext() if session is None else session.capture([*reads], [*writes, self.turns])
        with inside:
            addresses = [each.settled_extent()[0] for each in (*reads, *writes)]
            with self.lock:
                self.rendezvous.check()
                self.library.call(name, *addresses, *args, self.handle, stream.raw)

    def let_go(self, name: str) -> None:
        """Give the ranks up by ``CommDestroy`` or ``CommAbort``, on a thread of its own: both may wait for graphs."""

        def work() -> None:
            # A call that waits for a rank that is gone ends by CommAbort only.
            is_held = self.lock.acquire(timeout=1.0)
            handle, self.handle = self.handle, 0
            if is_held:
                self.lock.release()
            if handle:
                self.library.functions[name](handle)

        threading.Thread(target=work, daemon=True, name=name).start()

    def close(self) -> None:
        """Leave, once the device has done what it was given; every rank calls this."""
        # The library waits until no graph has its nodes, so that what was recorded goes with the process instead.
        if not self.is_recorded:
            self.let_go("CommDestroy")
