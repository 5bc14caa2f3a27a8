"""Traces: functions as programs, which run as one graph.

A `Trace` records the ops that its thread calls. A **value** is an array without memory: shape, strides and dtype, and
the primitive that makes it. A **primitive** is one call of an op (`hiprt.op.Op`) with its arguments. A `Program` is the
primitives of a trace in their order, with its inputs, the arrays that it captured, and its outputs; it prints as text.

No op has a second implementation for this. What an op returns for operands of some form is found out by a rehearsal:
the op's own function is called with arrays at made-up addresses, on a stream whose launches do nothing but tell what
they write. The C core remembers the outcome for each form, so that a primitive costs half a microsecond. Slices and
reshapes of values are ops as well. An op that writes an operand in place is a primitive that says so; the primitives of
a program run in their order, so that values that share memory need no further care.

To run a program is to call its ops again, on arrays; `compile` does that within a `hiprt.graphs.Step`, which records it
once and afterwards launches one graph, without Python for each primitive.
"""
