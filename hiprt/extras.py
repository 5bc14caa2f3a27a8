"""Extras: the packages that parts of hiprt need and that ``pip install hiprt`` alone does not bring."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["EXTRAS", "MissingExtraError", "missing", "need"]

# Modules that an extra of pyproject.toml brings. Where several bring one, the first is named.
EXTRAS = {
    "engine": ("tokenizers", "safetensors", "jinja2", "rich"),
    "offline": ("elftools", "msgpack", "rich"),
    "export": ("msgpack",),
}


class MissingExtraError(ImportError):
    """A package is not installed that an extra of hiprt brings; the text says which."""


def missing(error: ImportError, extra: str = "") -> ImportError:
    """Return the error to raise for a module that could not be imported.

    Parameters
    ----------
    error : ImportError
    extra : str, optional
        The extra that the module is for; by default the first that brings it.

    Returns
    -------
    ImportError
        A `MissingExtraError` that names the extra; the error itself where no extra brings the module.
    """
    module = (error.name or "").partition(".")[0]
    extra = extra or next((name for name, modules in EXTRAS.items() if module in modules), "")
    if not extra or module not in EXTRAS[extra]:
        return error
    return MissingExtraError(f'{module} is not installed: pip install "hiprt[{extra}]"', name=module)


def need(extra: str) -> None:
    """Check that the packages of an extra are installed.

    Raises
    ------
    MissingExtraError
        One is not.
    """
    for module in EXTRAS[extra]:
        if find_spec(module) is None:
            raise missing(ModuleNotFoundError(name=module), extra)
