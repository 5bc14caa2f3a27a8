"""Canaries (``HIPRT_GRAPH_CANARY=1``): they find patches and updates that reported success and changed nothing.

Every exec gets one more kernel, which writes the number of the exec's last change into host memory. If a launch has
finished and the number is an older one, the exec is discarded (`HIPRT_E_STALE`), and patch and update are not used any
more. A canary costs less than ``HIPRT_GRAPH_VERIFY``, which finds other defects as well, before the next launch.
"""

from __future__ import annotations

from functools import cache

from hiprt.compiler import compile_source
from hiprt.hip import call, lib
from hiprt.module import READ_WRITE, SCALAR, Argument, Function, Module

__all__ = ["canary"]

SOURCE = 'extern "C" __global__ void hiprt_canary(unsigned* word, unsigned value) { *word = value; }'


@cache
def canary(device: int) -> Function:
    """Return the canary's kernel on a device."""
    call(lib.hipSetDevice(device))
    code, _ = compile_source(SOURCE, "hiprt_canary.hip")
    return Function(Module(code), "hiprt_canary", [Argument("word", READ_WRITE), Argument("value", SCALAR, "uint32")])
