"""One rank: what ranks give each other, by every collective, alone and in replayed steps, compared with numpy's."""

import sys

import numpy as np

import hiprt
from hiprt import graphs, kernels
from hiprt.distributed import Communicator

BY, FORM = sys.argv[1:]
IS_SHORT = FORM == "short"  # each dtype and op is a kernel, which is compiled


def numbers(rank, dtype, n=1000):
    """Return what a rank gives."""
    return (np.arange(n) * (rank + 2)).astype(dtype)


with Communicator(seconds=300) as ranks:
    n, mine = ranks.ranks, ranks.rank
    assert (ranks.library is not None, ranks.peers is not None) == (BY == "library", BY == "own")
    for dtype in (np.float32, np.int32)[: 1 if IS_SHORT else 2]:
        each = [numbers(rank, dtype, 6 * n).reshape(2 * n, 3) for rank in range(n)]
        x, rows = hiprt.array(each[mine]), slice(2 * mine, 2 * mine + 2)
        np.testing.assert_array_equal(ranks.reduce_scatter(x).numpy(), sum(each)[rows])
        for op, wanted in (("max", np.max(each, 0)), ("sum", sum(each)), ("min", np.min(each, 0)))[
            : 1 if IS_SHORT else 3
        ]:
            np.testing.assert_array_equal(ranks.all_reduce(x, op=op).numpy(), wanted)
    for dtype in (np.int64, np.float32, np.uint8, np.float16, np.bool_)[: 2 if IS_SHORT else 5]:
        each = [numbers(rank, dtype) for rank in range(n)]
        x, out = hiprt.array(each[mine]), hiprt.zeros(1000, dtype)
        np.testing.assert_array_equal(ranks.broadcast(x, n - 1).numpy(), each[n - 1])
        np.testing.assert_array_equal(ranks.all_gather(x).numpy(), np.concatenate(each))
        if mine:
            ranks.recv(out, mine - 1)
            ranks.send(x, (mine + 1) % n)
        else:
            ranks.send(x, 1)
            ranks.recv(out, n - 1)
        np.testing.assert_array_equal(out.numpy(), each[mine - 1])
    # Rows of a gather, whose parts overlap where the ranks do not divide the width.
    whole = numbers(0, np.float32, 3 * (4 * n - 1)).reshape(3, -1)
    part = hiprt.array(np.ascontiguousarray(whole[:, ranks.part(whole.shape[1])]))
    np.testing.assert_array_equal(ranks.all_gather(part, whole.shape[1]).numpy(), whole)
    # However many rows there are, a gather by the library takes two nodes.
    part = hiprt.array(np.ascontiguousarray(whole[:, mine : mine + 1]))
    gather = graphs.Step(lambda: ranks.all_gather(part))
    np.testing.assert_array_equal(gather().numpy(), whole[:, :n])
    assert gather.nodes == (2 if BY == "library" else 1)

    x, taken = hiprt.zeros(300), hiprt.zeros(300)

    def token():
        y = x
        for _ in range(3):
            y = kernels.multiply(ranks.all_reduce(kernels.multiply(y, 2.0), residual=x), 0.5)
        if mine == 0:
            ranks.send(y, 1)
        elif mine == 1:
            ranks.recv(taken, 0)
        return ranks.all_gather(ranks.broadcast(kernels.add(y, taken), 1))

    step, seen = graphs.Step(token), []
    for turn in range(8):
        x.copy_from(hiprt.array(numbers(mine + turn, np.float32, 300)))
        got = step().numpy()
        np.testing.assert_array_equal(got, step.eager().numpy())
        seen.append(got.tobytes())
    assert len(set(seen)) == 8
    assert step.rungs["replay"] >= 5, step.rungs
    ranks.check()
    ranks.barrier()
    if BY == "library":
        ranks.all_reduce(hiprt.zeros(7919))
        said = ""
        try:
            ranks.check()
        except RuntimeError as error:
            said = str(error)
        assert said.endswith("internal error"), said
        ranks.barrier()
sys.stdout.write(f"rank {mine}: right\n")  # at once: print writes the end of the line by itself
