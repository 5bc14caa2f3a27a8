"""Hold: a kernel that keeps the device busy while launches are handed over to it.

Behind it the launches run without a gap, so that events around them show the device's time and not the host's.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from hiprt.array import empty
from hiprt.compiler import compile_source
from hiprt.module import SCALAR, WRITE, Argument, Function, Module
from hiprt.stream import Stream

__all__ = ["hold"]

TURNS = 6000  # of the loop for each launch: they take longer than the host needs to hand one over
SOURCE = """
extern "C" __global__ void hold(unsigned* out, unsigned n) {
  float x = 1.0f;
  for (unsigned i = 0; i < n; ++i) x = x * 0.75f + 0.5f;
  if (x < 0.0f) out[0] = n;
}
"""


@cache
def function(device: int) -> Function:
    """Compile the kernel for a device, which is the thread's."""
    code, _ = compile_source(SOURCE, "hold.hip")
    return Function(Module(code), "hold", [Argument("out", WRITE), Argument("n", SCALAR, "uint32")])


def hold(stream: Stream, launches: int) -> None:
    """Keep a stream's device busy while so many launches are handed over."""
    scratch = empty(1, np.uint32, stream)
    function(stream.device.index).launch(stream, (1, 1, 1), (1, 1, 1), scratch, TURNS * launches)
