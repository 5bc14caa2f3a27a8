"""What a launch may do: the rungs, bounds and budgets that flags and device allow. The C core chooses by them."""

from __future__ import annotations

from typing import Any

from hiprt import core
from hiprt.device import Device
from hiprt.flags import RUNG_NAMES, flags
from hiprt.graphs.launch.canary import canary
from hiprt.graphs.launch.trust import decided, trusted, why_not
from hiprt.hip_versions import runtime

__all__ = ["allowed", "allows", "fanout", "may_overlap", "rules", "why_no_graph"]

RUNGS = {name: 1 << getattr(core.lib, f"HIPRT_{name.upper()}") for name in RUNG_NAMES}
# By device and slots: what the rules were made of, and what `rules` returns.
made: dict[tuple[int, int], tuple[int, frozenset[str], tuple[Any, str]]] = {}


def allowed(device: Device) -> frozenset[str]:
    """Return the rungs that ``HIPRT_GRAPH_RUNGS`` names and that the device is trusted with."""
    return trusted(device).union(("replay", "eager")).intersection(flags.graph_rungs)


def allows(device: Device, rung: str) -> bool:
    """Whether `allowed` holds a rung other than replay and eager; this asks for less than the whole set."""
    return rung in flags.graph_rungs and rung in trusted(device)


def why_no_graph(device: Device) -> str:
    """Return why no graph can be made on a device whose `allowed` rungs lack instantiate."""
    if "instantiate" not in flags.graph_rungs:
        return "HIPRT_GRAPH_RUNGS allows no graph"
    return why_not(device, "instantiate")


def fanout(device: Device) -> tuple[int, str]:
    """Return the most edges that may leave a node (G6), and why that is not what ``HIPRT_GRAPH_FANOUT`` says.

    Returns
    -------
    bound : int
        0 means no bound and any number of roots: only on a device that was found to keep the order of such graphs.
    reason : str
        Empty where the flag is followed.
    """
    if flags.graph_fanout or "unbounded fan-out" in trusted(device):
        return flags.graph_fanout, ""
    reason = "HIPRT_GRAPH_FANOUT=0 is not used: this device loses the order of wide graphs"
    return runtime(device.provider.name, device.arch).fanout, reason


def may_overlap(device: Device) -> bool:
    """Whether kernels may overlap: ``HIPRT_GRAPH_OVERLAP``, on a device that was found to keep the order."""
    return flags.graph_overlap and "overlap" in trusted(device)


def rules(device: Device, slots: int) -> tuple[Any, str]:
    """Return what launches on a device may do.

    Parameters
    ----------
    device : Device
    slots : int
        The most execs that recordings of one topology may take turns in.

    Returns
    -------
    rules : hiprt_rules *
    reason : str
        Why the fan-out is not what ``HIPRT_GRAPH_FANOUT`` says; empty where it is.

    Raises
    ------
    HipError
        The canary's kernel could not be loaded.
    """
    version, index = flags.version, device.index
    known = made.get((index, slots))
    if known is not None and known[0] == version and known[1] is decided.get(index):
        return known[2]
    trust = trusted(device)
    bound, reason = fanout(device)
    # The kernel of a canary is never freed.
    guard = canary(device.index).core if flags.graph_canary else core.ffi.NULL
    names = allowed(device)
    out = core.ffi.new(
        "hiprt_rules *",
        {
            "rungs": sum(RUNGS[name] for name in names),
            "slots": slots,
            "keys": flags.graph_keys,
            "fanout": bound,
            "overlap": may_overlap(device),
            "budget_nodes": flags.graph_update_budget,
            "budget_bytes": flags.graph_update_budget_mb << 20,
            "canary": guard,
        },
    )
    made[index, slots] = version, trust, (out, reason)
    return out, reason
