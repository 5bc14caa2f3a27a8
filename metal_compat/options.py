"""Compile options of `metal_kernel`: Metal's math modes. A provider has the compiler's options for each."""

from __future__ import annotations

from typing import Any

__all__ = ["DEFAULT_MODE", "MODES", "math_mode"]

DEFAULT_MODE = "safe"
# The order is Metal's, since a mode's number is part of an exported kernel.
MODES = {"safe": 0, "relaxed": 1, "fast": 2}


def math_mode(options: Any) -> str:
    """Return the math mode that `options` ask for.

    Parameters
    ----------
    options : dict or None
        ``{"math_mode": "safe" | "relaxed" | "fast"}``.

    Raises
    ------
    ValueError
        `options` is not a dictionary, or has an unknown option or mode.
    """
    if options is None:
        return DEFAULT_MODE
    if not isinstance(options, dict):
        raise ValueError("[metal_kernel] Expected `compile_options` to be a dict.")
    for name in options:
        if name != "math_mode":
            raise ValueError(f"[metal_kernel] Unknown compile option `{name}`.")
    mode = options.get("math_mode", DEFAULT_MODE)
    if not isinstance(mode, str) or mode not in MODES:
        raise ValueError("[metal_kernel] Expected math_mode to be 'safe', 'relaxed', or 'fast'.")
    return mode
