"""The sweep: calls of every phase fail, in every way. `python -m faults.sweep FILE [FORM/PHASE…]` writes what it found.

It goes on where it was when it is started again with the same file. With ``--places``, calls that come from the same
place of the program stand for each other.
"""

import argparse
import json
import os
import platform
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from faults import mallocs, shim

TESTS = Path(__file__).resolve().parent.parent
STATUSES = (2, 719, 999, 1)  # out of memory, launch failure, unknown, invalid value
BURSTS = (1, 2, 3, 0)  # that many calls; 0: from then on
PHASES = ("kept", "recorded", "foreign", "pool", "unloading", "upload", "compiled", "lazy", "first")
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
            self.command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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


def sweep(worker, phase, part, save, *, only_places):
    """Let calls fail in every way, and add to the part of a report what was wrong.

    Parameters
    ----------
    part : dict
        What an earlier run of the same sweep has found, or empty.
    save : callable
        Called after each call.
    only_places : bool
        Whether one call for each place is enough.
    """
    calls, begin = worker.ask(phase), time.time() - part.get("seconds", 0)
    numbers = by_stack(calls, len(calls)) if only_places else list(range(1, len(calls) + 1))
    part.setdefault("calls", len(calls))
    part.setdefault("swept", len(numbers))
    for key, value in (("faults", 0), ("wrong", []), ("next", 0)):
        part.setdefault(key, value)
    for n in numbers[part["next"] :]:
        for burst in BURSTS:
            for status in STATUSES[:3]:
                try:
                    name, found = worker.ask(phase, n, burst, status)
                except EndedError as error:
                    name, found = calls[n - 1][0], [str(error)]
                    worker.start()
                part["faults"] += 1
                part["wrong"] += [
                    {"call": n, "name": name, "burst": burst, "status": status, "what": each} for each in found
                ]
        part["next"] += 1
        part["seconds"] = round(time.time() - begin)
        save()
    part["is_whole"] = True
    save()


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
    every = [f"plain/{phase}" for phase in PHASES] + ["verified/kept", "verified/recorded"]
    parser.add_argument("parts", nargs="*", metavar="FORM/PHASE", help=f"of {', '.join(every)}; all by default")
    parser.add_argument("--places", action="store_true", help="one call for each place of the program")
    asked = parser.parse_intermixed_args()
    report = {
        "what": "single HIP calls fail, once, in bursts of 2 and 3 and from then on, with 3 statuses: no other result "
        "without an error, the same results afterwards in the same process, nothing lost",
        **machine(),
        "command": "python -m faults.sweep FILE" + " --places" * asked.places,
        "parts": {},
    }
    if asked.file.exists():
        report = json.loads(asked.file.read_text())

    def save():
        asked.file.write_text(json.dumps(report, indent=1) + "\n")

    from hiprt.provider import PACKAGE

    for name in asked.parts or every:
        form, phase = name.split("/")
        part = report["parts"].setdefault(name, {})
        if part.get("is_whole"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            worker = Worker(folder, PACKAGE / "cpu" / "libhiprt_cpu.so", HIPRT_GRAPH_VERIFY=FORMS[form])
            # Of the long phase most calls are the same ones again and again.
            sweep(worker, phase, part, save, only_places=asked.places or phase == "first")
            worker.close()


if __name__ == "__main__":
    main()
