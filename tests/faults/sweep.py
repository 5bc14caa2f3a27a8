"""The sweep: calls of every phase fail, in every way. `python -m faults.sweep FILE [FORM/PHASE…]` writes what it found.

It goes on where it was when it is started again with the same file, also after Ctrl-C. With ``--places``, calls that
come from the same place of the program stand for each other.
"""

import argparse
import json
import os
import platform
import select
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path

from faults import mallocs, shim

from hiprt.provider import PACKAGE

TESTS = Path(__file__).resolve().parent.parent
STATUSES = (2, 719, 999, 1)  # out of memory, launch failure, unknown, invalid value
BURSTS = (1, 2, 3, 0)  # that many calls; 0: from then on
PHASES = ("kept", "recorded", "foreign", "pool", "unloading", "upload", "compiled", "lazy", "once", "first")
FORMS = {"plain": "0", "verified": "1"}  # HIPRT_GRAPH_VERIFY
SECONDS = 300  # after which a process that does not answer hangs


class EndedError(Exception):
    """A process did not answer: it hangs, or has ended."""


class Worker:
    """A process that runs phases while HIP calls fail, or memory requests of the C core."""

    def __init__(self, folder, real, *, is_of_memory=False, **environment):
        self.command = [sys.executable, "-m", "faults.run", str(shim.make(folder, real)), str(real)]
        if is_of_memory:
            self.command.append("memory")
            environment["LD_PRELOAD"] = str(mallocs.make(folder))
        path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
        self.environment = {**os.environ, "PYTHONPATH": path, "HIPRT_PROVIDER": "cpu", **environment}
        self.start()

    def start(self):
        """Start the process."""
        self.process = subprocess.Popen(
            self.command,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the sweep, which ends its processes itself.
        )

    def ask(self, *request):
        """Send a request and return the answer."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], SECONDS)[0]:
            self.process.kill()
            raise EndedError(f"no answer within {SECONDS} s")
        answer = self.process.stdout.readline()
        if not answer:
            raise EndedError(f"the process ended with {self.process.wait()}")
        return json.loads(answer)

    def close(self):
        """End the process."""
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def by_stack(calls, count):
    """Return the numbers of at most `count` calls, each from another place of the program, spread over all of those."""
    places = {}
    for n, (name, stack) in enumerate(calls, 1):
        places.setdefault((name, *stack), n)
    numbers = sorted(places.values())
    return [numbers[i * len(numbers) // count] for i in range(count)] if count < len(numbers) else numbers


def ways(n):
    """Return the way in which the n-th fault of a short form happens: burst and status, all in turn."""
    return BURSTS[n % 4], STATUSES[n // 4 % 4]


class Part:
    """What a sweep of one phase has found, and the calls that are left, which several processes share.

    Parameters
    ----------
    found : dict
        The part of a report; what an earlier run of the same sweep wrote, or empty.
    only_places : bool
        Whether one call for each place of the program is enough.
    """

    def __init__(self, name, found, *, only_places):
        self.form, self.phase = name.split("/")
        self.found, self.only_places = found, only_places
        self.lock, self.taken = threading.Lock(), set()

    def begin(self, worker):
        """List the calls of the phase, where no run has done so; each process runs the phase once for that."""
        calls = worker.ask(self.phase)
        with self.lock:
            if "left" not in self.found:
                left = by_stack(calls, len(calls)) if self.only_places else list(range(1, len(calls) + 1))
                swept = "one call of each place" if self.only_places else "every call"
                self.found |= {"what": swept, "calls": len(calls), "swept": len(left)}
                self.found |= {"faults": 0, "wrong": [], "seconds": 0, "left": left}

    def take(self):
        """Return a call that no process has taken; None if there is none."""
        with self.lock:
            number = next((n for n in self.found.get("left", ()) if n not in self.taken), None)
            self.taken.add(number)
            return number

    def add(self, number, faults, wrong, seconds):
        """Note what one call's faults have found."""
        with self.lock:
            self.found["faults"] += faults
            self.found["wrong"] += wrong
            self.found["seconds"] = round(self.found["seconds"] + seconds, 1)
            self.found["left"].remove(number)


