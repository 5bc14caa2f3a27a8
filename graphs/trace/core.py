"""The C types of traces and compiled functions; see ``graphs/native/trace.c`` and ``graphs/native/compiled.c``."""

from hiprt import objects

__all__ = ["Compiled", "Primitive", "Trace", "Traced"]

types = objects.load("hiprt.graphs.native.trace")
Trace, Primitive = types.Trace, types.Primitive
compiled = objects.load("hiprt.graphs.native.compiled")
Compiled, Traced = compiled.Compiled, compiled.Traced
