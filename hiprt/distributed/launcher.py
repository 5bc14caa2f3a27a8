"""``hiprt launch``: runs a program as several ranks on this host."""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType

from hiprt.command import set_program
from hiprt.distributed.place import Place, place_of

__all__ = ["add_arguments", "launch", "run", "start_ranks"]

GRACE = 30.0  # seconds in which the others end by themselves once a rank has failed: they say why
# Seconds in which a rank that a signal ended is looked for: it is gone for the others before its launcher can tell.
SETTLED = 2.0
KEPT = 1 << 12  # bytes of what a rank has written last
STDERR = 2
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

    When a rank fails the others have some seconds to end by themselves; then they are ended. Ctrl-C goes to all, and
    SIGTERM ends all. What the first that failed said last is said again behind what the others say.

    Parameters
    ----------
    ranks : int
    command : list of str
    """
    environment = {
        **os.environ, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
    }  # fmt: skip
    with ended_by_sigterm():
        started = [Rank(rank, command, environment) for rank in range(ranks)]
        processes = [each.process for each in started]
        failed: tuple[int, int] | None = None
        since, is_running = float("inf"), True
        try:
            while is_running and time.monotonic() < since + GRACE:
                time.sleep(0.05)
                is_running = any(process.poll() is None for process in processes)
                found = first_failure(processes) if time.monotonic() < since + SETTLED else None
                if found and failed is None:
                    failed, since = found, time.monotonic()
                elif found and failed and found[0] < 0 < failed[0]:
                    failed = found
        except KeyboardInterrupt:
            # A terminal has sent it to the ranks too.
            for process in processes:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(GRACE)
            raise
        finally:
            for each in started:
                each.end()
    if failed is None:
        return 0
    status, rank = failed
    print(f"hiprt launch: rank {rank} ended with status {status}", file=sys.stderr)
    if reason := started[rank].reason(status):
        print(f"hiprt launch: {reason}", file=sys.stderr)
    return status if status > 0 else 128 - status


class Rank:
    """A rank's process. Unless stderr is a terminal, lines that it writes there are passed on, and the last is kept.

    Parameters
    ----------
    rank : int
    command : list of str
    environment : dict of str to str
        What all ranks have.
    """

    def __init__(self, rank: int, command: list[str], environment: dict[str, str]) -> None:
        self.rank = rank
        own = environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        # A program asks whether it writes to a terminal, and shows how far it is only there.
        self.process = subprocess.Popen(command, env=own, stderr=None if os.isatty(STDERR) else subprocess.PIPE)
        self.last = b""
        self.reader = threading.Thread(target=self.pass_on, daemon=True, name=f"stderr of rank {rank}")
        self.reader.start()

    def pass_on(self) -> None:
        """Pass on what the process writes, until it has ended."""
        with self.process.stderr or nullcontext() as pipe:
            begun = b""  # a line of which there is more to come
            while pipe and (piece := os.read(pipe.fileno(), KEPT)):
                self.last = (self.last + piece)[-KEPT:]
                whole, end, begun = (begun + piece).rpartition(b"\n")
                if len(begun) > KEPT:
                    whole, begun = whole + end + begun, b""
                with suppress(OSError):
                    os.write(STDERR, whole + end)
            with suppress(OSError):
                os.write(STDERR, begun)

    def end(self) -> None:
        """End the process if it still runs."""
        self.process.kill()
        self.process.wait()
        # What it started may still have the pipe.
        self.reader.join(1.0)

    def reason(self, status: int) -> str:
        """Return why it ended, as far as that can be told."""
        if status < 0:
            with suppress(ValueError):
                name = signal.Signals(-status).name
                hint = ", which the system also sends where memory runs out" if -status == signal.SIGKILL else ""
                return f"rank {self.rank} was ended by {name}{hint}"
        lines = self.last.decode(errors="replace").strip().splitlines()
        return f"rank {self.rank} said last: {lines[-1].strip()}" if lines else ""


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the block as an exception does, so that no rank outlives its launcher."""

    def leave(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def first_failure(processes: list[subprocess.Popen[bytes]]) -> tuple[int, int] | None:
    """Return the status and the rank of a process that failed: one that a signal ended, if there is one.

    A status of its own is often what a rank says of another one that is gone.
    """
    ended = [(process.poll(), rank) for rank, process in enumerate(processes)]
    return min(((status, rank) for status, rank in ended if status), default=None)
