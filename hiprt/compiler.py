"""Source to code object, through the hiprtc of the library in use."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from hiprt import library
from hiprt.code_cache import CodeCache, key_of
from hiprt.device import current_device
from hiprt.errors import CompileError, check

__all__ = ["compile_source", "reads_files"]

OWN_INCLUDE = re.compile(r"^[ \t]*(?:#|%:)[ \t]*(?:include(?:_next)?[ \t]*[^<\s]|embed|import)|\?\?=", re.MULTILINE)
# Options that name files or folders, by how they begin.
FILE_OPTIONS = ("-I", "-i", "-B", "-Wp,", "@", "--include", "--pre-include", "-pre-include", "--options-file")
COMPILER_FILES = ("libnvrtc*.so*", "libhiprtc*.so*", "libamd_comgr*.so*")


def compile_source(
    source: str, name: str, *, options: Sequence[str] = (), expressions: Sequence[str] = ()
) -> tuple[bytes, dict[str, str]]:
    """Compile HIP C++ for this thread's device.

    Parameters
    ----------
    source : str
        HIP C++ text.
    name : str
        File name for messages.
    options : sequence of str
        hiprtc options; the target is added.
    expressions : sequence of str
        Kernels to instantiate or look up, for example ``&axpy<float>``.

    Returns
    -------
    code : bytes
        The code object.
    lowered : dict
        Each expression's name in the code object.

    Raises
    ------
    CompileError
        The source does not compile; ``log`` is the compiler's output.
    """
    provider, target = library.current().provider, f"--offload-arch={current_device().arch}"
    if not provider.caches_code or reads_files(source, options):
        return build(source, name, (target, *options), expressions)
    key = key_of([identity(), name, source, "options", target, *options, "expressions", *expressions])
    cache = CodeCache()
    found = cache.load(provider.name, key)
    if found is None:
        found = build(source, name, (target, *options), expressions)
        cache.store(provider.name, key, *found)
    return found


def reads_files(source: str, options: Sequence[str]) -> bool:
    """Whether a program may include files, which could change without its text changing; not the compiler's own."""
    return bool(OWN_INCLUDE.search(source)) or any(option.startswith(FILE_OPTIONS) for option in options)


@cache
def identity() -> str:
    """Return which compiler this is: the library's version, and size and time of the files that it consists of."""
    chosen = library.current()
    version = check(library.hiprtc().hiprtcVersion(), "hiprtcVersion")
    folder = chosen.compiler.parent
    files = {file.resolve() for pattern in COMPILER_FILES for file in folder.glob(pattern)}
    status = sorted((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    return repr((chosen.provider.name, chosen.version, version, status))


def build(source: str, name: str, options: Sequence[str], expressions: Sequence[str]) -> tuple[bytes, dict[str, str]]:
    """Compile, whatever was compiled before; returns what `compile_source` does."""
    hiprtc = library.hiprtc()
    program = check(hiprtc.hiprtcCreateProgram(source.encode(), name.encode(), 0, None, None), "hiprtcCreateProgram")
    try:
        for expression in expressions:
            check(hiprtc.hiprtcAddNameExpression(program, expression.encode()), "hiprtcAddNameExpression")
        texts = [option.encode() for option in options]
        (status,) = hiprtc.hiprtcCompileProgram(program, len(texts), texts)
        if int(status) != 0:
            raise CompileError(int(status), status.name, "hiprtcCompileProgram", name, log_of(program))
        code = bytearray(check(hiprtc.hiprtcGetCodeSize(program), "hiprtcGetCodeSize"))
        check(hiprtc.hiprtcGetCode(program, code), "hiprtcGetCode")
        lowered = {
            expression: lowered_name(
                check(hiprtc.hiprtcGetLoweredName(program, expression.encode()), "hiprtcGetLoweredName")
            )
            for expression in expressions
        }
    finally:
        check(hiprtc.hiprtcDestroyProgram(program.createRef()), "hiprtcDestroyProgram")
    return bytes(code), lowered


def lowered_name(value: object) -> str:
    """Copy a name that hiprtc gave: it belongs to the program and goes with it."""
    return value.decode() if isinstance(value, bytes) else str(value)


def log_of(program: object) -> str:
    """Return the compiler's log."""
    hiprtc = library.hiprtc()
    log = bytearray(check(hiprtc.hiprtcGetProgramLogSize(program), "hiprtcGetProgramLogSize"))
    if log:
        check(hiprtc.hiprtcGetProgramLog(program, log), "hiprtcGetProgramLog")
    return bytes(log).rstrip(b"\0").decode(errors="replace").strip()
