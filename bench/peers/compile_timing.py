"""What the peers of ``hiprt bench compile`` share: the times that are taken, and how they are told."""

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

CALLS, WARM_UP = 500, 5
Answer = dict[str, Any]
# A function and what it is called with, made for a workload.
Maker = Callable[[Answer], tuple[Any, Any]]


def timed(compiled: Callable[[Any], Any], x: Any, wait: Callable[[Any], object]) -> Answer:
    """Time the first call of a compiled function, and later ones: the call, and until `wait` has its result."""
    start = time.perf_counter()
    wait(compiled(x))
    first = time.perf_counter() - start
    for _ in range(WARM_UP):
        wait(compiled(x))
    calls, whole = [], []
    for _ in range(CALLS):
        start = time.perf_counter()
        made = compiled(x)
        calls.append(time.perf_counter() - start)
        wait(made)
        whole.append(time.perf_counter() - start)
    return {
        "first_call_ms": first * 1e3,
        "call_us": statistics.median(calls) * 1e6,
        "whole_us": statistics.median(whole) * 1e6,
    }


def main(about: Answer, makers: Mapping[str, Maker], measure: Callable[[Any, Any], Answer]) -> None:
    """Print, as JSON, what a library is and what it takes for the workload in the first argument, which is JSON too."""
    work = json.loads(sys.argv[1])
    print(json.dumps({**about, **{name: measure(*makers[name](work)) for name in work["functions"]}}))
