/* Traces: while a thread has one, the ops that it calls become primitives, and their results values without memory.
 *
 * A trace is a Python object, and belongs to the thread that entered it: its calls are recorded one at a time, with the GIL
 * held. The parts of one: parameters.h, reading.h, op_rules.h, values.h, prefixes.h, calls.h. */
#pragma once
#include "reading.h" /* first: Python.h says so */

/* Base of hiprt.graphs.trace.trace.Trace. */
typedef struct {
  hiprt_py_trace base;
  hiprt_py_reader reader;
  PyObject *primitives;   /* a list, in the order of the calls; empty where only values keep them */
  PyObject *buffer;       /* that all values show */
  PyObject *view, *grown; /* the ops that make views of parts, and that write a part of a cache; NULL: prefixes are not seen */
  PyTypeObject *varying;  /* of values whose sizes are numbers that are recorded; NULL: there are none */
} hiprt_py_tracer;
