"""Compiling and running HIP source through hip-python, with numpy arrays in and out."""

from dataclasses import dataclass, field

import numpy as np
from rocm.bindings import hip, hiprtc

from helpers.hip_calls import KIND, ok

RESULT = hiprtc.hiprtcResult


@dataclass
class Compiled:
    """What hiprtc made of a program."""

    status: hiprtc.hiprtcResult
    log: str
    code: bytes = b""
    lowered: dict = field(default_factory=dict)


def text_of(program):
    """Return the log of a program."""
    log = bytearray(ok(hiprtc.hiprtcGetProgramLogSize(program)))
    ok(hiprtc.hiprtcGetProgramLog(program, log))
    assert log[-1] == 0
    return log[:-1].decode()


def build(source, options=(), headers=None, expressions=(), name="k.hip"):
    """Compile a program; errors in it are in the result, and nothing is raised for them."""
    headers = headers or {}
    texts = [text.encode() for text in headers.values()] or None
    names = [name.encode() for name in headers] or None
    program = ok(hiprtc.hiprtcCreateProgram(source.encode(), name.encode(), len(headers), texts, names))
    for expression in expressions:
        ok(hiprtc.hiprtcAddNameExpression(program, expression.encode()))
    flags = [option.encode() for option in options]
    status = hiprtc.hiprtcCompileProgram(program, len(flags), flags or None)[0]
    made = Compiled(status, text_of(program))
    if status == RESULT.HIPRTC_SUCCESS:
        code = bytearray(ok(hiprtc.hiprtcGetCodeSize(program)))
        ok(hiprtc.hiprtcGetCode(program, code))
        made.code = bytes(code)
        made.lowered = {e: str(ok(hiprtc.hiprtcGetLoweredName(program, e.encode()))) for e in expressions}
    ok(hiprtc.hiprtcDestroyProgram(program.createRef()))
    return made


class Program:
    """A compiled and loaded program; `run` starts one of its kernels and waits."""

    def __init__(self, source, **how):
        self.built = build(source, **how)
        assert self.built.status == RESULT.HIPRTC_SUCCESS, self.built.log
        self.module = ok(hip.hipModuleLoadData(self.built.code))

    def function(self, name):
        """Return a kernel by its name or name expression."""
        return ok(hip.hipModuleGetFunction(self.module, self.built.lowered.get(name, name).encode()))

    def launch(self, name, grid, block, *args, shared=0):
        """Start a kernel and return the status of waiting for it. Arrays are copied to the device and back."""
        grid, block = ((*size, 1, 1)[:3] if isinstance(size, tuple) else (size, 1, 1) for size in (grid, block))
        buffers = [(a, ok(hip.hipMalloc(max(1, a.nbytes)))) for a in args if isinstance(a, np.ndarray)]
        for array, memory in buffers:
            ok(hip.hipMemcpy(memory, array, array.nbytes, KIND.hipMemcpyHostToDevice))
        places = iter(buffers)
        cells = [
            np.array([int(next(places)[1])], np.uint64) if isinstance(a, np.ndarray) else np.array(a) for a in args
        ]
        pointers = np.array([cell.ctypes.data for cell in cells], np.uint64)
        ok(hip.hipModuleLaunchKernel(self.function(name), *grid, *block, shared, None, pointers, None))
        status = hip.hipDeviceSynchronize()[0]
        for array, memory in buffers:
            if status == hip.hipError_t.hipSuccess:
                ok(hip.hipMemcpy(array, memory, array.nbytes, KIND.hipMemcpyDeviceToHost))
            hip.hipFree(memory)
        return status

    def run(self, name, grid, block, *args, shared=0):
        """Start a kernel that must succeed."""
        assert self.launch(name, grid, block, *args, shared=shared) == hip.hipError_t.hipSuccess


def evaluate(expression, x, *more, out=None, prologue="", options=()):
    """Evaluate an expression of x (and y, z: the arrays in `more`) for each element, one thread each."""
    arrays = [np.ascontiguousarray(a) for a in (x, *more)]
    made = np.zeros(arrays[0].shape, out or arrays[0].dtype)
    names = "xyz"[: len(arrays)]
    parameters = ", ".join(f"const {C_TYPE[a.dtype.name]}* p{n}" for a, n in zip(arrays, names, strict=True))
    locals_ = " ".join(f"{C_TYPE[a.dtype.name]} {n} = p{n}[i];" for a, n in zip(arrays, names, strict=True))
    source = f"""{prologue}
extern "C" __global__ void evaluate({parameters}, {C_TYPE[made.dtype.name]}* out, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {{ {locals_} out[i] = {expression}; }}
}}"""
    n = arrays[0].size
    Program(source, options=options).run("evaluate", -(-n // 256), 256, *arrays, made, np.int32(n))
    return made


C_TYPE = {
    "float32": "float",
    "float64": "double",
    "int32": "int",
    "uint32": "unsigned",
    "int64": "long long",
    "uint64": "unsigned long long",
    "uint16": "unsigned short",
    "int16": "short",
    "uint8": "unsigned char",
    "int8": "signed char",
}
