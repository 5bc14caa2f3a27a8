"""The search for vector rings: which are near one, and those of several products by the time of the whole step.

A ring that is fastest alone need not be so in a step, where a product begins while the one before it ends. So each
turn changes the ring of one product, and times all of the step.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product as product_of

from hiprt.bench.engine.errors import summary
from hiprt.kernels.tuning.tiling import Product
from hiprt.kernels.tuning.vector_rings import (
    MOST_SIMDGROUPS,
    PARTNERS,
    SHARERS,
    VectorRing,
    vector_ring_configuration,
)

__all__ = [
    "CAREFUL",
    "ENDS",
    "INTERRUPTED",
    "MARGIN",
    "NEAREST",
    "OVER",
    "Search",
    "Turn",
    "Wait",
    "neighbours",
]

MARGIN = 0.001  # of the step's time, by which a ring has to be faster
MOST = 90  # rings that a turn tries
FINALISTS = 4  # of these, which are timed again
ROUGH, CAREFUL = 1, 5  # how often a step's time is taken, of which the shortest counts
COMPILE_SECONDS = 60.0  # after which a ring counts as one that cannot be compiled
DEEPEST = 4  # steps of a simdgroup on their way
FILLED = (12, 16, 20, MOST_SIMDGROUPS)  # simdgroups of a threadgroup that helpers make up for
CLUSTERED = {4: (10, 11), 8: (28, 33)}  # the part of a GPU's processors that clusters of so many find room on
LEFT = (0, 2, 4, 8, 12, 16, 20)  # processors that are left to the kernels before and behind

ENDS = NEAREST, OVER, INTERRUPTED = "nothing near is left", "the time is over", "interrupted"

# Takes the rings by the names of their products and how often to measure; returns microseconds of a step.
Time = Callable[[Mapping[str, VectorRing], int], float]
# Takes the seconds that one waits at most; returns why a ring cannot be compiled, or nothing.
Wait = Callable[[float], str]
# Begins to compile the ring of a product.
Begin = Callable[[str, VectorRing], Wait]


def neighbours(ring: VectorRing, product: Product, processors: int) -> list[VectorRing]:
    """Return the vector rings near one that fit a product, each with a launch of its own.

    Parameters
    ----------
    ring : VectorRing
    product : Product
    processors : int
        Those of the GPU.
    """
    every = [
        *other_teams(ring),
        *other_depths(ring),
        *(ring._replace(groups=processors - left) for left in LEFT),
        *other_clusters(ring, processors),
        ring._replace(copies=1 - ring.copies),
    ]
    found = {launch_of(each, product): each for each in reversed(every)}
    return [each for launch, each in reversed(found.items()) if launch not in (None, launch_of(ring, product))]


def launch_of(ring: VectorRing, product: Product) -> tuple[int, ...] | None:
    """Return what tells a ring's launch from those of others; None where the ring does not fit the product."""
    try:
        configuration = vector_ring_configuration(product, ring)
    except ValueError:
        return None
    return configuration.grid[0], *configuration.template.values()


def helpers_of(ring: VectorRing) -> list[int]:
    """Return how many helpers a ring may have: none, and those that make up a number of simdgroups."""
    with_tiles = ring.teams * ring.alone.split // ring.sharers
    return sorted({0, *(max(0, count - with_tiles) for count in FILLED)})


def other_teams(ring: VectorRing) -> Iterator[VectorRing]:
    """Yield rings with up to three teams more or less, and up to two other numbers besides, or three without."""
    for teams in range(max(1, ring.teams - 3), ring.teams + 4):
        depths = {ring.depth, max(1, ring.depth - 1)}
        if teams <= ring.teams + 1:  # more of them have no room for further steps
            depths.add(min(DEEPEST, ring.depth + 1))
        pers = sorted({1, 2, ring.per})
        for helpers, per, depth in product_of(helpers_of(ring._replace(teams=teams)), pers, sorted(depths)):
            stay = teams == ring.teams, helpers == ring.helpers, per == ring.per, depth == ring.depth
            if any(stay):
                early = min(ring.early, depth)
                yield ring._replace(teams=teams, helpers=helpers, per=per, depth=depth, early=early)


def other_depths(ring: VectorRing) -> Iterator[VectorRing]:
    """Yield rings that ask for codes at other moments."""
    for depth in range(1, DEEPEST + 1):
        for early in range(depth + 1):
            yield ring._replace(depth=depth, early=early)


