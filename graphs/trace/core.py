"""The C types of traces and compiled functions; see ``graphs/native/trace.c``, ``compiled.c`` and ``cut.c``."""

from hiprt import objects

__all__ = ["Compiled", "Primitive", "Trace", "Traced", "cut", "hold", "is_pinned", "move", "pin"]

types = objects.load("hiprt.graphs.native.trace")
Trace, Primitive = types.Trace, types.Primitive
compiled = objects.load("hiprt.graphs.native.compiled")
Compiled, Traced = compiled.Compiled, compiled.Traced
cuts = objects.load("hiprt.graphs.native.cut")
cut, hold, is_pinned, move, pin = cuts.cut, cuts.hold, cuts.is_pinned, cuts.move, cuts.pin
