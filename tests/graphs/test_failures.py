"""Steps whose HIP calls fail: nothing runs twice, and an error says whether anything ran (G8)."""

import gc
from itertools import product

import numpy as np
import pytest
from faults import child
from helpers.kernels import accumulate, scale

import hiprt
from hiprt import graphs
from hiprt.errors import HipError, UndefinedOutputsError

pytestmark = pytest.mark.only("cpu", reason="the shim stands before it")

N = 64
OUT_OF_MEMORY, LAUNCH_FAILURE, UNKNOWN, INVALID_VALUE = 2, 719, 999, 1


class Work:
    """A step that adds 1 to `state` in one way of launching it.

    Parameters
    ----------
    mode : str
        ``armed`` launches again what is kept, ``replayed`` and ``patched`` find the exec of a recording, ``updated``
        changes all nodes, ``split`` reads on the host between its two halves, ``moved`` gets the state at another
        address each time, ``moved again`` at one where it has lain before, ``copied`` returns arrays of its own,
        ``foreign`` is ``replayed`` on a stream of somebody else, ``eager`` uses no graph.
    """

    def __init__(self, mode):
        self.mode = mode
        self.own = hiprt.Stream()
        self.stream = hiprt.Stream.from_handle(self.own.handle) if mode == "foreign" else self.own
        with hiprt.use_stream(self.stream):
            self.states = [hiprt.zeros(N) for _ in range(2)]
            self.half = hiprt.full(N, 0.5)
        self.calls = 0
        self.collects = False
        keep = mode in ("armed", "split", "moved", "moved again", "copied")
        self.step = graphs.Step(self.function, name=mode, stream=self.stream, keep=keep, moves=mode.startswith("moved"))

    @property
    def state(self):
        """The array that the next call adds to."""
        return self.states[self.calls % 2 if self.mode in ("patched", "updated", "moved", "moved again") else 0]

    def function(self, state):
        """What the step does."""
        if self.collects:
            gc.collect()
        accumulate(self.half, state)
        if self.mode == "split":
            state.numpy()
        accumulate(self.half, state)
        return scale(state, 1.0) if self.mode == "copied" else None

    def run(self):
        """Call the step."""
        self.step(self.state)

    def check(self, calls, first, burst, status):
        """Say what is wrong after a call in which others failed; empty if nothing is."""
        for _ in range(4 if self.mode == "moved again" else 0):
            self.calls += 1
            self.run()
        self.calls += 1
        state = self.state
        state.set(np.zeros(N, np.float32), self.stream)
        self.stream.synchronize()
        error = None
        with calls.fail(first, burst, status):
            try:
                self.run()
            except HipError as raised:
                error = raised
        expected = {1.0} if error is None else set() if isinstance(error, UndefinedOutputsError) else {0.0}
        found = set(state.numpy(self.stream).tolist())
        if expected and found != expected:
            return f"{self.mode}: call {first} of {burst} with {status}: {found} after {error}"
        state.set(np.zeros(N, np.float32), self.stream)
        # What the failed call left goes while the step records.
        self.collects = True
        self.run()
        self.collects = False
        found = set(state.numpy(self.stream).tolist())
        return "" if found == {1.0} else f"{self.mode}: after call {first} of {burst} with {status}: {found}"


STATUSES = (OUT_OF_MEMORY, LAUNCH_FAILURE, UNKNOWN, INVALID_VALUE)


def sweep(calls, mode, flags, ways):
    """Let each call of a step fail in those ways; return what went wrong.

    A way is how many calls fail from that one on, and which of its statuses they give.
    """
    flags = {name: tuple(value) if isinstance(value, list) else value for name, value in flags.items()}
    wrong, failures = [], 0
    gc.disable()
    with hiprt.flags.override(**flags):
        work = Work(mode)
        for _ in range(4):
            work.calls += 1
            work.run()
        work.stream.synchronize()
        work.calls += 1
        # A failure makes later calls do more than this one.
        last = calls.count(work.run) + 4
        for burst, turn in ways:
            for first in range(1, last + 1):
                wrong.append(work.check(calls, first, burst, STATUSES[(first + burst + turn) % len(STATUSES)]))
                failures += calls.failed()
    return [each for each in wrong if each], failures


@pytest.mark.singles
@pytest.mark.parametrize(
    ("mode", "flags"),
    [
        ("armed", {}),
        ("replayed", {}),
        ("patched", {"graph_rungs": ["patch", "instantiate", "eager"]}),
        ("updated", {"graph_rungs": ["update", "instantiate", "eager"]}),
        ("split", {}),
        ("moved", {}),
        ("moved again", {}),
        ("moved again", {"graph_canary": True}),
        ("copied", {}),
        ("foreign", {}),
        ("eager", {"graph_rungs": ["eager"]}),
        ("armed", {"graph_verify": True}),
        ("patched", {"graph_verify": True}),
        ("replayed", {"graph_canary": True}),
        ("armed", {"graph_trace": "/dev/null"}),
        ("patched", {"graph_trace": "/dev/null"}),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value) or "default",
)
@pytest.mark.every(2)
def test_nothing_runs_twice(mode, flags, tmp_path, form, part):
    """A call that returns has run once, an error has run nothing, and else it says that outputs are undefined.

    Each call fails by every status; in the short form by one, which is another for the next call.
    """
    ways = part([*product((1, 2, 3), range(1 if form == "short" else len(STATUSES)))])
    wrong, failures = child.run(sweep, tmp_path, mode, flags, ways)
    assert wrong == []
    assert failures >= 8 * len(ways) // 3