def other_clusters(ring: VectorRing, processors: int) -> Iterator[VectorRing]:
    """Yield rings whose threadgroups share rows, or divide the vectors, in other ways."""
    for sharers, partners in product_of(SHARERS, PARTNERS):
        if ring.alone.split % sharers:
            continue
        split = ring.alone.split // sharers
        part, whole = CLUSTERED.get(sharers * partners, (1, 1))
        most = processors * part // whole
        counts = dict.fromkeys((most, min(most, processors - 8)))
        teams_of = sorted({ring.teams, *(max(1, count // split) for count in (8, 12, 16, 20))})
        for groups, teams, depth in product_of(counts, teams_of, range(1, DEEPEST)):
            filled = 20 if teams * split < 16 else 16
            each = ring._replace(
                sharers=sharers, partners=partners, groups=groups, teams=teams, depth=depth, per=1 if teams > 2 else 2
            )
            for early, helpers in product_of((0, depth), sorted({0, max(0, filled - teams * split)})):
                yield each._replace(early=early, helpers=helpers)


@dataclass
class Turn:
    """What was tried of one product, the other rings staying.

    Attributes
    ----------
    name : str
        The product's.
    before : VectorRing
        Its ring until then.
    before_us : float
        The microseconds of a step with it.
    ring : VectorRing
        The ring that was taken, which may be the one of before.
    us : float
        The microseconds with that one.
    times : list of (VectorRing, float)
        The microseconds with each that was tried, in the order of the tries.
    again : list of (VectorRing, float)
        Those of the fastest, timed again.
    uncompiled, failed : list of (VectorRing, str)
        The rings that could not be compiled, those with which the step failed, and why.
    """

    name: str
    before: VectorRing
    before_us: float
    ring: VectorRing
    us: float
    times: list[tuple[VectorRing, float]] = field(default_factory=list)
    again: list[tuple[VectorRing, float]] = field(default_factory=list)
    uncompiled: list[tuple[VectorRing, str]] = field(default_factory=list)
    failed: list[tuple[VectorRing, str]] = field(default_factory=list)

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
    rings : mapping of str to VectorRing
        The ring of each from which the search goes out.
    time : callable
        Takes the rings by name and how often to measure; returns the microseconds of a step. What it raises with
        another ring counts against that ring; what it raises with those that were already taken ends the search.
    processors : int
        Those of the GPU.
    seconds : float
        After this time nothing more is tried; the fastest of the turn are still timed again.
    begin : callable, optional
        Begins to compile the ring of a product, takes its name and the ring; returns a function that waits for at most
        so many seconds, returns why it cannot be compiled, empty where it can, and raises TimeoutError.
    said : callable, optional
        Takes each turn when it ends.
    most : int
        How many rings a turn tries.
    clock : callable, optional
        Returns the time in seconds.

    Attributes
    ----------
    rings : dict of str to VectorRing
        The fastest so far.
    turns : list of Turn
    ended : str
        Why the search has ended: one of `ENDS`, or what the step failed with, with rings that had been taken.
    """

    def __init__(
        self,
        products: Mapping[str, Product],
        rings: Mapping[str, VectorRing],
        time: Time,
        *,
        processors: int,
        seconds: float,
        begin: Begin = lambda name, ring: lambda seconds: "",
        said: Callable[[Turn], None] = lambda turn: None,
        most: int = MOST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.products, self.rings, self.time = dict(products), dict(rings), time
        self.processors, self.begin, self.said, self.most, self.clock = processors, begin, said, most, clock
        self.end = clock() + seconds
        self.turns: list[Turn] = []
        self.ended = ""
        self.draw = random.Random(1)
        self.tried = {(name, launch_of(ring, self.products[name])) for name, ring in self.rings.items()}
        self.pending: dict[str, list[tuple[VectorRing, Wait]]] = {}

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

    def propose(self, name: str) -> None:
        """Begin to compile the rings near a product's that were not tried yet, or some of them."""
        product, near = self.products[name], {}
        for each in neighbours(self.rings[name], product, self.processors):
            if (key := (name, launch_of(each, product))) not in self.tried:
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

    def try_one(self, turn: Turn, ring: VectorRing, wait: Wait) -> bool:
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

    def timed(self, turn: Turn, ring: VectorRing, repeat: int) -> float | None:
        """Return the microseconds of a step with another ring; None where it fails."""
        try:
            return self.time({**self.rings, turn.name: ring}, repeat)
        except Exception as error:
            turn.failed.append((ring, summary(error)))
            return None
