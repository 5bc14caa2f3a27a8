"""The rendezvous: TCP connections of all ranks with rank 0, over which they exchange a few bytes and learn who is gone.

Data of collectives goes from device to device and never this way.
"""

from __future__ import annotations

import json
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from hiprt.distributed.place import Place
from hiprt.errors import RankError

__all__ = ["Rendezvous"]

VERSION = 1  # of the messages
MOST = 1 << 24  # bytes of a message
ROOM = 64  # bytes of a message beside each value
# A host that is gone without a word is found by probes: the first after some seconds, then one each second.
KEEP_ALIVE = {"TCP_KEEPIDLE": 3, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 4}


class Rendezvous:
    """The ranks of a program, each connected with rank 0.

    Parameters
    ----------
    place : Place
    seconds : float
        How long to wait for a rank, at the start and in each exchange.
    server : socket, optional
        What rank 0 waits with; one that it makes at its port by default.

    Raises
    ------
    RankError
        A rank did not come in time, came twice, or is of another version.
    OSError
        Rank 0 cannot wait at its port.
    """

    def __init__(self, place: Place, seconds: float = 60.0, server: socket.socket | None = None) -> None:
        self.place, self.seconds = place, seconds
        self.error: RankError | None = None
        self.leaves: list[Callable[[RankError], None]] = []
        self.is_open = True
        self.lock = threading.Lock()  # of sending, and of what is said about ranks that are gone
        self.sockets: dict[int, socket.socket] = {}
        self.inbox: dict[int, queue.SimpleQueue[Any]] = {}
        if place.ranks > 1:
            self.sockets = wait_for_all(place, seconds, server) if place.rank == 0 else {0: come_to(place, seconds)}
        for rank, connection in self.sockets.items():
            self.inbox[rank] = queue.SimpleQueue()
            threading.Thread(target=self.listen, args=(rank, connection), daemon=True, name=f"rank {rank}").start()

    def split(self, color: int, key: int) -> Rendezvous:
        """Return the rendezvous of those ranks that give the same colour, in the order of their keys.

        Every rank calls this.

        Raises
        ------
        RankError
            A rank is gone or late.
        """
        own = self.sockets[0].getsockname()[0] if self.place.rank else self.place.address
        with socket.create_server(("", 0), backlog=self.place.ranks) as server:
            given = self.all_gather([color, key, self.place.rank, own, server.getsockname()[1]])
            part = sorted(each[1:] for each in given if each[0] == color)
            rank = [number for _, number, *_ in part].index(self.place.rank)
            place = Place(rank, len(part), self.place.local_rank, *part[0][2:])
            return Rendezvous(place, self.seconds, server)

    def on_loss(self, act: Callable[[RankError], None]) -> None:
        """Have a function called, on a thread of the rendezvous, when a rank is gone."""
        with self.lock:
            self.leaves.append(act)
            error = self.error
        if error is not None:
            act(error)

    def check(self) -> None:
        """Raise if a rank is gone.

        Raises
        ------
        RankError
        """
        if self.error is not None:
            raise RankError(str(self.error), self.error.rank)

    def all_gather(self, value: Any) -> list[Any]:
        """Return what each rank gives, in their order; each rank must call it the same number of times.

        Parameters
        ----------
        value : object
            What JSON can say, in a few bytes: all ranks' together are at most 16 MiB.

        Raises
        ------
        RankError
            A rank is gone, or did not call it in time.
        ValueError
            It is more. Nothing was sent.
        """
        self.check()
        nbytes, most = len(json.dumps(value)), MOST // self.place.ranks - ROOM
        if nbytes > most:
            rank = self.place.rank
            raise ValueError(f"rank {rank} gives {nbytes} bytes, and may give {most}: data goes by collectives")
        if self.place.rank:
            self.send(0, ["value", value])
            return list(self.receive(0))
        values = [value, *(self.receive(rank) for rank in range(1, self.place.ranks))]
        for rank in self.sockets:
            self.send(rank, ["value", values])
        return values

    def send(self, rank: int, message: list[Any]) -> None:
        """Send a message to a rank."""
        try:
            with self.lock:
                send(self.sockets[rank], message)
        except OSError:
            self.lose(rank)
            self.check()

    def receive(self, rank: int) -> Any:
        """Return the next value of a rank."""
        until = time.monotonic() + self.seconds
        while time.monotonic() < until:
            self.check()
            try:
                return self.inbox[rank].get(timeout=0.1)
            except queue.Empty:
                pass
        raise RankError(f"rank {rank} did not answer within {self.seconds:g} s", rank)

    def listen(self, rank: int, connection: socket.socket) -> None:
        """Take a rank's messages until it goes; a thread of its own does that."""
        with connection, suppress(OSError, ValueError, TypeError):
            while (message := receive(connection)) is not None:
                kind, value = message
                if kind == "value":
                    self.inbox[rank].put(value)
                elif kind == "lost":
                    self.lose(value)
                elif kind == "bye":
                    return
        self.lose(rank)

    def lose(self, rank: int) -> None:
        """Note that a rank is gone, and tell the others."""
        with self.lock:
            if self.error is not None or not self.is_open:
                return
            self.error = RankError(f"rank {rank} of {self.place.ranks} has ended without a word", rank)
            leaves = list(self.leaves)
            for other, connection in self.sockets.items():
                if self.place.rank == 0 and other != rank:
                    with suppress(OSError):
                        send(connection, ["lost", rank])
        for act in leaves:
            act(self.error)

    def drop(self) -> None:
        """Close the connections without a word: for the others this rank is lost."""
        with self.lock:
            self.is_open = False
            for connection in self.sockets.values():
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Say goodbye; the others may go on."""
        with self.lock:
            was_open, self.is_open = self.is_open, False
            for connection in self.sockets.values() if was_open else ():
                with suppress(OSError):
                    send(connection, ["bye", None])
                    connection.shutdown(socket.SHUT_WR)


def wait_for_all(place: Place, seconds: float, server: socket.socket | None = None) -> dict[int, socket.socket]:
    """Return the connections of rank 0 with the others, once all have come."""
    until, found = time.monotonic() + seconds, dict[int, socket.socket]()
    with ExitStack() as held, server or socket.create_server(("", place.port), backlog=place.ranks) as server:
        while len(found) < place.ranks - 1:
            server.settimeout(max(0.01, until - time.monotonic()))
            try:
                connection = held.enter_context(server.accept()[0])
            except TimeoutError:
                missing = sorted({*range(1, place.ranks)} - found.keys())
                named, where = ", ".join(map(str, missing)), f"{place.address}:{place.port}"
                raise RankError(
                    f"rank {named} of {place.ranks} did not come to {where} within {seconds:g} s", missing[0]
                ) from None
            connection.settimeout(max(0.01, until - time.monotonic()))
            hello = None
            with suppress(OSError, ValueError):
                hello = receive(connection)
            if not isinstance(hello, list) or len(hello) != 4 or hello[0] != "hiprt":
                connection.close()  # it is of somebody else's program
                continue
            refusal = refused(hello, place, found)
            if refusal is not None:
                send(connection, ["refused", refusal])
                raise RankError(refusal)
            found[hello[2]] = connection
        for connection in found.values():
            send(connection, ["welcome", None])
            keep(connection)
        held.pop_all()
    return found


def refused(hello: list[Any], place: Place, found: dict[int, socket.socket]) -> str | None:
    """Return why a process that came is not taken, or None."""
    _, version, rank, ranks = hello
    if version != VERSION:
        return f"rank {rank} speaks version {version} of the rendezvous, and rank 0 version {VERSION}"
    if ranks != place.ranks:
        return f"rank {rank} says that there are {ranks} ranks, and rank 0 that there are {place.ranks}"
    if not isinstance(rank, int) or not 0 < rank < ranks or rank in found:
        return f"a second process says that it is rank {rank}"
    return None


def come_to(place: Place, seconds: float) -> socket.socket:
    """Return the connection of another rank with rank 0."""
    until = time.monotonic() + seconds
    while True:
        try:
            left = max(0.01, until - time.monotonic())
            connection = socket.create_connection((place.address, place.port), timeout=left)
            break
        except OSError as error:
            if time.monotonic() > until:
                raise RankError(
                    f"rank 0 does not wait at {place.address}:{place.port} ({error}), for {seconds:g} s now", 0
                ) from None
            time.sleep(0.05)
    with ExitStack() as held:
        held.enter_context(connection)
        connection.settimeout(max(0.01, until - time.monotonic()))
        try:
            send(connection, ["hiprt", VERSION, place.rank, place.ranks])
            answer = receive(connection)
        except TimeoutError:
            raise RankError(f"the ranks were not complete within {seconds:g} s") from None
        except (OSError, ValueError) as error:
            raise RankError(f"rank 0 has ended before all ranks had come: {error}", 0) from None
        if answer is None or answer[0] != "welcome":
            raise RankError("rank 0 has ended before all ranks had come" if answer is None else str(answer[1]), 0)
        keep(connection)
        held.pop_all()
    return connection


def keep(connection: socket.socket) -> None:
    """Let a connection wait for messages, with probes whether the other host is still there."""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def send(connection: socket.socket, message: list[Any]) -> None:
    """Send a message: its length, and itself as JSON."""
    packed = json.dumps(message).encode()
    connection.sendall(struct.pack("<I", len(packed)) + packed)


def receive(connection: socket.socket) -> Any:
    """Return the next message, or None at the end.

    Raises
    ------
    ValueError
        What came is no message.
    """
    head = read(connection, 4)
    if head is None:
        return None
    (nbytes,) = struct.unpack("<I", head)
    if nbytes > MOST:
        raise ValueError(f"a message of {nbytes} bytes")
    body = read(connection, nbytes)
    return None if body is None else json.loads(body)


def read(connection: socket.socket, nbytes: int) -> bytes | None:
    """Return that many bytes, or None where the connection ends before."""
    parts = bytearray()
    while len(parts) < nbytes:
        part = connection.recv(nbytes - len(parts))
        if not part:
            return None
        parts += part
    return bytes(parts)
