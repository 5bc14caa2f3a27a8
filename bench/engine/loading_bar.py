"""The bar on a terminal that shows how far the loading of a model is, where that takes long."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

__all__ = ["LoadingBar"]

PATIENCE = 2.0  # seconds without a bar


class LoadingBar:
    """Called with how many bytes are loaded, and how many there are, it shows that after a while; it goes at the end.

    Where the standard error is no terminal it shows nothing. Used in a ``with`` statement.
    """

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.is_shown = sys.stderr.isatty()
        self.bar: Any = None

    def __call__(self, loaded: int, nbytes: int) -> None:
        """Show how far it is."""
        if not self.is_shown or (self.bar is None and time.monotonic() - self.begun < PATIENCE):
            return
        if self.bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

            columns = "loading", BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self.bar.add_task("loading", total=nbytes)
            self.bar.start()
        self.bar.update(self.bar.task_ids[0], completed=loaded)

    def __enter__(self) -> LoadingBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None
