"""Source to code object, through the hiprtc of the library in use."""

from __future__ import annotations

from collections.abc import Sequence

from hiprt import library
from hiprt.device import current_device
from hiprt.errors import CompileError, check

__all__ = ["compile_source"]


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
    hiprtc = library.hiprtc()
    program = check(hiprtc.hiprtcCreateProgram(source.encode(), name.encode(), 0, None, None), "hiprtcCreateProgram")
    try:
        for expression in expressions:
            check(hiprtc.hiprtcAddNameExpression(program, expression.encode()), "hiprtcAddNameExpression")
        texts = [option.encode() for option in (f"--offload-arch={current_device().arch}", *options)]
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


def lowered_name(value: bytes | str) -> str:
    """Return a name hiprtc gave as str."""
    return value.decode() if isinstance(value, bytes) else value


def log_of(program: object) -> str:
    """Return the compiler's log."""
    hiprtc = library.hiprtc()
    log = bytearray(check(hiprtc.hiprtcGetProgramLogSize(program), "hiprtcGetProgramLogSize"))
    if log:
        check(hiprtc.hiprtcGetProgramLog(program, log), "hiprtcGetProgramLog")
    return bytes(log).rstrip(b"\0").decode(errors="replace").strip()
