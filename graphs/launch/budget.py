"""The update budget of an exec (G7): where a change may be made without overspending it."""

from __future__ import annotations

from hiprt.flags import flags
from hiprt.graphs.launch.exec import Exec
from hiprt.graphs.launch.successor import Successor

__all__ = ["with_budget"]


def with_budget(exec_: Exec, device: int, nodes: int, nbytes: int) -> Exec | None:
    """Find where a change may be made within ``HIPRT_GRAPH_UPDATE_BUDGET`` and ``HIPRT_GRAPH_UPDATE_BUDGET_MB``.

    Once half of the budget is used, another thread makes the exec's successor.

    Parameters
    ----------
    exec_ : Exec
        Has no launch in flight.
    device : int
        Index of its device.
    nodes, nbytes : int
        How many nodes, and bytes of arguments, the change writes.

    Returns
    -------
    Exec or None
        The exec itself; its successor, which carries older arguments of the exec, where the change would overspend;
        None where the change is more than any exec may take.

    Raises
    ------
    HipError
        The successor could not be made.
    """
    most, most_bytes = flags.graph_update_budget, flags.graph_update_budget_mb << 20
    if nodes > most or nbytes > most_bytes:
        return None
    used = max((exec_.updated_nodes + nodes) / most, (exec_.updated_bytes + nbytes) / most_bytes)
    if used > 0.5 and exec_.successor is None and exec_.updated_nodes:
        # It is made of a copy, because a move changes the exec's recording where it is.
        exec_.successor = Successor(exec_.recording.copy(), device, exec_)
    if used <= 1:
        return exec_
    assert exec_.successor is not None
    successor = exec_.successor.take()
    successor.holders = exec_.holders
    return successor
