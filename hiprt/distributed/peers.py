"""Memory of every rank of a host that all of its ranks see, by the handles that HIP has for other processes."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from hiprt import core
from hiprt.device import Device
from hiprt.distributed.rendezvous import Rendezvous
from hiprt.errors import HipError, RankError
from hiprt.hip import call, handle, lib, result

__all__ = ["Peers"]

BOOT = Path("/proc/sys/kernel/random/boot_id")  # tells hosts of one name apart


class Peers:
    """A piece of device memory of each rank, zeros at first.

    Every rank makes it at the same place of its program.

    Parameters
    ----------
    rendezvous : Rendezvous
    nbytes : int
        The size of each rank's piece.
    device : Device
        This rank's device.

    Attributes
    ----------
    addresses : list of int
        Where this process sees each rank's piece.

    Raises
    ------
    RankError
        The ranks are on several hosts, or a device cannot see another's memory.
    """

    def __init__(self, rendezvous: Rendezvous, nbytes: int, device: Device) -> None:
        self.rendezvous, self.nbytes, self.device = rendezvous, nbytes, device
        rank = rendezvous.place.rank
        self.addresses: list[int] = []
        call(lib.hipSetDevice(device.index))
        self.own = handle(lib.hipMalloc, nbytes)
        try:
            call(lib.hipMemsetD8Async(self.own, 0, nbytes, 0))
            call(lib.hipDeviceSynchronize())
            shared = {"host": host(), "handle": export(self.own)}
            for number, other in enumerate(rendezvous.all_gather(shared)):
                if other["host"] != shared["host"]:
                    raise RankError(
                        f"rank {number} runs on another host: ranks reach each other's memory within one host only",
                        number,
                    )
                self.addresses.append(self.own if number == rank else opened(other["handle"], number))
            rendezvous.all_gather(None)  # nobody writes before all see all
        except BaseException:
            self.free()
            raise

    def close(self) -> None:
        """Give the memory back, once no rank uses it any more; every rank calls this."""
        call(lib.hipSetDevice(self.device.index))
        call(lib.hipDeviceSynchronize())
        try:
            self.rendezvous.all_gather(None)
        except RankError:
            pass  # A rank that is gone uses nothing.
        self.free()

    def free(self) -> None:
        """Let the pieces of the others go, and this rank's own."""
        addresses, self.addresses = self.addresses, []
        for address in addresses:
            if address != self.own:
                lib.hipIpcCloseMemHandle(address)
        own, self.own = self.own, 0
        if own:
            call(lib.hipFree(own))


def host() -> str:
    """Return what tells this host from others."""
    return socket.gethostname() + (BOOT.read_text().strip() if BOOT.exists() else "")


def export(address: int) -> str:
    """Return the handle by which other processes open memory."""
    made: Any = result("hipIpcMemHandle_t", lib.hipIpcGetMemHandle, address)
    return bytes(core.ffi.buffer(core.ffi.addressof(made))).hex()


def opened(text: str, rank: int) -> int:
    """Return where a rank's memory lies in this process."""
    handle_of_rank = core.ffi.new("hipIpcMemHandle_t *")
    core.ffi.memmove(handle_of_rank, bytes.fromhex(text), core.ffi.sizeof("hipIpcMemHandle_t"))
    try:
        return handle(lib.hipIpcOpenMemHandle, handle_of_rank, lib.hipIpcMemLazyEnablePeerAccess)
    except HipError as error:
        raise RankError(f"this device cannot see the memory of rank {rank}'s: {error}", rank) from None
