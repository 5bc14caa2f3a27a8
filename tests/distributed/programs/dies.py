"""One rank of several, of which one kills itself between two replays; the others say which. With -1, nobody does."""

import os
import signal
import sys

import hiprt
from hiprt import graphs
from hiprt.distributed import Communicator, RankError

VICTIM = int(sys.argv[1])

ranks = Communicator(seconds=300)
x = hiprt.zeros(100)
step = graphs.Step(lambda: ranks.all_reduce(x))
try:
    for turn in range(1000 if VICTIM >= 0 else 6):
        if turn == 5 and ranks.rank == VICTIM:
            os.kill(os.getpid(), signal.SIGKILL)
        step().numpy()
        ranks.check()
    ranks.barrier()  # nobody closes the communicator
    if ranks.rank == 0:
        step()  # the others never come to this one
except RankError as error:
    sys.stdout.write(f"rank {ranks.rank}: {error}\n")  # at once: print writes the end of the line by itself
    sys.stdout.flush()
    sys.exit(3)
