"""Every op on the device in use, beside numpy: ``python -m hiprt.bench.check.ops``.

After each op it prints all results so far as one line, so that those before a crash are not lost. Ops take turns, each
with a case that no other line has had; what is left when the time is over is counted.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

from hiprt.bench.isa.case import Case
from hiprt.bench.isa.cases import cases
from hiprt.bench.isa.kernels import measured
from hiprt.errors import HipError

__all__ = ["main", "turns"]


def turns(every: Iterable[Case]) -> Iterator[Case]:
    """Yield the first case of each op, then the second of each, and so on."""
    by_op: defaultdict[str, list[Case]] = defaultdict(list)
    for case in every:
        by_op[name_of(case)].append(case)
    for row in zip_longest(*by_op.values()):
        yield from (case for case in row if case is not None)


def name_of(case: Case) -> str:
    """Return the name of a case's op."""
    return str(getattr(case.op, "__name__", case.op))


def main() -> int:
    """Run one case, and others until all are done or the time is over; fail where a result is wrong."""
    parser = argparse.ArgumentParser("hiprt.bench.check.ops")
    parser.add_argument("--seconds", type=float, default=240.0, help="the time after which no other case begins")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    report: dict[str, Any] = {"cases": 0, "ops": 0, "left_out": 0, "wrong": []}
    seen: set[str] = set()
    for case in turns(cases()):
        if seen and time.monotonic() > end:
            report["left_out"] += 1
            continue
        name = f"{name_of(case)}: {case.name}"
        print(json.dumps({**report, "running": name}), flush=True)
        try:
            got = case.call().numpy()
            row = measured("", case, "", got, got)
            if not row.is_right:
                report["wrong"].append({"case": name, "error": row.error, "largest": row.largest})
        except HipError as error:
            report["wrong"].append({"case": name, "raised": str(error)[:500]})
        seen.add(name_of(case))
        report["cases"], report["ops"] = report["cases"] + 1, len(seen)
    print(json.dumps(report), flush=True)
    return 1 if report["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
