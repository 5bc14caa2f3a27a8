"""A process's place among the ranks of a program, as its launcher says it in the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["Place", "place_of"]

# The variables for rank, ranks and rank on the host, by launcher, in the order in which they are looked for.
LAUNCHERS = {
    "torchrun or hiprt launch": ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    "Open MPI": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "MPICH or Intel MPI": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    "Slurm": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
}


class Place(NamedTuple):
    """Where a process stands among the ranks of its program.

    Attributes
    ----------
    rank, ranks : int
        Its number, from 0, and how many there are.
    local_rank : int
        Its number among those of its host: the device that it uses.
    address : str
        The host of rank 0.
    port : int
        The TCP port at which rank 0 waits for the others.
    """

    rank: int
    ranks: int
    local_rank: int
    address: str
    port: int


def place_of(environment: Mapping[str, str] = os.environ) -> Place:
    """Return the place that a launcher's variables say; without any, that of a program of one rank.

    Raises
    ------
    ValueError
        A variable is missing, or is not a number that fits the others.
    """
    found = [name for name, (rank, ranks, _) in LAUNCHERS.items() if rank in environment or ranks in environment]
    if not found:
        return Place(0, 1, 0, "", 0)
    launcher, (rank, ranks, local) = found[0], LAUNCHERS[found[0]]
    numbers = [number(environment, name, launcher) for name in (rank, ranks)]
    if not 0 <= numbers[0] < numbers[1]:
        raise ValueError(f"{rank} is {numbers[0]} and {ranks} is {numbers[1]}: ranks are numbered from 0")
    # mpirun of one host does not always number the ranks of a host.
    local_rank = number(environment, local, launcher) if local in environment else numbers[0]
    if numbers[1] == 1:
        return Place(0, 1, local_rank, "", 0)
    address = environment.get("MASTER_ADDR", "")
    if not address or "MASTER_PORT" not in environment:
        raise ValueError(
            f"{launcher} started this process as rank {numbers[0]} of {numbers[1]}, but MASTER_ADDR and MASTER_PORT do "
            "not say where the ranks meet: set them to the host of rank 0 and a free port of it"
        )
    port = number(environment, "MASTER_PORT", launcher)
    # torchrun's own store waits at MASTER_PORT.
    port += environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if not 0 < port < 1 << 16:
        raise ValueError(f"MASTER_PORT is {port}, which is no port")
    return Place(numbers[0], numbers[1], local_rank, address, port)


def number(environment: Mapping[str, str], name: str, launcher: str) -> int:
    """Return the number that a variable holds."""
    try:
        return int(environment[name])
    except KeyError:
        raise ValueError(f"{name} is not set, which {launcher} sets for each rank") from None
    except ValueError:
        raise ValueError(f"{name} is {environment[name]!r}, which is not a number") from None
