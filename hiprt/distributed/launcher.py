"""``hiprt launch``: runs a program as several ranks on this host."""

from __future__ import annotations

import argparse
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from hiprt.command import set_program
from hiprt.distributed.place import Place, place_of

__all__ = ["add_arguments", "launch", "run", "start_ranks"]

GRACE = 30.0  # seconds in which the others end by themselves once a rank has failed: they say why
PORTS = range(10_000, 32_000)  # below those that the system gives to programs that ask for any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt launch``."""
    parser.add_argument("--ranks", type=int, required=True, metavar="N", help="how many processes")
    parser.add_argument("-m", dest="module", metavar="MODULE …", nargs=argparse.REMAINDER, help="as of python itself")
    parser.add_argument("program", metavar="FILE …", nargs=argparse.REMAINDER, help="a program and what it is given")
    parser.set_defaults(refuse=parser.error)
    set_program(parser, run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.ranks < 1:
        print("hiprt launch: --ranks is at least 1", file=sys.stderr)
        return 2
    if not (options.module or options.program):
        options.refuse("a program is missing: a Python file, or -m and a module")
    return launch(options.ranks, [sys.executable, *(("-m", *options.module) if options.module else options.program)])


def start_ranks(ranks: int, argv: Sequence[str]) -> tuple[Place | None, int]:
    """Run a command of hiprt as several ranks, where no launcher has started this process as one of them.

    Parameters
    ----------
    ranks : int
    argv : sequence of str
        The command's arguments.

    Returns
    -------
    place : Place or None
        This process's place; None in the process that started the ranks, whose work ends with them.
    status : int
        The exit status of the ranks.

    Raises
    ------
    ValueError
        A launcher has started another number of ranks.
    """
    place = place_of()
    if place.ranks == ranks:
        return place, 0
    if place.ranks > 1:
        raise ValueError(f"{ranks} ranks are asked for, and a launcher has started {place.ranks}")
    return None, launch(ranks, [sys.executable, "-m", "hiprt", *argv])


def free_port() -> int:
    """Return a port at which nobody waits."""
    for port in random.sample(PORTS, 100):
        with socket.socket() as asked:
            try:
                asked.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no free TCP port was found for the ranks to meet at")


def launch(ranks: int, command: list[str]) -> int:
    """Run a command as that many ranks, and return the status of the first that failed; 0 if none did.

    When a rank fails the others have some seconds to end by themselves; then they are ended. Ctrl-C goes to all.

    Parameters
    ----------
    ranks : int
    command : list of str
    """
    environment = {
        **os.environ, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
    }  # fmt: skip
    numbers = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]
    processes = [subprocess.Popen(command, env=environment | each) for each in numbers]
    failed, until = None, float("inf")
    try:
        while any(process.poll() is None for process in processes) and time.monotonic() < until:
            time.sleep(0.05)
            if failed is None and (failed := first_failure(processes)):
                until = time.monotonic() + GRACE
    except KeyboardInterrupt:
        # A terminal has sent it to the ranks too.
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
        raise
    finally:
        for process in processes:
            process.kill()
            process.wait()
    failed = failed or first_failure(processes)
    if failed is None:
        return 0
    status, rank = failed
    print(f"hiprt launch: rank {rank} ended with status {status}", file=sys.stderr)
    return status if status > 0 else 128 - status


def first_failure(processes: list[subprocess.Popen[bytes]]) -> tuple[int, int] | None:
    """Return the status and the rank of a process that failed: one that a signal ended, if there is one.

    A status of its own is often what a rank says of another one that is gone.
    """
    ended = [(process.poll(), rank) for rank, process in enumerate(processes)]
    return min(((status, rank) for status, rank in ended if status), default=None)
