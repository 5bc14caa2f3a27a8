"""The error for whatever is wrong with a model directory, and remedies that several messages name."""

from __future__ import annotations

__all__ = ["CONVERT", "DOWNLOAD", "CheckpointError", "summary"]

DOWNLOAD = "download the model again"
CONVERT = "convert the model with `mlx_lm.convert -q --q-bits 4`"


MOST_CHARACTERS = 200


def summary(error: BaseException) -> str:
    """Return what an error of a library says, in one line that is not too long to be read."""
    said = " ".join(str(error).split()) or type(error).__name__
    return said if len(said) <= MOST_CHARACTERS else f"{said[:MOST_CHARACTERS]} …"


class CheckpointError(ValueError):
    """A model directory cannot be used.

    Attributes
    ----------
    cause : str
        What is wrong, and in which file.
    remedy : str
        What to do about it.
    """

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause, remedy)
        self.cause = cause
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.cause}: {self.remedy}"
