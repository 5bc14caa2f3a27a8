"""Processes that compile programs ahead: what one of them has compiled is in the cache on disk for all."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import TracebackType

from hiprt.code_folder import Source
from hiprt.compiler import compile_source

__all__ = ["CompilePool"]


class CompilePool:
    """Processes that compile programs for this thread's device; behind a ``with`` block they are gone.

    Parameters
    ----------
    jobs : int
        How many.
    """

    def __init__(self, jobs: int) -> None:
        resource_tracker.ensure_running()  # its start lets interrupts through again
        with without_interrupts():
            self.pool = multiprocessing.get_context("spawn").Pool(jobs)

    def __enter__(self) -> CompilePool:
        """Take the processes into a block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End them, also in the middle of a program."""
        self.pool.terminate()
        self.pool.join()

    def begin(self, sources: Sequence[Source]) -> Callable[[float], str]:
        """Begin to compile programs.

        Returns
        -------
        callable
            Waits for at most so many seconds; returns why one of them cannot be compiled, empty where all are, and
            raises TimeoutError where they are not done.
        """
        done = self.pool.apply_async(why_not, (list(sources),))

        def wait(seconds: float) -> str:
            try:
                return done.get(seconds)
            except multiprocessing.TimeoutError:
                raise TimeoutError(f"the programs are not compiled after {seconds} s") from None

        return wait


def why_not(sources: Sequence[Source]) -> str:
    """Compile programs in a process of the pool; return why one cannot be compiled, or nothing."""
    try:
        for text, name, options, expressions in sources:
            compile_source(text, name, options=options, expressions=expressions)
    except Exception as error:
        return str(error) or type(error).__name__
    return ""


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Leave Ctrl-C to this process's main thread: processes and threads that begin in the block never see it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
