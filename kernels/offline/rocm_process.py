"""Compile HIP text with a real hiprtc and disassemble the result, on a machine that needs no GPU.

This file runs by itself, in a process whose dynamic linker may be another than that of hiprt's process
(`hiprt.kernels.offline.rocm_compiler`), so it imports nothing but the standard library. It is started with the paths
of libhiprtc and of libamd_comgr. Each line of its input is a JSON object, and each line of its output the answer. A
program's name, text and options are answered by the status and its name, the compiler's log and the code object in
base64; the machine code of a function, in base64, and its target by the lines of its disassembly, each with its
place.
"""

from __future__ import annotations

import base64
import ctypes
import json
import sys
from typing import Any

READ = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p)
PRINT = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p)
ANNOTATE = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_void_p)


class Disassembly(ctypes.Structure):
    """comgr's handles are structures of one number."""

    _fields_ = [("handle", ctypes.c_uint64)]


def text_of(hiprtc: Any, program: ctypes.c_void_p, size_of: str, take: str) -> bytes:
    """Return the log or the code of a program."""
    size = ctypes.c_size_t()
    getattr(hiprtc, size_of)(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(max(size.value, 1))
    getattr(hiprtc, take)(program, buffer)
    return buffer.raw[: size.value]


def compile_program(hiprtc: Any, name: str, text: str, options: list[str]) -> tuple[int, bytes, str]:
    """Return the status of hiprtcCompileProgram, the code object and the log."""
    program = ctypes.c_void_p()
    hiprtc.hiprtcCreateProgram(ctypes.byref(program), text.encode(), name.encode(), 0, None, None)
    array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    status = int(hiprtc.hiprtcCompileProgram(program, len(options), array))
    log = text_of(hiprtc, program, "hiprtcGetProgramLogSize", "hiprtcGetProgramLog")
    code = b"" if status else text_of(hiprtc, program, "hiprtcGetCodeSize", "hiprtcGetCode")
    hiprtc.hiprtcDestroyProgram(ctypes.byref(program))
    return status, code, log.rstrip(b"\0").decode(errors="replace").strip()


def disassemble(comgr: Any, code: bytes, target: str) -> list[tuple[int, str]]:
    """Return the instructions of a function's machine code, each with the byte at which it begins.

    Raises
    ------
    RuntimeError
        comgr refuses; the text has its function and the status.
    """
    texts: list[str] = []

    def read(start: int, to: int, size: int, _data: int) -> int:
        part = code[start : start + size]
        ctypes.memmove(to, part, len(part))
        return len(part)

    callbacks = READ(read), PRINT(lambda text, _data: texts.append(text.decode())), ANNOTATE(lambda *_: None)
    handle, size, isa = Disassembly(), ctypes.c_uint64(), f"amdgcn-amd-amdhsa--{target}".encode()
    status = comgr.amd_comgr_create_disassembly_info(isa, *callbacks, ctypes.byref(handle))
    if status:
        raise RuntimeError(f"amd_comgr_create_disassembly_info for {target}: status {status}")
    at, starts = 0, []
    while at < len(code):
        starts.append(at)
        status = comgr.amd_comgr_disassemble_instruction(handle, ctypes.c_uint64(at), None, ctypes.byref(size))
        if status or not size.value:
            raise RuntimeError(f"amd_comgr_disassemble_instruction for {target} at byte {at}: status {status}")
        at += size.value
    comgr.amd_comgr_destroy_disassembly_info(handle)
    return list(zip(starts, texts, strict=True))


def answer(hiprtc: Any, comgr: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """Return the object for a line of the input."""
    if "code" in asked:
        return {"lines": disassemble(comgr, base64.b64decode(asked["code"]), asked["target"])}
    status, code, log = compile_program(hiprtc, asked["name"], asked["text"], asked["options"])
    name = hiprtc.hiprtcGetErrorString(status).decode()
    return {"status": status, "status_name": name, "log": log, "code": base64.b64encode(code).decode()}


def main(hiprtc_path: str, comgr_path: str) -> None:
    """Answer until the input ends."""
    hiprtc, comgr = ctypes.CDLL(hiprtc_path), ctypes.CDLL(comgr_path)
    hiprtc.hiprtcGetErrorString.restype = ctypes.c_char_p
    for line in sys.stdin:
        print(json.dumps(answer(hiprtc, comgr, json.loads(line))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
