"""One rank of two, of which one knows that a rank is gone before the other does: it gives that one nothing any more."""

import sys

import numpy as np

import hiprt
from hiprt.distributed import Communicator

ROUND = 1 << 13  # float32 numbers of a round of chunks, on a device that has one block

with Communicator(seconds=300) as ranks:
    assert ranks.peers.blocks == 1
    mine = np.float32(ranks.rank + 1)
    large, small, taken = hiprt.full(3 * ROUND, mine), hiprt.full(100, mine), hiprt.zeros(100)
    if ranks.rank == 1:
        ranks.peers.stop_waiting()
        ranks.all_reduce(large)
        ranks.send(ranks.all_reduce(small), 0)
        hiprt.current_stream().synchronize()
    ranks.all_gather_value(None)
    if ranks.rank == 0:
        # It takes what has come, and waits for nothing else.
        ranks.peers.stop_waiting()
        total = ranks.all_reduce(large).numpy()
        # The first round left before any wait.
        assert (total[:ROUND] == 3).all(), total[:ROUND]
        assert (total[ROUND : 2 * ROUND] == 1).all(), total[ROUND : 2 * ROUND]
        total = ranks.all_reduce(small).numpy()
        assert (total == 1).all(), total
        assert (ranks.recv(taken, 1).numpy() == 0).all(), taken.numpy()
sys.stdout.write(f"rank {ranks.rank}: right\n")  # at once: print writes the end of the line by itself
