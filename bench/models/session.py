"""A run of the measurements: a process for each preset, a file written after each measurement, an end in time."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from hiprt.bench.models.plan import START, Measurement, expected, needed, planned, weights
from hiprt.bench.models.process import PresetProcess, PresetProcessError
from hiprt.bench.models.report import Report, figure

__all__ = ["Session"]

MOST_SECONDS = 1800.0  # of one measurement
ROOM = 1.2  # of memory for what is not weights, keys and values


class Session:
    """A run.

    Parameters
    ----------
    report : Report
        What is known so far; the run adds to it.
    path : Path
        The file, which is written after each measurement.
    memory : int
        The bytes of the device.
    budget : float, optional
        The seconds that it may take. What is worth most comes first then, of all presets.
    start : callable, optional
        Makes the process of a preset.
    """

    def __init__(
        self,
        report: Report,
        path: Path,
        memory: int,
        budget: float | None = None,
        start: Callable[..., PresetProcess] = PresetProcess,
    ) -> None:
        self.report, self.path, self.memory, self.budget, self.start = report, path, memory, budget, start
        self.processes: dict[str, PresetProcess] = {}
        self.sizes: dict[str, float] = {}  # bytes of the most that each of them has been asked for
        self.begin = time.monotonic()
        self.starts: list[float] = []  # seconds of the starts of processes
        self.paces: list[float] = []  # how many times as long as expected each measurement took

    @property
    def seconds(self) -> float:
        """How long the run has taken so far."""
        return time.monotonic() - self.begin

    @property
    def over(self) -> str:
        """Why something is left out for which there is no time."""
        return f"the budget of {self.budget} s"

    def run(self) -> None:
        """Measure what is not in the report yet."""
        before, report = self.report.seconds, self.report
        report.failed, report.left_out, report.is_interrupted = {}, [], False
        left = planned(report.settings, is_by_worth=self.budget is not None)
        left = [each for each in left if report.result(each) is None]
        number = 0
        try:
            while left:
                measurement = left.pop(0)
                number += 1
                if not self.is_left_out(measurement):
                    self.line(f"{number} of {number + len(left)}  {measurement.text} ... ", end="")
                    said = self.take(measurement)
                    self.line(said + self.time_left([each for each in left if each.preset not in report.failed]))
                left = [each for each in left if each.preset not in report.failed]
                if measurement.preset not in {each.preset for each in left}:
                    self.put_away(measurement.preset)
                report.seconds = round(before + self.seconds, 1)
                report.write(self.path)
        except KeyboardInterrupt:
            report.is_interrupted = True
            self.line("interrupted; what was done is kept")
        finally:
            for preset in list(self.processes):
                self.put_away(preset)
        report.seconds = round(before + self.seconds, 1)
        report.write(self.path)

    def is_left_out(self, measurement: Measurement) -> bool:
        """Whether there is no memory or no time for a measurement, as far as is known; the report then says so."""
        report, preset = self.report, measurement.preset
        seconds = self.seconds + (self.expected([measurement]) if self.paces else 0.0)
        if weights(preset) > self.memory:
            report.give_up(preset, self.short_of(weights(preset)))
        elif needed(measurement) > self.memory:
            report.leave_out(measurement, self.short_of(needed(measurement)))
        elif self.budget is not None and seconds >= self.budget:
            report.leave_out(measurement, self.over)
        else:
            return False
        return True

    def take(self, measurement: Measurement) -> str:
        """Take one measurement into the report; return what the progress says of it."""
        report, preset = self.report, measurement.preset
        try:
            process = self.process(measurement)
            begin = self.seconds
            found = process.measure(measurement, self.most_seconds())
        except ValueError as error:
            return report.leave_out(measurement, str(error))
        except PresetProcessError as error:
            self.put_away(preset)
            if self.budget is not None and self.seconds >= self.budget:
                return report.leave_out(measurement, self.over)
            return report.give_up(preset, str(error))
        self.paces.append((self.seconds - begin) / expected(measurement, report.settings))
        return figure(report.add(measurement, found))

    def process(self, measurement: Measurement) -> PresetProcess:
        """Return the process of a preset; where memory is short, those of others end first."""
        preset = measurement.preset
        self.sizes[preset] = max(self.sizes.get(preset, 0.0), needed(measurement))
        for other in [each for each in self.processes if each != preset]:
            if ROOM * sum(self.sizes[each] for each in {*self.processes, preset}) > self.memory:
                self.put_away(other)
        if preset not in self.processes:
            begin = self.seconds
            self.processes[preset] = self.start(preset, self.report.settings)
            try:
                self.report.presets[preset] = self.processes[preset].facts(self.most_seconds())
            except ValueError as error:
                raise PresetProcessError(str(error)) from None
            self.starts.append(self.seconds - begin)
        return self.processes[preset]

    def put_away(self, preset: str) -> None:
        """End the process of a preset."""
        self.sizes.pop(preset, None)
        process = self.processes.pop(preset, None)
        if process is not None:
            process.close()

    def expected(self, left: list[Measurement]) -> float:
        """Return the seconds that measurements will take with their processes, by what those before took."""
        each = statistics.median(self.paces) if self.paces else 1.0
        start = statistics.median(self.starts) if self.starts else START
        fresh = {measurement.preset for measurement in left} - self.processes.keys()
        return each * sum(expected(measurement, self.report.settings) for measurement in left) + start * len(fresh)

    def most_seconds(self) -> float:
        """Return how long the next answer may take."""
        return MOST_SECONDS if self.budget is None else self.budget - self.seconds

    def time_left(self, left: list[Measurement]) -> str:
        """Return how long the rest will take as far as is known."""
        if not left or not self.paces:
            return ""
        seconds = self.expected(left)
        if self.budget is not None:
            seconds = min(seconds, max(0.0, self.budget - self.seconds))
        minutes, rest = divmod(round(seconds), 60)
        return f"   {minutes} min {rest} s left"

    def short_of(self, nbytes: float) -> str:
        """Return why the device's memory is too small."""
        return f"it needs {nbytes / 1e9:.1f} GB, the device has {self.memory / 1e9:.1f}"

    def line(self, text: str, end: str = "\n") -> None:
        """Show progress."""
        print(text, end=end, file=sys.stderr, flush=True)
