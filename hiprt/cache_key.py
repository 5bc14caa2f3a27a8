"""Cache keys: the hash of everything that a program's compiled code depends on.

`hiprt.code_cache` keeps files by them, `hiprt.code_folder` the code that was compiled ahead, and `hiprt.loaded_modules`
the modules of this process. The CPU device, which compiles without Python, hashes its programs by the same C function.
"""

from __future__ import annotations

from collections.abc import Iterable

from hiprt.core import ffi, lib

__all__ = ["digest", "key_of"]


def key_of(
    place: Iterable[str],
    name: str,
    source: str,
    options: Iterable[str],
    expressions: Iterable[str],
    own: Iterable[str] = (),
) -> str:
    """Return the key of a program's code, the hash of all that it depends on.

    Parameters
    ----------
    place : iterable of str
        Where the code serves: the compiler that made it, or the device that has loaded it.
    name, source : str
        The program's name and text.
    options, expressions : iterable of str
        The compiler's options, among them the architecture, and the names of the instances that are asked for.
    own : iterable of str
        What keeps a program apart that nobody else may share.
    """
    return digest([*place, name, source, "options", *options, "expressions", *expressions, "own", *own])


def digest(parts: Iterable[str]) -> str:
    """Return the hash of texts, each with its length, so that no two different sequences are alike."""
    texts = [part.encode() for part in parts]
    held = [ffi.from_buffer(text) for text in texts]
    key = ffi.new("char[]", lib.HIPRT_CACHE_KEY_DIGITS + 1)
    lib.hiprt_cache_key(len(texts), held, list(map(len, texts)), key)
    return str(ffi.string(key).decode())
