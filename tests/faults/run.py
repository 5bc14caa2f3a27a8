"""Runs phases under faults, in a process of its own: `python -m faults.run SHIM REAL [memory]`."""

import gc
import importlib
import json
import logging
import sys
import warnings
from pathlib import Path

from faults.mallocs import Mallocs
from faults.shim import Shim, stand_before


class Trial:
    """One phase under faults."""

    def __init__(self, calls, phase):
        from faults.workload import PHASES, tidy

        self.faulty, self.work, self.tidy = calls, PHASES[phase], tidy
        for _ in range(2):
            self.wanted = self.work()
            self.tidy()
        self.live = calls.live()

    def calls(self):
        """Return the calls of the phase."""
        seen = self.faulty.watch(self.work)
        self.tidy()
        return seen

    def fail(self, *fault):
        """Run the phase with a fault, then without; returns the call that failed and what was wrong."""
        wrong = []
        self.faulty.arm(*fault)
        try:
            if self.work() != self.wanted:
                wrong.append("other results, and no error")
        except Exception as error:
            if not self.is_clear(error):
                wrong.append(f"an error that does not say what failed: {error!r}")
        finally:
            name = self.faulty.disarm()
        for _ in range(2):
            try:
                if self.work() != self.wanted:
                    wrong.append("other results afterwards")
            except Exception as error:
                wrong.append(f"afterwards: {error!r}")
        self.tidy()
        return name, wrong

    def is_clear(self, error):
        """Whether an error names the call that failed; for memory, the core's Python types say MemoryError."""
        from hiprt.errors import HipError

        is_named = isinstance(error, HipError) and bool(error.call)
        return is_named or (isinstance(self.faulty, Mallocs) and type(error) is MemoryError)

    def lost(self):
        """Return the objects that are alive beyond those at the beginning, which are then taken as given."""
        now = self.faulty.live()
        more = {kind: now[kind] - self.live[kind] for kind in now if now[kind] > self.live[kind]}
        self.live = now
        return more

    def check(self, *fault):
        """Return the call that failed, and what was wrong with it."""
        name, wrong = self.fail(*fault)
        # An object that is made once and kept is none that was lost: it is made once only.
        if self.lost():
            wrong += self.fail(*fault)[1]
            if more := self.lost():
                wrong.append(f"lost: {more}")
        return name, wrong


def main(file, real, is_of_memory=False):
    """Answer requests: [phase], or [phase, n, burst, status], or with a function's name behind."""
    stand_before(Path(file))
    warnings.simplefilter("ignore")
    logging.disable()
    calls, trials = Shim(file, real), {}
    if is_of_memory:
        calls = Mallocs(calls)
    importlib.import_module("faults.workload")
    gc.freeze()  # Each fault asks the collector three times, which need not walk through every module for that.
    for line in sys.stdin:
        phase, *fault = json.loads(line)
        trial = trials.get(phase) or trials.setdefault(phase, Trial(calls, phase))
        print(json.dumps(trial.check(*fault) if fault else trial.calls()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
