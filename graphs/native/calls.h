/* Calls: a call of an op becomes a primitive of a trace, and its results are values.
 *
 * Called by the thread whose trace it is, with the GIL held. */
#pragma once
#include "tracer.h" /* first: Python.h says so */

/* A call of which all is known but the operands. */
typedef struct {
  PyObject *op, *rule;
  uint64_t hash; /* the same for calls that make the same values */
} hiprt_py_application;

/* Add such a call to a lazy graph, with the number of its first result, and return what it returns. A call with a stamp
 * stands for others. */
PyObject *hiprt_py_again(hiprt_py_trace *trace, const hiprt_py_application *call, PyObject *arguments, PyObject *inputs,
                         uint64_t number, uint64_t stamp);
/* Add a call, as hiprt_py_trace.add does. */
PyObject *hiprt_py_add(hiprt_py_trace *trace, hiprt_py_op *op, PyObject *args, PyObject *kwargs);

/* Methods of Trace.
 * add(op, arguments, rule): add a call whose rule is known, and return what the call would. */
PyObject *hiprt_py_add_known(PyObject *trace, PyObject *args);
/* fill_in(arguments, found, moved, size class): a primitive's arguments with what stands for each value and size. */
PyObject *hiprt_py_fill_in(PyObject *type, PyObject *args);
/* repeat(primitive, found, moved, size class): add the call of an older program's primitive, and return its results as a
 * list; `found` has the arrays that stand for older values, by number, and moved(size) returns what stands for a size. */
PyObject *hiprt_py_repeat(PyObject *trace, PyObject *args);
