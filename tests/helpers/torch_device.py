"""torch's tensors on the CPU device: a stand-in for torch's device, which captures, and layers of other code."""

from contextlib import nullcontext
from functools import cache

import numpy as np
import pytest
import torch

import hiprt
from hiprt import core, library
from hiprt.compiler import compile_source
from hiprt.hip import call, lib
from hiprt.module import Module
from hiprt.torch import function
from hiprt.torch.cuda import Captured

SOURCE = """
extern "C" __global__ void layer(const int* x, const int* w, int* y, unsigned long long salt, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * w[i] + (int)(salt >> 8);
}
"""
N = 64  # elements of a tensor


@cache
def layer_function():
    """The kernel that the functions of these tests launch."""
    return Module(*compile_source(SOURCE, "layers.hip")).function("layer")


def layer(stream, x, w, y, salt=0):
    """y = x * w + salt / 256, as a library of torch's would launch it."""
    cells = [np.array([t.data_ptr()], np.uint64) for t in (x, w, y)]
    cells += [np.array([salt], np.uint64), np.array([x.numel()], np.int32)]
    pointers = np.array([cell.ctypes.data for cell in cells], np.uint64)
    params = core.ffi.cast("void *", pointers.ctypes.data)
    grid = -(-x.numel() // 64)
    call(lib.hipModuleLaunchKernel(layer_function(), grid, 1, 1, 64, 1, 1, 0, stream, params, core.ffi.NULL))


class Device:
    """Stands for torch's device: memory of the host, a stream of ours, and what is made while it is captured."""

    index = None

    def __init__(self):
        self.ours = hiprt.Stream()
        self.made = []
        self.drawn = 0
        self.is_capturing = False

    def empty(self, n=N):
        """Return a new tensor, which is kept until the work is done, or as long as the capture."""
        self.made.append(torch.empty(n, dtype=torch.int32))
        return self.made[-1]

    def stream(self):
        return self.ours

    def seeds(self):
        return bytes([self.drawn])

    def copy(self, tensor):
        self.ours.synchronize()
        return tensor.clone()

    def rehearse(self, work):
        results = work()
        self.ours.synchronize()
        self.made.clear()
        return results

    def current(self):
        return nullcontext()

    def capture(self, work, *, is_first):
        self.made, self.is_capturing = [], True
        call(lib.hipStreamBeginCapture(self.ours.handle, lib.hipStreamCaptureModeRelaxed))
        out = core.ffi.new("uint64_t *")
        try:
            results = work()
        finally:
            call(lib.hipStreamEndCapture(self.ours.handle, out))
            owner, self.made, self.is_capturing = self.made, [], False
        return Captured(out[0], results, (owner, Graph(out[0])))


class Graph:
    """Owns a captured graph."""

    def __init__(self, handle):
        self.handle = handle

    def __del__(self):
        lib.hipGraphDestroy(self.handle)


def tensor(seed, n=N):
    """Return a tensor of random numbers, which begins where torch's tensors on a GPU do."""
    room = torch.empty(n + 128, dtype=torch.int32)
    start = -room.data_ptr() % 512 // 4
    room[start : start + n] = torch.from_numpy(np.random.default_rng(seed).integers(0, 1 << 20, n, np.int32))
    return room[start : start + n]


def floats(value):
    """Return a tensor of one number many times, which begins where torch's tensors on a GPU do."""
    return tensor(0).view(torch.float32).fill_(float(value))


def stack(device, weights):
    """Return a function of as many layers as there are weights."""

    def forward(x):
        for name in list(weights):
            y = device.empty(x.numel())
            layer(device.ours.handle, x, weights[name], y)
            x = y
        return x

    return forward


def expected(x, weights):
    for w in weights.values():
        x = x * w[: x.numel()]
    return x


def captured_again(run):
    """How often a call said that it was captured again."""
    return sum(count for reason, count in run.stats.reasons.items() if reason.startswith("capture"))


def stand_in(monkeypatch):
    """Return a stand-in that all functions that are graphed from now on take for torch's device."""
    if not library.current().provider.is_host:
        pytest.skip("torch's tensors lie on the host here")
    made = Device()
    monkeypatch.setattr(function, "device_of", lambda device: made)
    return made
