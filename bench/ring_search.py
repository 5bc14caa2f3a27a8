"""The search for rings: those of several products by the time of the whole step.

A ring that is fastest alone need not be so in a step, where a product begins while the one before it ends. So each
turn changes the ring of one product, and times all of the step.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from hiprt.bench.engine.errors import summary
from hiprt.bench.ring_neighbours import AnyRing, launch_of, neighbours
from hiprt.kernels.tuning.target import Target
from hiprt.kernels.tuning.tiling import Product

__all__ = ["CAREFUL", "ENDS", "INTERRUPTED", "MARGIN", "NEAREST", "OVER", "Search", "Turn", "Wait"]

MARGIN = 0.001  # of the step's time, by which a ring has to be faster
MOST = 90  # rings that a turn tries
FINALISTS = 4  # of these, which are timed again
ROUGH, CAREFUL = 1, 5  # how often a step's time is taken, of which the shortest counts
COMPILE_SECONDS = 60.0  # after which a ring counts as one that cannot be compiled

ENDS = NEAREST, OVER, INTERRUPTED = "nothing near is left", "the time is over", "interrupted"

# Takes the rings by the names of their products and how often to measure; returns microseconds of a step.
Time = Callable[[Mapping[str, AnyRing], int], float]
# Takes the seconds that one waits at most; returns why a ring cannot be compiled, or nothing.
Wait = Callable[[float], str]
# Begins to compile the ring of a product.
Begin = Callable[[str, AnyRing], Wait]


@dataclass
class Turn:
    """What was tried of one product, the other rings staying.

    Attributes
    ----------
    name : str
        The product's.
    before : AnyRing
        Its ring until then.
    before_us : float
        The microseconds of a step with it.
    ring : AnyRing
        The ring that was taken, which may be the one of before.
    us : float
        The microseconds with that one.
    times : list of (AnyRing, float)
        The microseconds with each that was tried, in the order of the tries.
    again : list of (AnyRing, float)
        Those of the fastest, timed again.
    uncompiled, failed : list of (AnyRing, str)
        The rings that could not be compiled, those with which the step failed, and why.
    """

    name: str
    before: AnyRing
    before_us: float
    ring: AnyRing
    us: float
    times: list[tuple[AnyRing, float]] = field(default_factory=list)
    again: list[tuple[AnyRing, float]] = field(default_factory=list)
    uncompiled: list[tuple[AnyRing, str]] = field(default_factory=list)
    failed: list[tuple[AnyRing, str]] = field(default_factory=list)

    @property
    def tried(self) -> int:
        """With how many rings a step was launched."""
        return len({ring for ring, _ in (*self.times, *self.failed)})


class Search:
    """A search for the rings with which a step takes the least time.

    Parameters
    ----------
    products : mapping of str to Product
        The products in the order of their turns.
    rings : mapping of str to AnyRing
        The ring of each from which the search goes out.
    time : callable
        Takes the rings by name and how often to measure; returns the microseconds of a step. What it raises with
        another ring counts against that ring; what it raises with those that were already taken ends the search.
    target : Target
        The GPU.
    seconds : float
        After this time nothing more is tried; the fastest of the turn are still timed again.
    begin : callable, optional
        Begins to compile the ring of a product, takes its name and the ring; returns a function that waits for at most
        so many seconds, returns why it cannot be compiled, empty where it can, and raises TimeoutError.
    said : callable, optional
        Takes each turn when it ends.
    late : collection of str
        The products of which no codes can be asked for before the inputs are there.
    tokens : mapping of str to int
        How many tokens have experts of their own, where those are several.
    most : int
        How many rings a turn tries.
    clock : callable, optional
        Returns the time in seconds.

    Attributes
    ----------
    rings : dict of str to AnyRing
        The fastest so far.
    turns : list of Turn
    ended : str
        Why the search has ended: one of `ENDS`, or what the step failed with, with rings that had been taken.
    """

    def __init__(
        self,
        products: Mapping[str, Product],
        rings: Mapping[str, AnyRing],
        time: Time,
        *,
        target: Target,
        seconds: float,
        begin: Begin = lambda name, ring: lambda seconds: "",
        said: Callable[[Turn], None] = lambda turn: None,
        late: Collection[str] = (),
        tokens: Mapping[str, int] | None = None,
        most: int = MOST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.products, self.rings, self.time = dict(products), dict(rings), time
        self.target, self.begin, self.said, self.most, self.clock = target, begin, said, most, clock
        self.late, self.tokens, self.end = late, tokens or {}, clock() + seconds
        self.turns: list[Turn] = []
        self.ended = ""
        self.draw = random.Random(1)
        self.tried = {(name, self.launch_of(name, ring)) for name, ring in self.rings.items()}
        self.pending: dict[str, list[tuple[AnyRing, Wait]]] = {}

    def run(self) -> None:
        """Search until the time is over, nothing near is left, or Ctrl-C."""
        try:
            # The programs of the products that have their turns later are compiled meanwhile.
            for name in self.products:
                self.propose(name)
            while any(self.pending.values()) and not self.is_over:
                for name in (each for each in self.products if self.pending[each] and not self.is_over):
                    self.take_turn(name)
                    self.propose(name)
            self.ended = OVER if self.is_over else NEAREST
        except KeyboardInterrupt:
            self.ended = INTERRUPTED
        except Exception as error:
            self.ended = summary(error)

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return self.clock() >= self.end

    def launch_of(self, name: str, ring: AnyRing) -> tuple[int, ...] | None:
        """Return what tells a ring's launch from those of other rings of a product."""
        return launch_of(ring, self.products[name], self.target, self.tokens.get(name, 1))

    def propose(self, name: str) -> None:
        """Begin to compile the rings near a product's that were not tried yet, or some of them."""
        product, near = self.products[name], {}
        tokens = self.tokens.get(name, 1)
        for each in neighbours(self.rings[name], product, self.target, name not in self.late, tokens):
            if (key := (name, self.launch_of(name, each))) not in self.tried:
                near[key] = each
        drawn = self.draw.sample(list(near), min(self.most, len(near)))
        self.tried.update(drawn)
        self.pending[name] = [(near[key], self.begin(name, near[key])) for key in drawn]

    def take_turn(self, name: str) -> None:
        """Try the rings that were proposed for a product, and take the fastest if it is faster than that of before."""
        before = self.rings[name]
        us = self.time(self.rings, CAREFUL)
        turn = Turn(name, before, us, before, us)
        self.turns.append(turn)
        for ring, wait in self.pending.pop(name):
            if self.is_over or not self.try_one(turn, ring, wait):
                break
        for ring, _ in sorted(turn.times, key=lambda pair: pair[1])[:FINALISTS]:
            again = self.timed(turn, ring, CAREFUL)
            if again is not None:
                turn.again.append((ring, again))
        if turn.again:
            # The device may have become slower or faster since the turn began.
            turn.before_us = turn.us = min(turn.before_us, self.time(self.rings, CAREFUL))
            ring, us = min(turn.again, key=lambda pair: pair[1])
            if us < turn.before_us * (1 - MARGIN):
                turn.ring, turn.us = ring, us
                self.rings[name] = ring
        self.said(turn)

    def try_one(self, turn: Turn, ring: AnyRing, wait: Wait) -> bool:
        """Time the step with a ring once it is compiled; return False where the time is over before that."""
        try:
            why_not = wait(max(0.0, min(COMPILE_SECONDS, self.end - self.clock())))
        except TimeoutError:
            if self.is_over:
                return False
            why_not = f"it takes more than {COMPILE_SECONDS:.0f} s"
        if why_not:
            turn.uncompiled.append((ring, why_not))
        else:
            us = self.timed(turn, ring, ROUGH)
            if us is not None:
                turn.times.append((ring, us))
        return True

    def timed(self, turn: Turn, ring: AnyRing, repeat: int) -> float | None:
        """Return the microseconds of a step with another ring; None where it fails."""
        try:
            return self.time({**self.rings, turn.name: ring}, repeat)
        except Exception as error:
            turn.failed.append((ring, summary(error)))
            return None