class Sweep:
    """Parts that processes sweep side by side until all is done, or until they are told to stop."""

    def __init__(self, parts, save):
        self.parts, self.save = parts, save
        self.stopped = threading.Event()

    def fail(self, worker, part, number):
        """Let one call fail in every way; returns how many ways, and what was wrong."""
        wrong, ways = [], [(burst, status) for burst in BURSTS for status in STATUSES[:3]]
        for burst, status in ways:
            if self.stopped.is_set():
                return None
            try:
                name, found = worker.ask(part.phase, number, burst, status)
            except EndedError as error:
                name, found = "unknown", [str(error)]
                worker.start()
            fault = {"call": number, "name": name, "burst": burst, "status": status}
            wrong += [{**fault, "what": each} for each in found]
        return len(ways), wrong

    def run(self):
        """Work in one process after another, one for each part that has calls left."""
        for part in self.parts:
            if self.stopped.is_set() or part.found.get("left") == []:
                continue
            with tempfile.TemporaryDirectory() as folder:
                worker = Worker(folder, PACKAGE / "cpu" / "libhiprt_cpu.so", HIPRT_GRAPH_VERIFY=FORMS[part.form])
                part.begin(worker)
                while not self.stopped.is_set() and (number := part.take()) is not None:
                    begin = time.monotonic()
                    if found := self.fail(worker, part, number):
                        part.add(number, *found, time.monotonic() - begin)
                        self.save()
                worker.close()

    def run_all(self, jobs, seconds):
        """Run that many processes; they stop after some seconds, or at Ctrl-C, with what they have done noted."""
        with ThreadPoolExecutor(jobs) as pool:
            done = [pool.submit(self.run) for _ in range(jobs)]
            try:
                wait(done, seconds, FIRST_EXCEPTION)
            finally:
                self.stopped.set()
        for each in done:
            each.result()


def machine():
    """Return where and when this runs, and what."""
    import hiprt

    command = ["git", "-C", str(TESTS), "rev-parse", "--short", "HEAD"]
    return {
        "date": time.strftime("%Y-%m-%d"),
        "commit": subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip(),
        "machine": f"{os.cpu_count()} cores, {platform.platform()}, Python {platform.python_version()}",
        "hiprt": hiprt.__version__,
    }


def main():
    """Sweep phases, plain and with each launch verified, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    every = [f"{form}/{phase}" for form in FORMS for phase in PHASES]
    parser.add_argument("parts", nargs="*", metavar="FORM/PHASE", help=f"of {', '.join(every)}; all by default")
    parser.add_argument("--places", action="store_true", help="one call for each place of the program")
    parser.add_argument("--jobs", type=int, default=1, help="processes that sweep side by side")
    parser.add_argument("--seconds", type=float, help="stop after that time, with what is done written")
    asked = parser.parse_intermixed_args()
    if asked.file.exists():
        report = json.loads(asked.file.read_text())
    else:
        report = {
            "what": "HIP calls fail, once, in bursts of 2 and 3 and from then on, with 3 statuses: no other result "
            "without an error, the same results afterwards in the same process, nothing lost",
            **machine(),
            "parts": {},
        }
    parts = [
        Part(name, report["parts"].setdefault(name, {}), only_places=asked.places) for name in asked.parts or every
    ]
    lock = threading.Lock()

    def save():
        written = asked.file.with_suffix(".part")
        with lock, ExitStack() as held:
            for part in parts:
                held.enter_context(part.lock)
            written.write_text(json.dumps(report, indent=1) + "\n")
            written.replace(asked.file)

    Sweep(parts, save).run_all(asked.jobs, asked.seconds)


if __name__ == "__main__":
    main()
