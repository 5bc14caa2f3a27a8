"""Pages: freed memory of the CPU device, which nobody can touch, and the buffers that lay there."""

from __future__ import annotations

import ctypes
import mmap
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cache
from typing import Any

from hiprt import errors, fork, library
from hiprt.errors import HipError

__all__ = ["PAGE", "Freed", "Pages", "UseAfterFreeError"]

PAGE = mmap.PAGESIZE
CLOSED, OPEN = 0, mmap.PROT_READ | mmap.PROT_WRITE
ILLEGAL_ADDRESS = 700


class UseAfterFreeError(HipError):
    """A kernel touched a buffer that had been freed. Only on the CPU device, under ``HIPRT_ALLOC_POISON=1``.

    Attributes
    ----------
    address : int
        The address that the kernel touched.
    start, nbytes : int
        Where the buffer lay.
    allocated_at, freed_at : str
        The stacks of the two calls.
    """

    is_last = True

    def __init__(self, call: str, address: int, freed: Freed) -> None:
        super().__init__(ILLEGAL_ADDRESS, "hipErrorIllegalAddress", call)
        self.address, self.start, self.nbytes = address, freed.address, freed.nbytes
        self.allocated_at, self.freed_at = freed.allocated_at, freed.freed_at

    def __str__(self) -> str:
        return (
            f"{self.call}: use after free: a kernel touched byte {self.address - self.start} of the buffer of "
            f"{self.nbytes} bytes at {self.start:#x}, which is free\nallocated at\n{self.allocated_at}"
            f"freed at\n{self.freed_at}"
        )


@dataclass(frozen=True)
class Freed:
    """Pages that are closed, and the buffer that lay there.

    Attributes
    ----------
    start, end : int
        Multiples of the page size.
    address, nbytes : int
        Where the buffer lay.
    allocated_at, freed_at : str
        The stacks of the two calls.
    """

    start: int
    end: int
    address: int
    nbytes: int
    allocated_at: str
    freed_at: str


class Pages:
    """The pages that are closed, by address."""

    def __init__(self) -> None:
        self.lock = fork.rlock()
        self.closed: list[Freed] = []
        errors.explain[ILLEGAL_ADDRESS] = self.explain

    def close(self, freed: Freed) -> None:
        """Make pages inaccessible. They stay as they are where the system refuses that."""
        with self.lock:
            if freed.start < freed.end and protect(freed.start, freed.end, CLOSED):
                self.closed.insert(bisect_left(self.closed, freed.start, key=start_of), freed)

    def open(self, start: int, end: int) -> None:
        """Make all closed pages with a byte in [start, end) accessible; what lay there is forgotten."""
        with self.lock:
            first = bisect_right(self.closed, start, key=end_of)
            last = bisect_left(self.closed, end, key=start_of)
            for freed in self.closed[first:last]:
                protect(freed.start, freed.end, OPEN)
            del self.closed[first:last]

    def find(self, address: int) -> Freed | None:
        """Return what lay at an address."""
        with self.lock:
            at = bisect_right(self.closed, address, key=end_of)
            found = self.closed[at] if at < len(self.closed) else None
        return found if found is not None and found.start <= address else None

    def explain(self, call: str) -> UseAfterFreeError | None:
        """Return the error for the device's last fault, if that was a use of freed memory."""
        if not library.current().provider.is_host:
            return None
        address = int(fault_address()())
        freed = self.find(address)
        return None if freed is None else UseAfterFreeError(call, address, freed)


def start_of(freed: Freed) -> int:
    """Return its first byte."""
    return freed.start


def end_of(freed: Freed) -> int:
    """Return one past its last byte."""
    return freed.end


@cache
def fault_address() -> Any:
    """Return the CPU device's function that gives the address of its last fault."""
    function = ctypes.CDLL(str(library.current().hip)).hiprt_cpu_fault_address
    function.restype = ctypes.c_uint64
    return function


def protect(start: int, end: int, access: int) -> bool:
    """Change the access to whole pages of this process, and say whether that worked."""
    mprotect = ctypes.CDLL(None, use_errno=True).mprotect
    return bool(mprotect(ctypes.c_void_p(start), ctypes.c_size_t(end - start), access) == 0)
