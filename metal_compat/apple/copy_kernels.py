"""Copies and fills as kernels, because indirect command buffers hold only kernels. Never run on Apple hardware."""

from __future__ import annotations

from hiprt.kernels import Kernel

__all__ = ["COPY", "FILL", "RUN", "THREADS"]

THREADS = 256
RUN = 16  # bytes that a thread moves

COPY = Kernel(
    "hiprt_copy",
    inputs={"source": "uchar"},
    outputs={"target": "uchar"},
    scalars={"size": "uint"},
    source=f"""
uint first = thread_position_in_grid.x * {RUN}u;
uint last = min(first + {RUN}u, size);
for (uint i = first; i < last; i++) target[i] = source[i];
""",
)
# The fill repeats the value's bytes, the lowest first.
FILL = Kernel(
    "hiprt_fill",
    outputs={"target": "uchar"},
    scalars={"size": "uint", "value": "uint", "width": "uint"},
    source=f"""
uint first = thread_position_in_grid.x * {RUN}u;
uint last = min(first + {RUN}u, size);
for (uint i = first; i < last; i++) target[i] = uchar(value >> (8u * (i % width)));
""",
)
