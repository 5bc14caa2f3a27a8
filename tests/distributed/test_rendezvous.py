"""The rendezvous of ranks, which are threads here: each has a connection of its own."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from hiprt.distributed.launcher import free_port
from hiprt.distributed.place import Place
from hiprt.distributed.rendezvous import Rendezvous, send
from hiprt.errors import RankError


def places(ranks):
    """Return the places of a program's ranks."""
    port = free_port()
    return [Place(rank, ranks, rank, "127.0.0.1", port) for rank in range(ranks)]


def together(work, each):
    """Do some work for each of several things side by side; return the results in order."""
    with ThreadPoolExecutor(len(each)) as threads:
        return list(threads.map(work, each))


def meet(ranks):
    """Return the rendezvous of each rank."""
    return together(Rendezvous, places(ranks))


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_values_come_in_the_order_of_ranks(ranks):
    met = meet(ranks)
    for turn in range(3):
        got = together(lambda each, turn=turn: each.all_gather([each.place.rank, turn]), met)
        assert got == [[[rank, turn] for rank in range(ranks)]] * ranks
    for each in met:
        each.close()


@pytest.mark.parametrize("gone", [0, 2])
def test_all_others_learn_which_rank_is_gone(gone):
    met, told = meet(4), []
    heard = [threading.Event() for _ in met]
    for each, event in zip(met, heard):
        each.on_loss(lambda error, event=event: (told.append(error.rank), event.set()))
    met[gone].drop()
    for rank, each in enumerate(met):
        if rank != gone:
            assert heard[rank].wait(60)
            each.drop()
            with pytest.raises(RankError, match=f"rank {gone} of 4 has ended without a word"):
                each.check()
            with pytest.raises(RankError):
                each.all_gather(0)
    assert told == [gone] * 3


def test_who_waits_for_a_value_learns_it_too():
    met = meet(3)
    with ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(each.all_gather, 0) for each in met[:2]]
        met[2].drop()
        for each in waiting:
            with pytest.raises(RankError, match="rank 2 of 3") as raised:
                each.result()
            assert raised.value.rank == 2


def test_who_asks_late_is_told():
    met, told = meet(2), []
    heard = threading.Event()
    met[0].on_loss(lambda _: heard.set())
    met[1].drop()
    assert heard.wait(60)
    met[0].on_loss(told.append)
    assert [error.rank for error in told] == [1]


def test_a_goodbye_is_no_loss():
    met = meet(2)
    met[1].close()
    met[0].seconds = 0.2
    with pytest.raises(RankError, match=r"rank 1 did not answer within 0\.2 s"):
        met[0].all_gather(0)
    met[0].check()
    met[0].close()


def test_a_value_is_a_few_bytes():
    """Nobody is lost by it: the ranks go on."""
    met = meet(2)
    for each in met:
        with pytest.raises(ValueError, match=rf"rank {each.place.rank} gives 8388602 bytes, and may give 8388544"):
            each.all_gather("x" * 8388600)
    most = "x" * (8388544 - 2)
    assert together(lambda each: each.all_gather(most), met) == [[most, most]] * 2
    for each in met:
        each.close()


def test_missing_ranks_are_named():
    first = places(4)[0]
    with pytest.raises(RankError, match=r"rank 1, 2, 3 of 4 did not come to 127.0.0.1:\d+ within 0.3 s") as raised:
        Rendezvous(first, 0.3)
    assert raised.value.rank == 1


def test_a_missing_first_rank_is_named():
    with pytest.raises(RankError, match="rank 0 does not wait at") as raised:
        Rendezvous(places(2)[1], 0.3)
    assert raised.value.rank == 0


def test_other_numbers_of_ranks_are_refused():
    two = places(2)
    wrong = [two[0], two[1]._replace(ranks=3)]

    def come(place):
        with pytest.raises(RankError, match="rank 1 says that there are 3 ranks, and rank 0 that there are 2"):
            Rendezvous(place)

    together(come, wrong)


def test_programs_of_others_are_passed_over():
    """Something connects and sends what is no message, or a message that is not ours."""
    two = places(2)
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(Rendezvous, two[0])
        for words in (b"GET / HTTP/1.1\r\n\r\n", None, b""):
            while True:
                try:
                    stranger = socket.create_connection(two[0][3:])
                    break
                except ConnectionRefusedError:
                    pass
            # It is turned away as soon as rank 0 sees what it is.
            with stranger, suppress(OSError):
                if words is None:
                    send(stranger, ["hello"])
                else:
                    stranger.sendall(words)
                stranger.shutdown(socket.SHUT_WR)
                stranger.recv(1)
        second = Rendezvous(two[1])
        for each in (second, first.result()):
            each.close()
