"""The processes that measure, as the one that asks them sees them."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import tempfile
from dataclasses import asdict
from typing import Any

from hiprt.bench.check import CHILD, LAST_LINES, ended
from hiprt.bench.models.plan import Measurement, Settings
from hiprt.doctor import own_path

__all__ = ["PresetProcess", "PresetProcessError"]

WORKER = "hiprt.bench.models.worker"


class PresetProcessError(RuntimeError):
    """The process of a preset has ended, or does not answer."""


class PresetProcess:
    """The process of one preset.

    Parameters
    ----------
    preset : str
    settings : Settings
    module : str
        What it runs.
    """

    def __init__(self, preset: str, settings: Settings, module: str = WORKER) -> None:
        self.errors = tempfile.TemporaryFile("w+")
        arguments = (preset, *map(str, (settings.tokens, settings.repeat, int(settings.kernels))))
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-W", "ignore", "-c", CHILD, json.dumps(own_path()), module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def facts(self, seconds: float) -> dict[str, Any]:
        """Return what the process says when its weights are made; raises as `measure` does."""
        return self.answer(seconds)

    def measure(self, measurement: Measurement, seconds: float) -> dict[str, Any]:
        """Return the figures of a measurement.

        Raises
        ------
        ValueError
            It cannot be measured; the process goes on.
        PresetProcessError
            The process has ended, or has not answered in so many seconds and is ended.
        """
        assert self.process.stdin is not None
        try:
            print(json.dumps(asdict(measurement)), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            raise self.end() from None
        return self.answer(seconds)

    def answer(self, seconds: float) -> dict[str, Any]:
        """Return the next answer."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], max(0.0, seconds))[0]:
            self.close()
            raise PresetProcessError(f"it took more than {seconds:.0f} s")
        line = self.process.stdout.readline()
        if not line.endswith("\n"):
            raise self.end()
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise ValueError(found["error"])
        return dict(found["result"])

    def end(self) -> PresetProcessError:
        """Return how the process ended, with the last of what it wrote."""
        status = self.process.wait()
        self.errors.seek(0)
        last = "; ".join(line.strip() for line in self.errors.read().strip().splitlines()[-LAST_LINES:])
        self.close()
        return PresetProcessError(ended(status) + f" ({last})" * bool(last))

    def close(self) -> None:
        """End the process, and free what it has of the device."""
        if not self.errors.closed:
            self.process.kill()
            self.process.communicate()
            self.errors.close()
