"""The end of a rank in the middle of a step, which it can say nothing of to the others."""

import os
import random
import signal
import sys
import time

STEP = 0.005  # seconds: about what the device takes for a step


def die():
    """Kill this process at some moment of the step that the device works on, and say when."""
    time.sleep(random.random() * STEP)
    sys.stderr.write(f"killed at {time.monotonic()}\n")
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGKILL)
