"""Run the tests of a checkout of MLX or mlx-lm with hiprt as mlx.core, and compare with the list of what passes.

``python tests/mlx/run.py DIR`` takes a checkout that the user has; nothing of it is kept. Each file runs in processes
of its own, with a limit of memory, and of time for each test. The lists beside this file, ``mlx.txt`` and
``mlx_lm.txt``, have a line for each test: its name, and for one that fails, why. A test that has passed once must go on
to pass; ``--update`` adds those that pass for the first time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import unittest
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
# The files whose tests are about what a decode runtime does.
FILES = {
    "mlx": (
        "array bf16 compile constants device double einsum eval export_import fast fast_sdpa init load memory nn ops "
        "quantized random reduce threads tree zero_copy"
    ),
    "mlx_lm": "generate models prompt_cache sample_utils utils",
}
# What an error says, and the reason that stands in the list for it.
REASONS = (
    (r"not part of a decode runtime", "not part of a decode runtime"),
    (r"\b(grad|vjp|jvp|vmap|value_and_grad)\b", "needs autograd"),
    (r"has no attribute '(\w+)'", r"there is no \1"),
    (r"(HTTP|Connection|offline|huggingface|LocalEntryNotFound|snapshot)", "needs a network"),
    (r"float64", "there are no kernels for float64"),
)
LINE = re.compile(r"^(\S+)(?:  (fails|is skipped): (.*))?$")


def main() -> int:
    """Run what was asked for; 1 if a test fails that passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR", help="a checkout of MLX or mlx-lm")
    parser.add_argument("files", nargs="*", metavar="FILE", help="only these: array for test_array.py")
    parser.add_argument("--update", action="store_true", help="write new names, and what newly passes, to the list")
    parser.add_argument("--seconds", type=float, default=120, help="the limit of a test (default: 120)")
    parser.add_argument("--memory", type=float, default=16, help="the limit of a process, in GiB (default: 16)")
    parser.add_argument("--own", action="store_true", help="run with MLX's own core, to see what fails there")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options.folder, options.child)
    kind = "mlx_lm" if (options.folder / "mlx_lm").is_dir() else "mlx"
    if kind == "mlx_lm":
        # The tests find a small model of random weights where they would download one.
        import stand_in

        with tempfile.TemporaryDirectory() as cache:
            stand_in.make(Path(cache))
            os.environ["HF_HUB_CACHE"] = cache
            return run(kind, options, parser)
    return run(kind, options, parser)


