"""Versions of HIP: which one a provider or an architecture needs at least, and what is known of its runtime."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FANOUT", "FIRST_HIP", "RUNTIMES", "Runtime", "dotted", "runtime", "shortfall"]

FANOUT = 4  # CLR's executor works with four queues, and has lost edges of nodes that have more


class Runtime(NamedTuple):
    """What holds for a provider's runtime on the architectures whose names begin alike.

    Attributes
    ----------
    provider : str
        The provider's name; empty for any.
    arch : str
        The beginning of the architecture's name; empty for any.
    least_hip : int
        The least version that is used, as hipRuntimeGetVersion says it. A library older than its provider's row says is
        refused; on an architecture with a row of its own, steps run eagerly with an older one.
    fanout : int
        The most edges that leave a node of a graph, where the device was not found to keep the order of wider graphs.
    """

    provider: str
    arch: str
    least_hip: int
    fanout: int


# The first row that fits holds: an architecture's own stands before its provider's.
RUNTIMES = (
    Runtime("rocm", "", 60000000, FANOUT),  # the C core reads hipDeviceProp_tR0600, which HIP 6.0 introduced
    Runtime("", "", 0, FANOUT),
)

# The first HIP with which kernels are known to run, by provider and the beginning of the architecture's name. Older
# compilers may know the architecture all the same. Sources: for gfx12 the system requirements of ROCm 6.4.1, as
# quoted by ggml-org/llama.cpp, pull request 15994; for gfx950 the changelog of rocFFT 1.0.34, part of ROCm 7.0.0; for
# RDNA 3.5 a user's runs of 6.4.1, 7.0.2 and 7.1.0, which ended in hipMalloc (warpfront/hipfire, pull request 81).
FIRST_HIP = {
    ("rocm", "gfx950"): 70000000,
    ("rocm", "gfx1150"): 70200000,
    ("rocm", "gfx1151"): 70200000,
    ("rocm", "gfx12"): 60400000,
}


def runtime(provider: str, arch: str = "") -> Runtime:
    """Return the row that holds for a device, or for a library whose devices are not known yet.

    Parameters
    ----------
    provider : str
        The provider's name.
    arch : str, optional
        The device's architecture.
    """
    return next(row for row in RUNTIMES if row.provider in ("", provider) and arch.startswith(row.arch))


def dotted(version: int) -> str:
    """Return a HIP version as people write it, for example ``6.0``."""
    return f"{version // 10**7}.{version // 10**5 % 100}"


def shortfall(provider: str, arch: str, version: int) -> str:
    """Say why a runtime may not serve an architecture that it lists; the text is empty where nothing is known."""
    rows = ((name, first) for (owner, name), first in FIRST_HIP.items() if owner == provider)
    first = next((first for name, first in rows if arch.startswith(name)), 0)
    if version >= first:
        return ""
    return (
        f"HIP {dotted(version)} is older than {dotted(first)}, the first that is known to run kernels on {arch}: "
        "older ones may compile for it and still fail when they load or allocate; install a newer ROCm"
    )
