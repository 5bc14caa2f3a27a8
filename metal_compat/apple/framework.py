"""PyObjC's module Metal, imported when it is first needed. Never run on Apple hardware."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from typing import Any

from hiprt.errors import ProviderError

__all__ = ["framework"]


@cache
def framework() -> Any:
    """Return the module.

    Raises
    ------
    ProviderError
        This is not macOS, or PyObjC is not installed.
    """
    if sys.platform != "darwin":
        raise ProviderError("Metal cannot be used", [("metal", f"it exists on macOS only; this is {sys.platform}")])
    try:
        return importlib.import_module("Metal")
    except ImportError as error:
        reason = f"{error}: pip install pyobjc-framework-Metal"
        raise ProviderError("Metal cannot be used", [("metal", reason)]) from None
