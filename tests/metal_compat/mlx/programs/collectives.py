"""One rank of ``mx.distributed``: what it makes, at other times and otherwise than other ranks, is what numpy makes."""

import sys

import mlx.core as mx
import numpy as np

from hiprt.flags import flags
from hiprt.graphs.trace import lazy

DTYPES = (
    mx.float32, mx.float16, mx.bfloat16, mx.bool_, mx.int8, mx.uint8, mx.int16, mx.uint16, mx.int32, mx.uint32,
    mx.int64, mx.uint64, mx.complex64,
)  # fmt: skip
FIRST, TURNS, STEPS = map(int, sys.argv[1:4])
group = mx.distributed.init(strict=True, backend="nccl")
assert mx.distributed.init() is group
mine, n = group.rank(), group.size()


def numbers(rank, dtype, size):
    """Return what a rank gives."""
    return (np.arange(size) * 3 % 7 + rank).astype(dtype)


def by_dtype():
    """Compare every collective of every dtype; an odd number of bytes among them."""
    for dtype in [getattr(mx, name) for name in sys.argv[4:]] or DTYPES:
        each = [numbers(rank, dtype.numpy, 5 * n) for rank in range(n)]
        x, wanted = mx.array(each[mine], dtype=dtype), np.sum(each, 0).astype(dtype.numpy)
        for made, right in (
            (mx.distributed.all_sum(x), wanted),
            (mx.distributed.all_gather(x.reshape(n, 5)), np.concatenate([part.reshape(n, 5) for part in each])),
            (mx.distributed.all_gather(x[3]), np.stack([part[3] for part in each])),
            (mx.distributed.sum_scatter(x.reshape(n, 5)), wanted.reshape(n, 5)[mine : mine + 1]),
            (mx.distributed.sum_scatter(x), wanted[5 * mine : 5 * mine + 5]),
            (mx.distributed.all_max(x), np.max(each, 0)),
            (mx.distributed.all_min(x[::-1]), np.min(each, 0)[::-1]),
        ):
            assert made.dtype == dtype
            np.testing.assert_array_equal(np.array(made.astype(mx.complex64)), right.astype(np.complex64))
        if mine:
            got = mx.distributed.recv_like(x, mine - 1)
            np.testing.assert_array_equal(np.array(got.astype(mx.complex64)), each[mine - 1].astype(np.complex64))
        if mine < n - 1:
            mx.eval(mx.distributed.send(x, mine + 1))
    assert mx.distributed.all_sum(2.5).item() == 2.5 * n
    assert mx.distributed.all_sum(mx.zeros((0, 3))).shape == (0, 3)


def by_parts():
    """Two groups, each of every other rank, numbered from behind; their sums come in the order of the program."""
    part = group.split(mine % 2, n - mine)
    members = [rank for rank in reversed(range(n)) if rank % 2 == mine % 2]
    assert (part.rank(), part.size()) == (members.index(mine), len(members))
    x = mx.array([mine + 1.0])
    for _ in range(6):
        inner = mx.distributed.all_sum(x, group=part)
        x = mx.distributed.all_sum(inner) / (inner + mine)
        mx.eval(x)
    got, inner = [rank + 1.0 for rank in range(n)], [0.0] * n
    for _ in range(6):
        inner = [sum(got[other] for other in range(n) if other % 2 == rank % 2) for rank in range(n)]
        got = [sum(inner) / (inner[rank] + rank) for rank in range(n)]
    np.testing.assert_allclose(x.item(), got[mine], rtol=1e-5)


def passed_on(held, ours, rank):
    """Return arrays of which the first went from one rank to the next one, in numpy and here; others have theirs."""
    to = (rank + 1) % n
    new = [held[rank][0] if each == to else held[each][0] for each in range(n)]
    x = ours[0]
    if mine == rank:
        # It is sent when something else is computed.
        return new, mx.depends(x + 0, mx.distributed.send(x, to))
    if mine == to:
        # What made the array that it has no more is made all the same, as on ranks that have computed it already.
        return new, mx.depends(mx.distributed.recv(x.shape, x.dtype, rank), x)
    return new, x


def by_chance(seed):
    """Compare a random program, which comes again with other numbers; each rank computes after steps of its choice."""
    chance, own = np.random.default_rng(seed), np.random.default_rng([seed, mine])
    steps = [(int(chance.integers(7)), int(chance.integers(n))) for _ in range(STEPS)]
    stops = own.random(STEPS) < 0.3
    passes = [("simplify", "dead_code", "fusion"), (), flags.mlx_passes][own.integers(3)]
    with flags.override(mlx_passes=passes):
        for turn in range(5):
            held = [list(np.random.default_rng([seed, turn, rank]).random((2, 6), np.float32)) for rank in range(n)]
            ours = [mx.array(each) for each in held[mine]]
            for (kind, rank), stop in zip(steps, stops):
                first, second = ([each[i] for each in held] for i in range(2))
                if kind == 0:
                    new, made = [sum(first)] * n, mx.distributed.all_sum(ours[0])
                elif kind == 1:
                    # Equal calls, of which neither stands for the other.
                    new = [2 * np.max(first, 0)] * n
                    made = mx.distributed.all_max(ours[0]) + mx.distributed.all_max(ours[0])
                elif kind == 2:
                    new = [np.stack(first).mean(0)] * n
                    made = mx.distributed.all_gather(ours[0][None]).mean(0)
                elif kind == 3:
                    new, made = passed_on(held, ours, rank)
                elif kind == 4:
                    total = np.tile(sum(first), n).reshape(n, 6)
                    new = [total[each] + first[each] for each in range(n)]
                    made = mx.distributed.sum_scatter(mx.broadcast_to(ours[0], (n, 6)))[0] + ours[0]
                else:
                    new = [(a - b) * 0.5 for a, b in zip(first, second)]
                    made = (ours[0] - ours[1]) * 0.5
                held = [[each[1], value] for each, value in zip(held, new)]
                ours = [ours[1], made]
                if stop:
                    mx.eval(ours)
            mx.eval(ours)
            for got, right in zip(ours, held[mine]):
                np.testing.assert_allclose(np.array(got), right, rtol=1e-4, atol=1e-5)
            mx.eval(mx.distributed.all_sum(0))


by_dtype()
by_parts()
for seed in range(FIRST, FIRST + TURNS):
    by_chance(seed)
replays = sum(lowered.step.rungs["replay"] + lowered.step.rungs["patch"] for lowered in lazy.known.values())
assert replays or not TURNS
sys.stdout.write(f"rank {mine}: right\n")  # at once: print writes the end of the line by itself
