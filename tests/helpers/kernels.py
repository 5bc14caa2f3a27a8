"""Small kernels in plain HIP for tests of the runtime itself."""

from functools import cache

import hiprt
from hiprt.compiler import compile_source
from hiprt.module import READ, READ_WRITE, SCALAR, WRITE

SOURCE = """
extern "C" __global__ void scale(const float* x, float* y, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * by;
}
extern "C" __global__ void accumulate(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += x[i];
}
extern "C" __global__ void mix(const float* a, const float* b, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a[i] * 0.5f + b[n - 1 - i];
}
"""
ARGUMENTS = {
    "scale": [("x", READ, ""), ("y", WRITE, ""), ("by", SCALAR, "float32"), ("n", SCALAR, "int32")],
    "accumulate": [("x", READ, ""), ("y", READ_WRITE, ""), ("n", SCALAR, "int32")],
    "mix": [("a", READ, ""), ("b", READ, ""), ("y", WRITE, ""), ("n", SCALAR, "int32")],
}


@cache
def functions():
    """Compile the kernels for the device in use."""
    code, _ = compile_source(SOURCE, "test_kernels.hip")
    module = hiprt.Module(code)
    return {
        name: hiprt.Function(module, name, [hiprt.Argument(*argument) for argument in arguments])
        for name, arguments in ARGUMENTS.items()
    }


def launch(name, *values, size):
    """Launch a kernel over `size` elements on the current stream."""
    block = 64
    functions()[name](hiprt.current_stream(), (-(-size // block), 1, 1), (block, 1, 1), *values, size)


def scale(x, by):
    """y = x * by, in a new array."""
    y = hiprt.empty(x.shape, x.dtype)
    launch("scale", x, y, by, size=x.size)
    return y


def accumulate(x, y):
    """y += x, in place."""
    launch("accumulate", x, y, size=x.size)
    return y


def mix(a, b):
    """y[i] = a[i] / 2 + b[n - 1 - i], in a new array."""
    y = hiprt.empty(a.shape, a.dtype)
    launch("mix", a, b, y, size=a.size)
    return y
