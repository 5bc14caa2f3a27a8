"""One rank of two, of which the second cannot map the memory of the first: what connects them, or why nothing does."""

import os
import sys

import hiprt
from hiprt.distributed import Communicator, RankError, peers

opened = peers.opened
if os.environ["RANK"] == "1":
    peers.opened = lambda text: opened("00" * (len(text) // 2))  # no handle
try:
    with Communicator(seconds=300) as ranks:
        total = ranks.all_reduce(hiprt.full(3, ranks.rank + 1.0)).numpy()
        said = f"{'own' if ranks.peers else ''}{'library' if ranks.library else ''} {total}"
except RankError as error:
    said = str(error)
sys.stdout.write(f"{said}\n")  # at once: print writes the end of the line by itself
