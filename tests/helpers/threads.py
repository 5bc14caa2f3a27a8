"""Random programs over several threads and streams, held against numpy.

From tests/: ``python -m helpers.threads --seed 7`` runs one program again, ``--count N`` runs N from there on,
``--profiles FILE`` runs N under each profile of the CPU device and writes what came of it, and ``--loose`` lets the
order of streams go, to see that programs notice.

Threads take turns to issue the statements of a program, so that its order is known, and nothing else orders them: no
thread waits for the device, but where a statement reads on the host. Each thread changes between streams.
"""

import argparse
import ctypes
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

import hiprt
from helpers import fuzz
from hiprt import _core, graphs, kernels
from hiprt.allocator import default_pool
from hiprt.machine import machine

THREADS, STREAMS, ARRAYS, SIZE, STATEMENTS = 4, 4, 5, 48, 40
LAG = 1 << 15  # elements of the work that makes a stream late


class Program:
    """One program: arrays, streams and steps that all its threads share.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = [f"seed {seed}"]
        self.streams = [None, *(hiprt.Stream() for _ in range(STREAMS))]  # None: the thread chooses no stream
        self.expected = [np.arange(SIZE, dtype=np.int32) * (i + 1) for i in range(ARRAYS)]
        self.arrays = [hiprt.array(value) for value in self.expected]
        self.steps = [self.make_step(i) for i in range(5)]
        self.problems = []

    def make_step(self, number):
        """Return a step, with what it does to the arrays that it is given: a, b and out."""
        own = self.streams[1 + number % STREAMS] if number % 2 else None
        function = {
            # Its intermediates lie in memory of the step's own, which calls on several streams share.
            0: lambda a, b, out: kernels.add(kernels.multiply(a, b), kernels.add(a, b), out=out),
            1: lambda a, b, out: kernels.add(kernels.add(a, b), kernels.add(b, b), out=out),
            2: lambda a, b, out: out.copy_from(kernels.add(a, b)),
            # The results are the step's own memory, which the caller reads on streams of its own.
            3: lambda a, b, out: kernels.multiply(kernels.add(a, b), b),
            4: lambda a, b, out: kernels.add(a, b),
        }[number]
        kinds = {"moves": number == 2, "keep": number not in (1, 4), "overwrite": number == 3}
        made = graphs.Step(function, name=f"step {number}", stream=own, **kinds)
        meaning = {
            0: lambda a, b: a * b + (a + b),
            1: lambda a, b: a + b + (b + b),
            2: lambda a, b: a + b,
            3: lambda a, b: (a + b) * b,
            4: lambda a, b: a + b,
        }[number]
        return made, meaning

    def some(self, count=1):
        """Return numbers of different arrays."""
        return self.random.sample(range(ARRAYS), count)

    def statements(self):
        """Yield (thread, stream, statement), the statements as functions; the lines say what they are."""
        kinds = (
            ["op"] * 5 + ["step"] * 6 + ["copy", "set", "read", "read", "renew", "fill", "part", "lag", "lag", "close"]
        )
        for _ in range(STATEMENTS):
            kind, thread = self.random.choice(kinds), self.random.randrange(THREADS)
            place = self.random.randrange(len(self.streams))
            statement = getattr(self, kind)()
            self.lines.append(f"thread {thread}, stream {place}: {kind} {statement[0]}")
            yield thread, place, statement[1]

    def op(self):
        """Compute one array from two."""
        a, b = self.some(2)
        out = self.random.choice([a, *self.some()])
        name = self.random.choice(["add", "multiply"])

        def run():
            value = getattr(np, name)(self.expected[a], self.expected[b])
            getattr(kernels, name)(self.arrays[a], self.arrays[b], out=self.arrays[out])
            self.expected[out] = value

        return f"{out} = {name}({a}, {b})", run

    def part(self):
        """Change a part of an array through a view."""
        a, b = self.some(2)
        begin = self.random.randrange(SIZE // 2)

        def run():
            view = self.arrays[a][begin : begin + 8]
            kernels.add(view, self.arrays[b][:8], out=view)
            self.expected[a] = self.expected[a].copy()
            self.expected[a][begin : begin + 8] += self.expected[b][:8]

        return f"{a}[{begin}:] += {b}[:8]", run

    def step(self):
        """Call a step."""
        number, (a, b, out) = self.random.randrange(len(self.steps)), self.some(3)
        step, meaning = self.steps[number]

        def run():
            value = meaning(self.expected[a], self.expected[b])
            result = step(self.arrays[a], self.arrays[b], self.arrays[out])
            if number in (3, 4):
                # On whatever stream the thread has, which need not be the step's.
                kernels.add(result, 1, out=self.arrays[out])
                value = value + 1
            self.expected[out] = value

        return f"{out} = step {number}({a}, {b})", run

    def copy(self):
        """Copy an array."""
        a, b = self.some(2)

        def run():
            self.arrays[b].copy_from(self.arrays[a])
            self.expected[b] = self.expected[a]

        return f"{b} = {a}", run

    def set(self):
        """Overwrite an array from the host."""
        (a,), value = self.some(), np.full(SIZE, self.random.randrange(100), np.int32)

        def run():
            self.arrays[a].set(value)
            self.expected[a] = value

        return f"{a} = {value[0]}", run

    def fill(self):
        """Fill an array."""
        (a,) = self.some()

        def run():
            self.arrays[a].fill_bytes(0)
            self.expected[a] = np.zeros(SIZE, np.int32)

        return f"{a} = 0", run

    def renew(self):
        """Drop an array that streams may be using, and make another, whose memory may be the same."""
        (a,) = self.some()

        def run():
            self.arrays[a] = None
            self.arrays[a] = hiprt.full(SIZE, a, np.int32)
            self.expected[a] = np.full(SIZE, a, np.int32)

        return f"{a} anew", run

    def read(self):
        """Read an array on the host."""
        (a,) = self.some()

        def run():
            self.check(a)

        return f"{a}", run

    def lag(self):
        """Make the stream late with work on memory that nothing else uses."""

        def run():
            mine = hiprt.zeros(LAG, np.int32)
            for _ in range(4):
                mine = kernels.add(mine, 1)

        return "", run

    def close(self):
        """Close a stream, and open another in its place."""
        place = self.random.randrange(1, len(self.streams))

        def run():
            fixed = [step for step, _ in self.steps if step.given is self.streams[place]]
            before, self.streams[place] = self.streams[place], hiprt.Stream()
            for step in fixed:
                step.stream = self.streams[place]
                step.forget()
            before.close()

        return f"stream {place}", run

    def check(self, a):
        """Compare an array with what it should be."""
        seen = self.arrays[a].numpy()
        if not np.array_equal(seen, self.expected[a]):
            self.problems.append(f"array {a} is {seen[:4]}…, it should be {self.expected[a][:4]}…")

    def run(self):
        """Run the program; return what went wrong, or None."""
        work = list(self.statements())
        turns = [threading.Event() for _ in range(len(work) + 1)]
        turns[0].set()

        def issue(thread):
            for i, (owner, place, statement) in enumerate(work):
                if owner != thread:
                    continue
                turns[i].wait()
                try:
                    if self.problems:
                        continue
                    stream = self.streams[place]
                    if stream is None:
                        statement()
                    else:
                        with hiprt.use_stream(stream):
                            statement()
                except Exception as error:
                    self.problems.append(f"statement {i}: {type(error).__name__}: {error}")
                finally:
                    turns[i + 1].set()

        threads = [threading.Thread(target=issue, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for a in range(ARRAYS):
            if not self.problems:
                self.check(a)
        for stream in self.streams[1:]:
            stream.close()
        return "\n".join([*self.lines, *self.problems]) if self.problems else None


def race(seed):
    """Let threads change arrays at once, without turns, on streams of their choice; return what went wrong, or None.

    The changes commute, so that each order of them gives the same.
    """
    streams = [None, *(hiprt.Stream() for _ in range(STREAMS))]
    arrays, counts = [hiprt.zeros(SIZE, np.int32) for _ in range(3)], [[0] * 3 for _ in range(THREADS)]
    step = graphs.Step(lambda x: kernels.add(kernels.add(x, 1), 1, out=x), name="race")
    problems, start = [], threading.Barrier(THREADS)

    def work(thread):
        chance = random.Random(f"{seed} {thread}")
        start.wait()
        try:
            for _ in range(12):
                a, stream = chance.randrange(3), chance.choice(streams)
                with hiprt.use_stream(stream or hiprt.current_stream()):
                    if chance.random() < 0.5:
                        kernels.add(arrays[a], 1, out=arrays[a])
                        counts[thread][a] += 1
                    else:
                        step(arrays[a])
                        counts[thread][a] += 2
        except Exception as error:
            problems.append(f"thread {thread}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for a, array in enumerate(arrays):
        seen, wanted = array.numpy(), sum(count[a] for count in counts)
        if not (seen == wanted).all():
            problems.append(f"array {a} is {seen[:4]}…, it should be {wanted}")
    for stream in streams[1:]:
        stream.close()
    return "\n".join([f"race, seed {seed}", *problems]) if problems else None


def check_range(first, count):
    """Run programs, every fifth a race; return how the first that failed did, or None."""
    for seed in range(first, first + count):
        failure = race(seed) if seed % 5 == 4 else Program(seed).run()
        if seed % 50 == 49:
            default_pool.trim()
        if failure is not None:
            return f"{failure}\n\nagain, from tests/: python -m helpers.threads --seed {seed}"
    return None


def under_profiles(first, count, file):
    """Run programs under each profile, each in a process of its own, and write the counts; whether one failed."""
    report = {
        "what": "random programs over 4 threads and 5 streams, every fifth a race without turns: graphs, eager "
        "launches, copies and memory give numpy's bits",
        "machine": machine(),
        "command": f"python -m helpers.threads --seed {first} --count {count} --profiles FILE",
        "programs": 0,
        "failed": 0,
        "profiles": {},
    }
    for profile in ("", *fuzz.PROFILES):
        environment = {**os.environ, "HIPRT_CPU_PROFILE": profile}
        command = [sys.executable, "-m", "helpers.threads", "--seed", str(first), "--count", str(count)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        print(profile or "none", done.stdout[-6000:], done.stderr[-6000:], flush=True)
        first += count
        # A process that dies has failed once at least.
        failed = int(done.stdout.split()[-4]) if done.returncode in (0, 1) and done.stdout else 1
        report["programs"] += count
        report["failed"] += failed
        report["profiles"][profile or "none"] = {"programs": count, "failed": failed}
        Path(file).write_text(json.dumps(report, indent=1) + "\n")
    return report["failed"] > 0


def main():
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--loose", action="store_true", help="streams do not wait for each other")
    parser.add_argument("--profiles", metavar="FILE", help="run as many under each profile, and write the counts")
    options = parser.parse_args()
    if options.profiles:
        return under_profiles(options.seed, options.count, options.profiles)
    hiprt.zeros(1)  # opens the library
    if options.loose:
        assert ctypes.CDLL(_core.__file__).hiprt_test_disable(b"order") == 0
    begin, failed = time.perf_counter(), 0
    for seed in range(options.seed, options.seed + options.count):
        failure = check_range(seed, 1)
        if failure is not None:
            failed += 1
            print(failure, flush=True)
    print(f"{options.count} programs, {failed} failed, {time.perf_counter() - begin:.1f} s")
    return failed > 0


if __name__ == "__main__":
    raise SystemExit(main())
