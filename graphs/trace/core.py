"""The C types of traces; see ``graphs/native/trace.c``."""

from hiprt import objects

__all__ = ["Primitive", "Trace"]

types = objects.load("hiprt.graphs.native.trace")
Trace, Primitive = types.Trace, types.Primitive
