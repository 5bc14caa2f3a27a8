"""Finite: a check, on the device, that what was loaded holds no NaN and no infinity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hiprt import Array, kernels, zeros

__all__ = ["Finite"]

ROOM = 1024  # answers that are read from the device at once


class Finite:
    """Asks of arrays whether all their values are finite, and reads the answers later.

    Attributes
    ----------
    asked : list of (sequence of str)
        The names of what each array was made of.
    answers : list of Array of bool, shape (ROOM,)
    """

    def __init__(self) -> None:
        self.asked: list[Sequence[str]] = []
        self.answers: list[Array] = []

    def ask(self, array: Array, names: Sequence[str]) -> None:
        """Launch the check of an array of floats."""
        at = len(self.asked) % ROOM
        if not at:
            self.answers.append(zeros(ROOM, np.bool_))
        rows = kernels.all(kernels.isfinite(array), axis=-1)  # a group of threads a row; one alone takes long for all
        kernels.all(rows, out=self.answers[-1][at : at + 1].reshape(()))
        self.asked.append(names)

    def unfit(self) -> list[str]:
        """Wait for the checks; return the names of what the arrays with other values were made of."""
        answers = np.concatenate([answer.numpy() for answer in self.answers] or [np.ones(0, np.bool_)])
        return [name for names, is_finite in zip(self.asked, answers) if not is_finite for name in names]
