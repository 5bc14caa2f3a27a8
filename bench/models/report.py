"""What was measured: the file, and how a run of before is read again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from hiprt.bench.check import write
from hiprt.bench.models.plan import Measurement, Settings

__all__ = ["WHAT", "Report", "figure", "is_replayed", "key"]

WHAT = "hiprt bench models"
Result = dict[str, Any]


@dataclass
class Report:
    """A run.

    Attributes
    ----------
    machine : dict
        What `hiprt.machine.machine` says.
    settings : Settings
    presets : dict
        Of each preset the bytes of weights that a step of one text reads, the read bandwidth, and the seconds in which
        its weights were made.
    measurements : list of dict
        The fields of each `Measurement`, and its figures.
    failed : dict of str to str
        Why a preset was given up.
    left_out : list of dict
        The fields of each `Measurement` that was not made, and the reason.
    is_interrupted : bool
    seconds : float
        How long all took.
    """

    machine: dict[str, Any]
    settings: Settings
    presets: dict[str, dict[str, Any]] = field(default_factory=dict)
    measurements: list[Result] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    left_out: list[Result] = field(default_factory=list)
    is_interrupted: bool = False
    seconds: float = 0.0

    @classmethod
    def read(cls, path: Path) -> Report:
        """Return the run of a file.

        Raises
        ------
        ValueError
            It is not a file of this benchmark.
        """
        try:
            found = json.loads(path.read_text())
            if found.pop("what") != WHAT:
                raise ValueError
            settings = Settings(**{name: told(value) for name, value in found.pop("settings").items()})
            own = {each.name: found.pop(each.name) for each in fields(cls) if each.name not in ("machine", "settings")}
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ValueError(f"{path} is no file of {WHAT}") from None
        return cls(found, settings, **own)

    def as_dict(self) -> dict[str, Any]:
        """Return what the file holds."""
        found = asdict(self)
        return {"what": WHAT, **found.pop("machine"), **found}

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        write(path, self.as_dict())

    def result(self, measurement: Measurement) -> Result | None:
        """Return the figures of a measurement; None where there are none."""
        return next((each for each in self.measurements if key(each) == key(vars(measurement))), None)

    def add(self, measurement: Measurement, found: Result) -> Result:
        """Take the figures of a measurement, and those of how it compares with the same of one text."""
        result = {**vars(measurement), **found}
        self.measurements.append(result)
        self.compare_with_one(result)
        return result

    def compare_with_one(self, result: Result) -> None:
        """Add how many times as long as a step of one text a step of several takes, where both are in the run."""
        alike = [each for each in self.measurements if apart_from_batch(each) == apart_from_batch(result)]
        one = next((each for each in alike if each["batch"] == 1), None)
        if one is None or result["mode"] == "prompt":
            return
        for each in alike:
            if each["batch"] > 1:
                each["step_over_one"] = round(each["us_per_step"] / one["us_per_step"], 4)

    def give_up(self, preset: str, reason: str) -> str:
        """Say that nothing more of a preset is measured; return what the progress says."""
        self.failed[preset] = reason
        return f"FAILED, and with it the rest of {preset}: {reason}"

    def leave_out(self, measurement: Measurement, reason: str) -> str:
        """Say that a measurement is not made; return what the progress says."""
        self.left_out.append({**vars(measurement), "reason": reason})
        return f"left out: {reason}"


def told(value: Any) -> Any:
    """Return a setting of a file as `Settings` has it."""
    return tuple(value) if isinstance(value, list) else value


def key(result: Result) -> tuple[Any, ...]:
    """Return what a measurement is known by."""
    return tuple(result[each.name] for each in fields(Measurement))


def apart_from_batch(result: Result) -> tuple[Any, ...]:
    """Return what measurements share that differ in how many texts a step has."""
    return result["preset"], result["mode"], result["context"]


def figure(result: Result) -> str:
    """Return the most important figure of a measurement, with a sign where not all of it was a replay."""
    told = f"{result['tok_s']:,.0f} tok/s" if "tok_s" in result else f"{result['first_token_ms']:.1f} ms"
    return told if is_replayed(result) else f"{told}, not all of it replayed: {result['rungs']}"


def is_replayed(result: Result) -> bool:
    """Whether each step was a replay; eager steps are none, as is asked of them."""
    return result["mode"] == "eager" or not any(count for rung, count in result["rungs"].items() if rung != "replay")
