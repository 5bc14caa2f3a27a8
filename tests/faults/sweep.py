"""The sweep: every call of every phase fails, in every way. `python -m faults.sweep FILE` writes what it found."""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from faults import mallocs, shim

TESTS = Path(__file__).resolve().parent.parent
STATUSES = (2, 719, 999, 1)  # out of memory, launch failure, unknown, invalid value
BURSTS = (1, 2, 3, 0)  # that many calls; 0: from then on
PHASES = ("kept", "recorded", "foreign", "pool", "unloading", "first")


class Worker:
    """A process that runs phases while HIP calls fail, or memory requests of the C core."""

    def __init__(self, folder, real, *, is_of_memory=False, **environment):
        self.command = [sys.executable, "-m", "faults.run", str(shim.make(folder, real)), str(real)]
        if is_of_memory:
            self.command.append("memory")
            environment["LD_PRELOAD"] = str(mallocs.make(folder))
        path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
        self.environment = {**os.environ, "PYTHONPATH": path, "HIPRT_PROVIDER": "cpu", **environment}
        self.process = subprocess.Popen(
            self.command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, *request):
        """Send a request and return the answer."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"{request}: the process ended with {self.process.wait()}"
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


def whole(worker, phase):
    """Let every call fail in every way, of the long phase one for each place; return the counts and what was wrong."""
    calls = worker.ask(phase)
    numbers = by_stack(calls, len(calls)) if phase == "first" else range(1, len(calls) + 1)
    faults, wrong, begin = 0, [], time.time()
    for n in numbers:
        for burst in BURSTS:
            for status in STATUSES[:3]:
                name, found = worker.ask(phase, n, burst, status)
                faults += 1
                wrong += [{"call": n, "name": name, "burst": burst, "status": status, "what": each} for each in found]
    return {"calls": len(calls), "faults": faults, "wrong": wrong, "seconds": round(time.time() - begin)}


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


def main(out):
    """Sweep all phases, plain and with each launch verified, and write the result."""
    from hiprt.provider import PACKAGE

    report = {
        "what": "single HIP calls fail, once, in bursts of 2 and 3 and from then on, with 3 statuses: no other result "
        "without an error, the same results afterwards in the same process, nothing lost",
        **machine(),
        "command": "python -m faults.sweep FILE",
        "plain": {},
        "verified": {},
    }
    real = PACKAGE / "cpu" / "libhiprt_cpu.so"
    for form, flag, phases in (("plain", "0", PHASES), ("verified", "1", ("kept", "recorded"))):
        with tempfile.TemporaryDirectory() as folder:
            worker = Worker(folder, real, HIPRT_GRAPH_VERIFY=flag)
            for phase in phases:
                report[form][phase] = whole(worker, phase)
                Path(out).write_text(json.dumps(report, indent=1) + "\n")
            worker.close()


if __name__ == "__main__":
    main(sys.argv[1])
