"""What is known of HIP runtimes by provider, version and architecture, before anything is probed."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FANOUT", "RUNTIMES", "Runtime", "dotted", "runtime"]

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
