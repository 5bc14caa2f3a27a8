"""The process of one preset: its weights are made once, and it measures what it is asked for, line by line."""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from hiprt import Stream, allocator, use_stream
from hiprt.bench.decode_run import Run
from hiprt.bench.engine.models import preset
from hiprt.bench.engine.prompts import CHUNK
from hiprt.bench.model_matrices import weight_bytes
from hiprt.graphs import Step
from hiprt.graphs.launch.timing import read_bandwidth

__all__ = ["Bench"]

WARM_UP = 4  # prompts, by which their graphs are made
WARM_SECONDS = 0.3  # of a GPU's work before something counts, in which its clocks rise


class Bench:
    """A preset on the device, and what is measured of it.

    Parameters
    ----------
    name : str
    tokens, repeat : int
        As in `Settings`.
    kernels : bool
    """

    def __init__(self, name: str, tokens: int, repeat: int, kernels: bool = False) -> None:
        begin = time.perf_counter()
        self.tokens, self.repeat, self.is_by_kernel = tokens, repeat, kernels
        self.stream = Stream()
        with use_stream(self.stream):
            self.model = preset(name)
            self.stream.synchronize()
        self.seconds = time.perf_counter() - begin
        self.read_gb_s = round(read_bandwidth(self.stream), 1)
        self.warm_seconds = 0.0 if self.stream.device.provider.is_host else WARM_SECONDS
        self.texts: tuple[Any, Run | None] = None, None

    def facts(self) -> dict[str, Any]:
        """Return what all measurements of the preset have in common."""
        return {
            "weight_bytes": weight_bytes(self.model),
            "read_gb_s": self.read_gb_s,
            "seconds": round(self.seconds, 2),
        }

    def measure(self, mode: str, batch: int, context: int) -> dict[str, Any]:
        """Measure one thing; the arguments are those of `Measurement`."""
        begin = time.perf_counter()
        found = self.prompt(context) if mode == "prompt" else self.decode(mode, batch, context)
        return {**found, "peak_bytes": allocator.stats()["peak"], "seconds": round(time.perf_counter() - begin, 2)}

    def run_of(self, batch: int, context: int, tokens: int) -> Run:
        """Return texts of a size; those of the size before are kept until others are asked for."""
        key = batch, context, tokens
        if self.texts[0] != key:
            self.texts = None, None
            gc.collect()
            allocator.trim()
            self.texts = key, Run(self.model, self.stream, context, tokens, batch)
            self.fill(self.texts[1])
        assert self.texts[1] is not None
        return self.texts[1]

    def fill(self, work: Run) -> None:
        """Take the prompt into every text, in pieces as the engine takes prompts."""

        def pieces(sequence: int) -> None:
            for at in range(0, work.context - 1, CHUNK):
                work.prefill(work.rest[at : at + CHUNK], work.places[at : at + CHUNK], sequence)

        work.first_token(pieces, work.issue)

    def decode(self, mode: str, batch: int, context: int) -> dict[str, Any]:
        """Measure decode steps."""
        work, nbytes = self.run_of(batch, context, self.tokens), weight_bytes(self.model, batch)
        taken = self.warmly(lambda: work.decode(mode, self.tokens, nbytes, self.read_gb_s))
        self.model.check()
        rate = statistics.median(each.tok_s for each in taken)
        last = taken[-1]
        found = {
            "tok_s": round(rate, 2),
            "tok_s_each": [each.tok_s for each in taken],
            "us_per_step": round(1e6 * batch / rate, 2),
            "p99_us_per_step": round(1e3 * statistics.median(each.ms_per_token["p99"] for each in taken), 2),
            "host_us_per_step": round(statistics.median(each.host_us_per_token for each in taken), 2),
            "weight_bytes": nbytes,
            "share_of_bandwidth": round(nbytes * rate / batch / self.read_gb_s / 1e9, 4),
            "nodes": last.nodes,
            "edges": last.edges,
            "launches_per_step": last.launches_per_token,
            "rungs": added(each.rungs for each in taken),
        }
        if self.is_by_kernel and mode == "graph":
            found["kernels"] = [asdict(kernel) for kernel in work.kernels(self.read_gb_s)]
        return found

    def prompt(self, tokens: int) -> dict[str, Any]:
        """Measure a prompt and the step behind it, as graphs that have run before."""
        work = self.run_of(1, tokens, 1)
        fill: Step[..., Any] = Step(partial(work.prefill, work.rest, work.places), name="prefill", stream=self.stream)
        step: Step[..., Any] = Step(work.issue, name="first step", stream=self.stream, overwrite=True)
        for _ in range(WARM_UP):
            work.first_token(fill, step)
        before = added([fill.rungs, step.rungs])
        taken = self.warmly(lambda: work.first_token(fill, step))
        self.model.check()
        after = added([fill.rungs, step.rungs])
        ms = statistics.median(taken)
        found = {
            "first_token_ms": round(ms, 3),
            "first_token_ms_each": [round(each, 3) for each in taken],
            "prompt_tok_s": round(1e3 * tokens / ms, 1),
            "rungs": {rung: count - before[rung] for rung, count in after.items()},
        }
        if self.is_by_kernel:
            found["kernels"] = [asdict(kernel) for kernel in work.prompt_kernels(self.read_gb_s)]
        return found

    def warmly(self, measure: Callable[[], Any]) -> list[Any]:
        """Measure as often as is asked for, and before that until the device has worked for a while."""
        begin = time.perf_counter()
        while time.perf_counter() - begin < self.warm_seconds:
            measure()
        return [measure() for _ in range(self.repeat)]


def added(counts: Any) -> dict[str, int]:
    """Return the sum of counts, those of nothing included."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)


def answer(ask: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Return a result, or the sentence of what was raised in its place."""
    try:
        return {"result": dict(ask())}
    except Exception as error:
        return {"error": str(error).strip() or type(error).__name__}


def main() -> None:
    """Make a preset and answer on standard output, a line for each line of standard input, until that ends."""
    # Ctrl-C is for the process that asks; it ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parser = argparse.ArgumentParser()
    parser.add_argument("preset")
    parser.add_argument("tokens", type=int)
    parser.add_argument("repeat", type=int)
    parser.add_argument("kernels", type=int)
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer

    def say(answer: Mapping[str, Any]) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    made: list[Bench] = []

    def make() -> Mapping[str, Any]:
        made.append(Bench(options.preset, options.tokens, options.repeat, bool(options.kernels)))
        return made[0].facts()

    say(answer(make))
    for line in sys.stdin if made else ():
        given = json.loads(line)
        say(answer(partial(made[0].measure, given["mode"], given["batch"], given["context"])))


if __name__ == "__main__":
    main()
