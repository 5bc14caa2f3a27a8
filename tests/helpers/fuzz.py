"""Check that random programs leave the same bits in every buffer in numpy, run eagerly and run as graphs.

From tests/: ``python -m helpers.fuzz --seed 7`` runs one program again, ``--count N`` N from there on, ``--together K``
K at once, on streams and threads of their own. The environment (provider, profile, seed) is taken as it is.
"""

import argparse
import logging
import os
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace

import numpy as np

import hiprt
from helpers.machine import Device, Host
from helpers.program import Config, Illegal, Program, Writer, drop, without
from hiprt.allocator import default_pool

# Names of the CPU device's profiles; it reads them when it is loaded, so each is a process of its own.
PROFILES = ("cuda", "clr-6.2", "clr-6.4", "clr-7.2", "clr-7.13", "clr-10", "paranoid")
SHRINK_SECONDS = 20.0
HIDDEN = "a graph call failed and the step ran eagerly: "


@dataclass
class Case:
    """Programs that run at once, with what numpy saw of each."""

    programs: tuple[Program, ...]
    expected: tuple[list, ...]
    is_interleaved: bool = False  # on one thread, statement by statement, else on a thread each


@dataclass
class Failure:
    """A difference between two runs of a program."""

    program: Program
    mode: str
    text: str

    def __str__(self):
        return f"{self.mode}: {self.text}\n{self.program}"


def judge(program):
    """Run a program in numpy and return what it saw."""
    host = Host(program)
    for _ in host.run():
        pass
    return host.seen


def generate(seed):
    """Return a program with a defined result, and what numpy saw."""
    program = Writer(seed).program()
    while True:
        host = Host(program)
        try:
            for _ in host.run():
                pass
        except Illegal:
            program = drop(program, *host.at)
        else:
            return program, host.seen


def generate_together(seed, count):
    """Return programs to be run at once, under the flags of the first."""
    cases = [generate(seed * count + k) for k in range(count)]
    return Case(*map(tuple, zip(*cases)), is_interleaved=seed % 3 == 0)


def difference(seen, expected):
    """Describe the first difference, or return None."""
    for (i, name, got), (_, _, wanted) in zip(seen, expected, strict=True):
        if not np.array_equal(got, wanted):
            at = int(np.flatnonzero(got.reshape(-1) != wanted.reshape(-1))[0])
            return (
                f"after statement {i}, {name}[{at}] is {got.reshape(-1)[at]}, not {wanted.reshape(-1)[at]} "
                f"({np.count_nonzero(got != wanted)} of {got.size} differ)"
            )
    return None


def is_plain():
    """Whether the device imitates no defects, so that no graph call may fail."""
    return not (os.environ.get("HIPRT_CPU_PROFILE") or os.environ.get("HIPRT_CPU_QUIRKS"))


def run(program, expected, mode):
    """Run a program on the device; return a failure or None."""
    with ExitStack() as stack:
        chosen = {"graph": False} if mode == "eager" else program.configs[0].flags
        stack.enter_context(hiprt.flags.override(**chosen))
        device = Device(program, expected, is_configured=mode == "graph")
        stack.callback(device.close)
        try:
            for _ in device.run():
                pass
            text = difference(device.finish(), expected)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        if text is None and mode == "graph" and is_plain():
            text = next((HIDDEN + reason for reason in device.reasons()), None)
        return Failure(program, mode, text) if text else None


def check(seed):
    """Generate a program and run it eagerly and as graphs; return a failure or None."""
    program, expected = generate(seed)
    try:
        return run(program, expected, "eager") or run(program, expected, "graph")
    finally:
        # No other stream can use the blocks of a stream that is gone.
        default_pool.trim()


def check_together(seed, count):
    """Run several programs at once; return the first failure or None."""
    case = generate_together(seed, count)
    program = case.programs[0]
    with hiprt.flags.override(**program.configs[0].flags):
        texts = interleave(case) if case.is_interleaved else thread(case)
    default_pool.trim()
    for other, text in zip(case.programs, texts):
        if text is not None:
            lines = "\n".join(f"(beside)\n{p}" for p in case.programs if p is not other)
            return Failure(other, "together" + ("" if case.is_interleaved else ", threads"), f"{text}\n{lines}")
    return None


def interleave(case):
    """Run programs on streams of one thread, a statement of each in turn; return what went wrong in each."""
    devices = [Device(p, e, is_configured=False) for p, e in zip(case.programs, case.expected)]
    try:
        runs = [device.run() for device in devices]
        while runs:
            runs = [each for each in runs if next(each, "over") != "over"]
        return [difference(device.finish(), e) for device, e in zip(devices, case.expected)]
    finally:
        for device in devices:
            device.close()


