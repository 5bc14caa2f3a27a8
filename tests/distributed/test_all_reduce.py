"""Sums over ranks that are processes, each with the CPU device."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hiprt
from hiprt.distributed import Communicator, Place

pytestmark = pytest.mark.only("cpu", reason="a GPU has one process at a time in these tests")
PROGRAMS = Path(__file__).parent / "programs"


def run(ranks, name, *args):
    """Run a program as several ranks; return its end and what it printed."""
    command = [sys.executable, "-m", "hiprt", "launch", "--ranks", str(ranks), PROGRAMS / name, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


@pytest.mark.timeout(700)
@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.wide)])
def test_sums_have_the_bits_of_a_sum_in_order(ranks, form, part):
    turns = part(range(12 if form == "short" else 150))
    ended = run(ranks, "sums.py", 1000 * turns[0], len(turns))
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.splitlines()) == [f"rank {rank}: right" for rank in range(ranks)]


@pytest.mark.timeout(700)
@pytest.mark.parametrize("victim", [0, 2])
def test_the_others_name_a_rank_that_is_killed(victim):
    ended = run(3, "dies.py", victim)
    assert ended.returncode == 128 + 9
    others = [rank for rank in range(3) if rank != victim]
    assert sorted(ended.stdout.splitlines()) == [
        f"rank {rank}: rank {victim} of 3 has ended without a word" for rank in others
    ]
    assert re.search(f"rank {victim} ended with status -9", ended.stderr)


def test_who_leaves_behind_a_rank_that_is_killed_is_told():
    """What it has summed up since is no result, also where it has not asked."""
    ended = run(3, "leaves.py")
    assert ended.returncode == 128 + 9
    assert sorted(ended.stdout.splitlines()) == [
        f"rank {rank}: rank 2 of 3 has ended without a word" for rank in range(2)
    ]


def test_a_rank_that_knows_of_a_loss_gives_the_others_nothing():
    """They may not know yet, and what it has then is no result."""
    ended = run(2, "silent.py")
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.splitlines()) == ["rank 0: right", "rank 1: right"]


def test_one_rank_sums_with_nobody():
    x = hiprt.array(np.arange(5, dtype=np.float32))
    with Communicator(Place(0, 1, 0, "", 0)) as alone:
        out = hiprt.zeros(5)
        assert alone.all_reduce(x) is x
        assert alone.all_reduce(x, out=out) is out
        assert list(out.numpy()) == [0, 1, 2, 3, 4]
        assert list(alone.all_reduce(x, residual=x).numpy()) == [0, 2, 4, 6, 8]
        assert alone.all_gather(x) is x
        assert alone.part(5) == slice(0, 5)
        with pytest.raises(ValueError, match="all_gather: a part of 5 columns of each of 1 ranks does not make 6"):
            alone.all_gather(x, 6)
        with pytest.raises(ValueError, match="all_reduce: an array has gaps"):
            alone.all_reduce(hiprt.zeros((4, 4))[:, :2])
        with pytest.raises(TypeError, match="all_reduce: float64; it takes float32, float16, bfloat16, int32, uint32"):
            alone.all_reduce(hiprt.zeros(3, np.float64))
        with pytest.raises(ValueError, match=r"out is float32 \(3,\) and x float32 \(5,\)"):
            alone.all_reduce(x, out=hiprt.zeros(3))
    with pytest.raises(ValueError, match="the communicator is closed"):
        alone.all_reduce(x)


def test_more_ranks_than_places():
    with pytest.raises(ValueError, match="9 ranks: a communicator has at most 8"):
        Communicator(Place(0, 9, 0, "", 0))
