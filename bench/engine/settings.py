"""Settings of a model, as its config.json has them."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any, TypeVar

from hiprt.bench.engine.errors import DOWNLOAD, CheckpointError

__all__ = ["Settings", "short"]

T = TypeVar("T")
LARGEST = 2**53  # larger integers are no sizes, and floats do not hold them


class Settings:
    """The values of a config.json; where a model has several parts, those of the text part come first.

    Parameters
    ----------
    values : mapping
        What config.json says.
    where : str
        The file, for messages.
    """

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        inner = values.get("text_config")
        self.values: dict[str, Any] = {**values, **(inner if isinstance(inner, dict) else {})}
        self.where = where

    def get(self, name: str, kind: type[T], default: T | None = None) -> T:
        """Return a value.

        Parameters
        ----------
        name : str
        kind : type
            int, float, bool, str, list or dict. An int serves as float.
        default : optional
            For a value that is missing or null; without one it is an error.

        Raises
        ------
        CheckpointError
            It is missing, of another type, or not finite.
        """
        value = self.values.get(name)
        if value is None:
            if default is None:
                raise CheckpointError(f"{self.where} has no {name}", DOWNLOAD)
            return default
        if type(value) in (int, float) and not -LARGEST <= value <= LARGEST:  # NaN is refused too
            raise CheckpointError(f"{self.where}: {name} is {short(value)}, which is no size or constant", DOWNLOAD)
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise CheckpointError(f"{self.where}: {name} is {short(value)}, expected {kind.__name__}", DOWNLOAD)
        return value

    def part(self, name: str) -> Settings:
        """Return the settings of a nested object; there are none where it is missing or null.

        Raises
        ------
        CheckpointError
            It is no object.
        """
        return Settings(self.get(name, dict, {}), self.where)

    def refuse(self, causes: Mapping[str, bool], remedy: str) -> None:
        """Raise for the first cause that holds.

        Raises
        ------
        CheckpointError
            One does.
        """
        for cause, holds in causes.items():
            if holds:
                raise CheckpointError(f"{self.where}: {cause}", remedy)


def short(value: object) -> str:
    """Return a value as Python writes it, with the middle of a long one left out."""
    return reprlib.repr(value)