def thread(case):
    """Run each program on a thread and a stream of its own; return what went wrong in each."""
    texts = [None] * len(case.programs)
    barrier = threading.Barrier(len(texts))

    def work(k):
        barrier.wait()
        device = Device(case.programs[k], case.expected[k], is_configured=False)
        try:
            for _ in device.run():
                pass
            texts[k] = difference(device.finish(), case.expected[k])
        except Exception as error:
            texts[k] = f"{type(error).__name__}: {error}"
        finally:
            device.close()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(texts))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return texts


def smaller(program):
    """Yield the program without one of its parts, for each part."""
    for i in reversed(range(len(program.statements))):
        yield replace(program, statements=without(program.statements, i))
        for k in reversed(range(len(program.statements[i].ops))):
            yield drop(program, i, -1, k)
        if program.statements[i].key:
            statement = replace(program.statements[i], key=None)
            yield replace(program, statements=(*program.statements[:i], statement, *program.statements[i + 1 :]))
    for b, body in enumerate(program.bodies):
        for k in reversed(range(len(body.ops))):
            yield drop(program, 0, b, k)
        if body.results:
            yield drop(program, 0, b, -1)
    if len(program.configs) > 1:
        yield from (replace(program, configs=(config,)) for config in program.configs)
    for c, config in enumerate(program.configs):
        for each in fields(Config):
            if getattr(config, each.name) != each.default:
                plain = replace(config, **{each.name: each.default})
                yield replace(program, configs=(*program.configs[:c], plain, *program.configs[c + 1 :]))
    used = {view.name for view in views(program)} | {statement.name for statement in program.statements}
    for name in program.buffers:
        if name not in used:
            yield replace(program, buffers={k: v for k, v in program.buffers.items() if k != name})


def views(program):
    """Yield every view in a program."""
    ops = [op for body in program.bodies for op in body.ops] + [op for s in program.statements for op in s.ops]
    for op in ops:
        yield from op.sources
        if not isinstance(op.target, str):
            yield op.target
    for holder in program.bodies:
        yield from holder.results
    for statement in program.statements:
        yield from statement.args


def shrink(failure, attempts=3):
    """Remove what the failure does not need. Independent work runs in varying order, so each try is repeated."""
    end = time.monotonic() + SHRINK_SECONDS
    is_shrinking = True
    while is_shrinking and time.monotonic() < end:
        is_shrinking = False
        for program in smaller(failure.program):
            if time.monotonic() > end:
                break
            try:
                expected = judge(program)
            except Illegal:
                continue
            found = next(filter(None, (run(program, expected, failure.mode) for _ in range(attempts))), None)
            if found is not None:
                failure, is_shrinking = found, True
                break
    return failure


def check_range(first, count, together=0):
    """Run programs from a seed on; return the report of the first that fails, shrunk, or None."""
    logger = logging.getLogger("hiprt.graphs")
    before = logger.level
    # What runs eagerly here was asked to, or is found by its reason.
    logger.setLevel(logging.CRITICAL)
    try:
        for seed in range(first, first + count):
            failure = check_together(seed, together) if together else check(seed)
            if failure is not None:
                again = f"python -m helpers.fuzz --seed {seed}" + (f" --together {together}" if together else "")
                return f"{shrink(failure) if not together else failure}\n\nagain, from tests/: {again}"
        return None
    finally:
        logger.setLevel(before)


def main():
    """Run the command line."""
    parser = argparse.ArgumentParser("helpers.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="the first program")
    parser.add_argument("--count", type=int, default=1, help="how many programs")
    parser.add_argument("--together", type=int, default=0, help="run so many at once")
    parser.add_argument("--show", action="store_true", help="print the first program and end")
    parser.add_argument("--keep-going", action="store_true", help="go on after a failure")
    options = parser.parse_args()
    if options.show:
        print(generate(options.seed)[0])
        return 0
    start, failed = time.monotonic(), 0
    for seed in range(options.seed, options.seed + options.count):
        failure = check_range(seed, 1, options.together)
        if failure is not None:
            failed += 1
            print(failure, end="\n\n", flush=True)
            if not options.keep_going:
                break
        if (seed + 1 - options.seed) % 1000 == 0:
            print(f"{seed + 1 - options.seed} programs, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    print(f"{seed + 1 - options.seed} programs, {failed} failed, {time.monotonic() - start:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
