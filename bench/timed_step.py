"""A decode step that is timed with one set of rings after another, in one process."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from hiprt import Stream, use_stream
from hiprt.bench.decode_run import Run
from hiprt.bench.engine.models import Model
from hiprt.bench.ring_neighbours import AnyRing
from hiprt.bench.ring_products import Place
from hiprt.graphs import Step
from hiprt.kernels.tuning.target import target_of, use_target

__all__ = ["CONTEXT", "TimedStep"]

CONTEXT = 16  # tokens in front of those that are decoded
WARM_SECONDS = 0.3  # of a GPU's work before something counts, in which its clocks rise


class TimedStep:
    """The decode step of a model, as one graph.

    Parameters
    ----------
    model : Model
    stream : Stream
    texts : int
        How many sequences it has.
    tokens : int
        How many steps are timed at a time.
    """

    def __init__(self, model: Model, stream: Stream, texts: int, tokens: int) -> None:
        self.stream, self.tokens = stream, tokens
        self.run = Run(model, stream, CONTEXT, tokens, texts)
        self.run.first_token(
            lambda sequence: self.run.prefill(self.run.rest, self.run.places, sequence), self.run.issue
        )
        self.target = target_of(stream)
        self.drawn: NDArray[Any] | None = None  # what the steps drew with the first rings
        begin = time.perf_counter()
        while not stream.device.provider.is_host and time.perf_counter() - begin < WARM_SECONDS:
            self.us({}, 1)

    def us(self, rings: Mapping[Place, AnyRing], repeat: int) -> float:
        """Return the microseconds of a step, the shortest of some times.

        Parameters
        ----------
        rings : mapping of Place to Ring or VectorRing
            Those that the table has in place of its own.
        repeat : int
            How often `tokens` steps are timed.

        Raises
        ------
        ValueError
            The steps draw other tokens than with the rings before: all rings give the same bits.
        """
        table = self.target.table
        for place, ring in rings.items():
            changed: dict[str, Any] = {place.table: {**getattr(table, place.table), place.key: ring}}
            table = replace(table, **changed)
        with use_target(self.stream.device, replace(self.target, table=table)), use_stream(self.stream):
            step: Step[..., Any] = Step(self.run.issue, name="decode", stream=self.stream, overwrite=True)
            try:
                taken = [self.seconds(step) for _ in range(repeat)]
            finally:
                step.let_go()  # so that the modules of rings that are not taken can be unloaded
            drawn = self.run.tokens.numpy(self.stream)
        self.drawn = drawn if self.drawn is None else self.drawn
        if (drawn != self.drawn).any():
            raise ValueError(f"the step draws {drawn.tolist()}, and {self.drawn.tolist()} with the rings of the table")
        return min(taken) / self.tokens * 1e6

    def seconds(self, step: Step[..., Any]) -> float:
        """Return the seconds of all steps, which begin at the same token and with the same state each time."""
        for state in self.run.state:
            state.reset()  # a recurrent one cannot go back, so that it begins empty; of the others the prompt stays
        self.run.warm_up(step)
        return self.run.follow(step, self.tokens)[1]
