"""hiprt: a ROCm-first HIP graph runtime.

An inference engine calls ops or its own kernels; hiprt records them as kernel nodes, derives the edges from what each
kernel reads and writes, and launches one executable graph per token. Importing it opens no GPU library; the first call
that needs a device does. ``hiprt.graphs``, ``hiprt.kernels``, ``hiprt.allocator`` and ``hiprt.metal_compat`` are
imported by name.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hiprt.interrupt import end_at_once, is_command

if is_command():
    end_at_once()  # the imports below take most of the time in which a command starts

from hiprt.array import Array, array, bfloat16, empty, full, zeros
from hiprt.device import Device, current_device, device_count, open_ahead, set_device
from hiprt.errors import CompileError, HipError, HipWarning, OutOfMemoryError, ProviderError, UndefinedOutputsError
from hiprt.event import Event
from hiprt.flags import flags, warn_unknown
from hiprt.interop import asarray, from_dlpack, wrap
from hiprt.module import Argument, Function, Module
from hiprt.stream import Stream, current_stream, use_stream

if TYPE_CHECKING:
    from hiprt.bench.engine.text_model import load
    from hiprt.graphs.export.dot import export_to_dot
    from hiprt.graphs.export.exporter import export_function, exporter
    from hiprt.graphs.export.importer import import_function
    from hiprt.graphs.trace.bucket import bucketed
    from hiprt.graphs.trace.compile import compile, disable_compile, enable_compile  # noqa: A004

__all__ = [
    "Argument",
    "Array",
    "CompileError",
    "Device",
    "Event",
    "Function",
    "HipError",
    "HipWarning",
    "Module",
    "OutOfMemoryError",
    "ProviderError",
    "Stream",
    "UndefinedOutputsError",
    "array",
    "asarray",
    "bfloat16",
    "bucketed",
    "compile",
    "current_device",
    "current_stream",
    "device_count",
    "disable_compile",
    "empty",
    "enable_compile",
    "export_function",
    "export_to_dot",
    "exporter",
    "flags",
    "from_dlpack",
    "full",
    "import_function",
    "load",
    "open_ahead",
    "set_device",
    "use_stream",
    "warn_unknown",
    "wrap",
    "zeros",
]

__version__ = "0.1.0"
warn_unknown(os.environ)


# What belongs to a layer above, and is imported at its first use.
ABOVE = {
    "bucketed": "hiprt.graphs.trace.bucket",
    "compile": "hiprt.graphs.trace.compile",
    "disable_compile": "hiprt.graphs.trace.compile",
    "enable_compile": "hiprt.graphs.trace.compile",
    "export_function": "hiprt.graphs.export.exporter",
    "export_to_dot": "hiprt.graphs.export.dot",
    "exporter": "hiprt.graphs.export.exporter",
    "import_function": "hiprt.graphs.export.importer",
    "load": "hiprt.bench.engine.text_model",
}


def __getattr__(name: str) -> Any:
    """Import what belongs to a layer above."""
    if name == "torch":
        return import_module("hiprt.torch")
    if name in ABOVE:
        if "export" in ABOVE[name]:
            import_module("hiprt.metal_compat")  # files may have metal kernels
        return getattr(import_module(ABOVE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
