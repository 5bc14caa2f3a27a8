"""From source to code object, by the hiprtc of the library in use."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache

from hiprt import code_folder, library
from hiprt.cache_key import key_of
from hiprt.code_cache import CodeCache
from hiprt.code_folder import Source
from hiprt.core import ffi, status_name
from hiprt.device import current_device
from hiprt.errors import CompileError, ProviderError
from hiprt.hip import call, handle, lib
from hiprt.provider import Provider

__all__ = ["compile_source", "reads_files"]

# From the end of the line before, which is found faster than a line's beginning.
OWN_INCLUDE = re.compile(r"\n[ \t]*(?:#|%:)[ \t]*(?:include(?:_next)?[ \t]*[^<\s]|embed|import)")
# The beginnings of options that name files or folders.
FILE_OPTIONS = ("-I", "-i", "-B", "-Wp,", "@", "--include", "--pre-include", "-pre-include", "--options-file")
# A distribution's comgr is linked with the LLVM of the system, which lies beside it.
COMPILER_FILES = ("libnvrtc*.so*", "libhiprtc*.so*", "libamd_comgr*.so*", "libLLVM*.so*", "libclang-cpp.so*")


def compile_source(
    source: str, name: str, *, options: Sequence[str] = (), expressions: Sequence[str] = ()
) -> tuple[bytes, dict[str, str]]:
    """Compile HIP C++ for this thread's device.

    Parameters
    ----------
    source : str
        HIP C++ text.
    name : str
        The file name in messages.
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
    provider, arch = library.current().provider, current_device().arch
    program = code_folder.Source(source, name, tuple(options), tuple(expressions))
    ahead = code_folder.find(arch, program)
    if ahead is None:
        ahead = compile_now(provider, arch, program)
        code_folder.keep(arch, program, *ahead)
    return ahead


def compile_now(provider: Provider, arch: str, program: Source) -> tuple[bytes, dict[str, str]]:
    """Return what the cache of compiled kernels has of a program, or compile it."""
    source, name, options, expressions = program
    target = f"--offload-arch={arch}"
    if not provider.caches_code or reads_files(source, options):
        return build(source, name, (target, *options), expressions)
    key = key_of([identity()], name, source, (target, *options), expressions)
    cache = CodeCache()
    found = cache.load(provider.name, key)
    if found is None:
        found = build(source, name, (target, *options), expressions)
        cache.store(provider.name, key, *found)
    return found


def reads_files(source: str, options: Sequence[str]) -> bool:
    """Whether a program may include files other than the compiler's own: those can change while its text does not."""
    if "??=" in source or OWN_INCLUDE.search("\n" + source):
        return True
    return any(option.startswith(FILE_OPTIONS) for option in options)


@cache
def identity() -> str:
    """Return which compiler this is: the library's version, and the size and time of the files it consists of."""
    chosen = library.current()
    version = ffi.new("int[2]")
    open_compiler()
    call(lib.hiprtcVersion(version, version + 1))
    folder = chosen.compiler.parent
    files = {file.resolve() for pattern in COMPILER_FILES for file in folder.glob(pattern)}
    status = sorted((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    return repr((chosen.provider.name, chosen.version, tuple(version), status))


@cache
def open_compiler() -> None:
    """Give the C core hiprtc's functions.

    Raises
    ------
    ProviderError
        The runtime has no compiler beside it.
    """
    chosen = library.current()
    if chosen.hiprtc.is_absolute() and not chosen.hiprtc.exists():
        reason = (
            f"missing beside {chosen.hip}: install the hiprtc of the same ROCm version, or name folders of code that "
            "was compiled ahead in HIPRT_CODE_DIR"
        )
        raise ProviderError("kernels cannot be compiled", [(str(chosen.hiprtc), reason)])
    call(lib.hiprt_compiler_open(os.fsencode(library.current().hiprtc)))


def build(source: str, name: str, options: Sequence[str], expressions: Sequence[str]) -> tuple[bytes, dict[str, str]]:
    """Compile without looking at the cache; returns what `compile_source` does."""
    open_compiler()
    text, none = source.encode(), ffi.NULL
    program = handle(lib.hiprtcCreateProgram, text, name.encode(), 0, none, none)
    try:
        for expression in expressions:
            call(lib.hiprtcAddNameExpression(program, expression.encode()))
        texts = [ffi.new("char[]", option.encode()) for option in options]
        status = lib.hiprtcCompileProgram(program, len(texts), ffi.new("char *[]", texts))
        if status:
            raise CompileError(
                status, status_name("hiprtcResult", status), "hiprtcCompileProgram", name, log_of(program)
            )
        size = ffi.new("size_t *")
        call(lib.hiprtcGetCodeSize(program, size))
        code = ffi.new("char[]", size[0])
        call(lib.hiprtcGetCode(program, code))
        lowered = {expression: lowered_name(program, expression) for expression in expressions}
    finally:
        call(lib.hiprtcDestroyProgram(ffi.new("uint64_t *", program)))
    return bytes(ffi.buffer(code)), lowered


def lowered_name(program: int, expression: str) -> str:
    """Copy the name that hiprtc gave an expression: it belongs to the program and goes with it."""
    out = ffi.new("char **")
    call(lib.hiprtcGetLoweredName(program, expression.encode(), out))
    return str(ffi.string(out[0]).decode())


def log_of(program: int) -> str:
    """Return the compiler's log."""
    size = ffi.new("size_t *")
    call(lib.hiprtcGetProgramLogSize(program, size))
    if not size[0]:
        return ""
    log = ffi.new("char[]", size[0])
    call(lib.hiprtcGetProgramLog(program, log))
    return bytes(ffi.string(log)).decode(errors="replace").strip()
