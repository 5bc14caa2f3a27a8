"""One rank, now and then late: sums of random arrays, alone and in replayed steps, compared bit by bit with numpy's."""

import sys
import time

import numpy as np

import hiprt
from hiprt import graphs, kernels
from hiprt.array import bfloat16
from hiprt.distributed import Communicator

FIRST, COUNT = map(int, sys.argv[1:])
TURNS = range(FIRST, FIRST + COUNT)


def numbers(turn, rank, size, dtype):
    """Return a rank's array of a turn."""
    return np.random.default_rng([turn, rank]).normal(size=size).astype(dtype)


def wanted(turn, ranks, size, dtype, residual=0):
    """Return the sum in the order of the ranks, in float32."""
    total = np.zeros(size, np.float32) + np.asarray(residual, np.float32)
    for rank in range(ranks):
        total += numbers(turn, rank, size, dtype).astype(np.float32)
    return total.astype(dtype)


def delay(turn, rank):
    """Let a rank be late by some milliseconds in some turns, the same in every run."""
    chance = np.random.default_rng([turn, rank, 2])
    time.sleep(chance.random() * 0.01 * (chance.random() < 0.3))


with Communicator(seconds=300) as ranks:
    mine = ranks.rank
    chance = np.random.default_rng([FIRST, 1])  # the same in every rank
    for turn in TURNS:
        delay(turn, mine)
        size, dtype = int(chance.integers(0, 1500)), (np.float32, np.float16, bfloat16)[turn % 3]
        x = hiprt.array(numbers(turn, mine, size, dtype))
        got = ranks.all_reduce(x, out=x if turn % 4 == 3 else None)
        assert got.numpy().tobytes() == wanted(turn, ranks.ranks, size, dtype).tobytes(), (turn, size, dtype)
        y = numbers(turn, ranks.ranks, size, dtype)
        got = ranks.all_reduce(hiprt.array(numbers(turn, mine, size, dtype)), residual=hiprt.array(y))
        assert got.numpy().tobytes() == wanted(turn, ranks.ranks, size, dtype, y).tobytes(), (turn, size, dtype)
        # Rows whose parts the ranks have; the last parts overlap where these do not divide a row.
        whole = numbers(turn, ranks.ranks, (3, size + ranks.ranks), dtype)
        part = hiprt.array(np.ascontiguousarray(whole[:, ranks.part(whole.shape[1])]))
        assert ranks.all_gather(part, whole.shape[1]).numpy().tobytes() == whole.tobytes(), (turn, size, dtype)

    # Large arrays go by chunks, in several rounds; that of one rank may lie where pieces of 16 bytes do not.
    for turn in TURNS[: COUNT // 3]:
        delay(turn, mine)
        size, dtype, start = 8 * int(chance.integers(100, 5000)), (bfloat16, np.float32)[turn % 2], (turn + mine) % 3
        whole = hiprt.zeros(size + start, dtype)
        x = whole[start:]
        x.set(numbers(turn, mine, size, dtype))
        y = numbers(turn, ranks.ranks, size, dtype)
        got = ranks.all_reduce(x, residual=hiprt.array(y))
        assert got.numpy().tobytes() == wanted(turn, ranks.ranks, size, dtype, y).tobytes(), (turn, size, dtype)
        got = ranks.all_reduce(x, out=x)
        assert got.numpy().tobytes() == wanted(turn, ranks.ranks, size, dtype).tobytes(), (turn, size, dtype)

    # What a step replays: the sum of ten layers, each of which doubles what came out of the one before and divides it.
    x = hiprt.zeros(300)

    def token():
        y = x
        for _ in range(10):
            y = ranks.all_reduce(kernels.multiply(y, 2.0))
            y = kernels.multiply(y, 1.0 / (2 * ranks.ranks))
        return y

    step, results = graphs.Step(token), []
    for turn in TURNS:
        delay(turn, mine)
        x.copy_from(hiprt.array(numbers(turn, mine, 300, np.float32)))
        results.append(step().numpy())
    assert step.rungs["replay"] == COUNT - 1
    everyone = ranks.all_gather_value([result.tobytes().hex() for result in results])
    assert all(each == everyone[0] for each in everyone)
    for turn, result in zip(TURNS, results):
        mean = sum(numbers(turn, rank, 300, np.float32) for rank in range(ranks.ranks)) / ranks.ranks
        np.testing.assert_allclose(result, mean, rtol=1e-4, atol=1e-6)
    ranks.barrier()
sys.stdout.write(f"rank {mine}: right\n")  # at once: print writes the end of the line by itself
