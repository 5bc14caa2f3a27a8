"""One rank of ``hiprt generate``, of which one is killed in a step: the victim, its last step, and the command."""

import os
import sys

from death import die

from hiprt.__main__ import main
from hiprt.bench.engine.decoder import Decoder

victim, last, *words = sys.argv[1:]
step = Decoder.step


def step_or_die(decoder):
    """Launch a step, and no other one behind the last."""
    step(decoder)
    if decoder.steps == int(last):
        die()


if os.environ["RANK"] == victim:
    Decoder.step = step_or_die
sys.exit(main(words))
