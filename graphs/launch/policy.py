"""Which rung a recording takes: what the flags and the device allow, what is cheaper, and when another exec is made."""

from __future__ import annotations

from hiprt.device import Device
from hiprt.flags import flags
from hiprt.graphs.launch.trust import trusted, why_not
from hiprt.runtimes import runtime

__all__ = ["Cost", "allowed", "allows", "cheaper", "costs", "fanout", "may_overlap", "why_another", "why_no_graph"]

KEPT = "every exec of this topology is kept for a call with other arguments"
NO_CHANGE = "HIPRT_GRAPH_RUNGS, a failed probe or HIPRT_GRAPH_UPDATE_BUDGET allows no such change"


class Cost:
    """Moving average of what a rung costs the host for one node.

    Attributes
    ----------
    per_node : float or None
        Seconds; None until the rung has been taken once.
    """

    def __init__(self) -> None:
        self.per_node: float | None = None

    def add(self, seconds: float, nodes: int) -> None:
        """Take one measurement into the average."""
        if nodes:
            new = seconds / nodes
            self.per_node = new if self.per_node is None else 0.8 * self.per_node + 0.2 * new


costs = {"patch": Cost(), "update": Cost()}


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


def why_another(same: int, free: int, *, is_drained: bool, comes_back: bool, slots: int) -> str:
    """Return why a recording gets an exec of its own; empty where an exec that exists is changed instead.

    Parameters
    ----------
    same : int
        Number of execs of the recording's topology.
    free : int
        Number of those that no kept call launches again as they are.
    is_drained : bool
        Whether one of the free ones has no launch in flight.
    comes_back : bool
        Whether the recording's arguments were seen before.
    slots : int
        The most execs that recordings of the topology may take turns in.
    """
    if not same:
        return "first of this topology"
    if not free:
        return KEPT
    if free < slots:
        if not is_drained:
            return f"{free} of this topology, all in flight"
        if comes_back:
            return "these arguments come back: they get an exec of their own"
    return ""


def cheaper(changed: int, nodes: int, allowed: frozenset[str]) -> str:
    """Choose between patch and update by what both have cost so far in this process.

    Parameters
    ----------
    changed : int
        Number of nodes whose arguments change: a patch sets these.
    nodes : int
        Number of all nodes: an update sets all.
    allowed : frozenset of str
        The rungs that may be taken.

    Returns
    -------
    str
        The rung. One that was never taken is tried where it has less to do. Empty where neither is allowed.
    """
    if not {"patch", "update"} <= allowed:
        return next((rung for rung in ("patch", "update") if rung in allowed), "")
    patch, update = costs["patch"].per_node, costs["update"].per_node
    if patch is None:
        return "patch"
    if update is None:
        return "update" if changed > 2 * nodes // 3 else "patch"
    return "patch" if patch * changed <= update * nodes else "update"


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