def run(kind: str, options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Run the tests of a checkout of a kind; 1 if a test fails that passed."""
    tests = options.folder.resolve() / ("tests" if kind == "mlx_lm" else "python/tests")
    if not tests.is_dir():
        parser.error(f"{options.folder} is no checkout of MLX or mlx-lm: it has no {tests.name}")
    listed = read_list(HERE / f"{kind}.txt")
    found: dict[str, tuple[str, str]] = {}
    for name in options.files or FILES[kind].split():
        begun, results = time.monotonic(), results_of(tests / f"test_{name}.py", options)
        counts = Counter(outcome for outcome, _ in results.values())
        print(f"test_{name}: {counts['passes']} of {len(results)} pass, {time.monotonic() - begun:.0f} s", flush=True)
        found |= results
    if options.own:
        for name, (outcome, text) in found.items():
            if outcome == "fails":
                print(f"{name}  {outcome}: {last_line(text)}")
        return 0
    return compare(HERE / f"{kind}.txt", listed, found, options.update)


def results_of(file: Path, options: argparse.Namespace) -> dict[str, tuple[str, str]]:
    """Return what became of each test of a file: passes, fails or is skipped, and the text of its error."""
    results: dict[str, tuple[str, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        log.touch()
        while True:
            outcome = attempt(file, log, options)
            running = ""
            for event in map(json.loads, log.read_text().splitlines()):
                if event[0] == "begins":
                    running = event[1]
                else:
                    results[event[1]] = (event[0], event[2])
                    running = ""
            if not running:
                if outcome and not results:
                    results[f"{file.stem}.import"] = ("fails", outcome)
                return results
            # The process ended within a test: that one fails, and the others run in another process.
            results[running] = ("fails", outcome or "the process ended")
            with log.open("a") as to:
                to.write(json.dumps(["fails", running, outcome]) + "\n")


def attempt(file: Path, log: Path, options: argparse.Namespace) -> str:
    """Run a process over the tests that the log has not; return how it ended if not well."""
    command = [sys.executable, *(() if options.own else ("-m", "hiprt", "run")), str(HERE / "run.py")]
    limit = int(options.memory * 2**30)
    root = str(HERE.parents[1])
    path = os.pathsep.join([str(file.parents[1]), *([] if options.own else [root]), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [*command, str(file), "--child", str(log)],
            cwd=file.parent,
            env=os.environ | {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1"},
            stdout=said,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        )
        size, since = 0, time.monotonic()
        while process.poll() is None:
            time.sleep(0.1)
            if log.stat().st_size != size:
                size, since = log.stat().st_size, time.monotonic()
            if time.monotonic() - since > options.seconds:
                process.kill()
                process.wait()
                return f"it ran longer than {options.seconds:.0f} s"
        said.seek(0)
        text = said.read().strip()
    return "" if process.returncode == 0 else f"status {process.returncode}: {text[-2000:]}"


class Log(unittest.TestResult):
    """Writes what becomes of tests to a file as it happens.

    Parameters
    ----------
    file : Path
    """

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file, self.outcome = file, ("passes", "")

    def write(self, *event: str) -> None:
        """Write a line."""
        with self.file.open("a") as to:
            to.write(json.dumps(event) + "\n")

    def startTest(self, test: unittest.TestCase) -> None:
        """Note that a test begins."""
        super().startTest(test)
        self.outcome = ("passes", "")
        self.write("begins", test.id())

    def stopTest(self, test: unittest.TestCase) -> None:
        """Note what became of it."""
        super().stopTest(test)
        self.write(self.outcome[0], test.id(), self.outcome[1])

    def addError(self, test, err) -> None:  # type: ignore[no-untyped-def]
        """Note an error, also of what a class of tests prepares."""
        text = self._exc_info_to_string(err, test)  # type: ignore[attr-defined]
        self.outcome = ("fails", text)
        if not isinstance(test, unittest.TestCase):
            self.write("fails", re.sub(r"^(\w+) \((.*)\)$", r"\2.\1", test.id()), text)

    addFailure = addError

    def addSubTest(self, test, subtest, err) -> None:  # type: ignore[no-untyped-def]
        """Note that a part of a test failed."""
        if err is not None:
            self.addError(test, err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        """Note that a test skips itself."""
        self.outcome = ("is skipped", reason)


def child(file: Path, log: Path) -> int:
    """Run the tests of a file that the log has not."""
    done = {event[1] for event in map(json.loads, log.read_text().splitlines()) if event[0] != "begins"}
    sys.path.insert(0, str(file.parent))
    suite = unittest.defaultTestLoader.loadTestsFromName(file.stem)
    left = unittest.TestSuite(test for test in each_of(suite) if test.id() not in done)
    unittest.TestSuite([left]).run(Log(log))
    return 0


def each_of(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """Return the tests in a suite of suites; a file that cannot be imported raises."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from each_of(test)
        elif test.id().startswith("unittest.loader"):
            test.debug()
        else:
            yield test


def read_list(file: Path) -> dict[str, tuple[str, str]]:
    """Return the outcome and the reason of each test of a list."""
    lines = file.read_text().splitlines() if file.exists() else []
    found = [LINE.match(line) for line in lines if line and not line.startswith("#")]
    return {match[1]: (match[2] or "passes", match[3] or "") for match in found if match}


def last_line(text: str) -> str:
    """Return what an error says, in a line."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(" ")]
    return " ".join((lines or [""])[-1].split())[:110]


def reason_of(text: str) -> str:
    """Return why a test fails, for the list."""
    said = last_line(text)
    for pattern, reason in REASONS:
        match = re.search(pattern, said)
        if match:
            return match.expand(reason)
    return said


def compare(file: Path, listed: dict[str, tuple[str, str]], found: dict[str, tuple[str, str]], is_update: bool) -> int:
    """Say what is not as the list has it, and write the list anew if asked to; 1 if a test fails that passed."""
    fallen = [name for name in found if listed.get(name, ("",))[0] == "passes" and found[name][0] == "fails"]
    risen = [name for name in found if listed.get(name, ("",))[0] != "passes" and found[name][0] == "passes"]
    new = [name for name in found if name not in listed and found[name][0] != "passes"]
    for name in fallen:
        print(f"\n{name} passed and fails:\n{found[name][1]}")
    for name in risen:
        print(f"{name} passes and is not in the list as passing")
    for name in new:
        print(f"{name} {found[name][0]} and is not in the list: {last_line(found[name][1])}")
    counts = Counter(outcome for outcome, _ in found.values())
    print(f"{counts['passes']} pass, {counts['fails']} fail, {counts['is skipped']} are skipped; {len(fallen)} fell")
    if is_update:
        for name, (outcome, text) in found.items():
            if name in fallen:
                continue
            # A reason that somebody wrote stays.
            if outcome != "passes" and listed.get(name, ("",))[0] == outcome:
                continue
            listed[name] = (outcome, "" if outcome == "passes" else reason_of(text))
        lines = [name if kind == "passes" else f"{name}  {kind}: {why}" for name, (kind, why) in sorted(listed.items())]
        file.write_text("\n".join(lines) + "\n")
    return 1 if fallen else 0


if __name__ == "__main__":
    sys.exit(main())
