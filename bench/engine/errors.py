"""The error for whatever is wrong with a model directory, and remedies that several messages name."""

from __future__ import annotations

__all__ = ["CONVERT", "DOWNLOAD", "CheckpointError"]

DOWNLOAD = "download the model again"
CONVERT = "convert the model with `mlx_lm.convert -q --q-bits 4`"


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
