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

__all__ = ["Peers", "bus_of", "host"]

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
        self.addresses: list[int] = []
        call(lib.hipSetDevice(device.index))
        # What another device writes into hipMalloc's memory is seen behind the end of a kernel only, as AMD says of
        # coarse-grained memory (rocm.docs.amd.com, HIP's coherence control); RCCL has its own uncached too.
        self.own = handle(lib.hipExtMallocWithFlags, nbytes, lib.hipDeviceMallocUncached, detail=f"{nbytes} bytes")
        try:
            call(lib.hipMemsetD8Async(self.own, 0, nbytes, 0))
            call(lib.hipDeviceSynchronize())
            shared = {"host": host(), "handle": export(self.own)}
            handles = []
            for number, other in enumerate(rendezvous.all_gather(shared)):
                handles.append(other["handle"])
                if other["host"] != shared["host"]:
                    raise RankError(
                        f"rank {number} runs on another host: ranks reach each other's memory within one host only",
                        number,
                    )
            # Nobody writes before all see all, and all know where one does not.
            for refusal in rendezvous.all_gather(self.open(handles)):
                if refusal is not None:
                    raise RankError(refusal)
        except BaseException:
            self.free()
            raise

    def open(self, handles: list[str]) -> str | None:
        """Map the pieces of all ranks; return why one cannot be."""
        rank = self.rendezvous.place.rank
        for number, text in enumerate(handles):
            try:
                address = self.own if number == rank else opened(text)
            except HipError as error:
                return f"the device of rank {rank} cannot see the memory of rank {number}'s: {error}"
            self.addresses.append(address)
        return None

    def close(self) -> None:
        """Give the memory back, once no rank uses it any more; every rank calls this.

        Raises
        ------
        RankError
            A rank is gone or late. The memory is given back, as a rank that is gone uses nothing.
        """
        call(lib.hipSetDevice(self.device.index))
        call(lib.hipDeviceSynchronize())
        try:
            self.rendezvous.all_gather(None)
        finally:
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


def bus_of(device: Device) -> str:
    """Return where a GPU is plugged in, by which its host knows it; "" for a device that is no GPU."""
    if device.provider.is_host:
        return ""
    properties = core.ffi.new("hipDeviceProp_tR0600 *")
    call(lib.hipGetDevicePropertiesR0600(properties, device.index))
    return f"{properties.pciDomainID:04x}:{properties.pciBusID:02x}:{properties.pciDeviceID:02x}"


def export(address: int) -> str:
    """Return the handle by which other processes open memory."""
    made: Any = result("hipIpcMemHandle_t", lib.hipIpcGetMemHandle, address)
    return bytes(core.ffi.buffer(core.ffi.addressof(made))).hex()


def opened(text: str) -> int:
    """Return where another rank's memory lies in this process."""
    handle_of_rank = core.ffi.new("hipIpcMemHandle_t *")
    core.ffi.memmove(handle_of_rank, bytes.fromhex(text), core.ffi.sizeof("hipIpcMemHandle_t"))
    return handle(lib.hipIpcOpenMemHandle, handle_of_rank, lib.hipIpcMemLazyEnablePeerAccess)
