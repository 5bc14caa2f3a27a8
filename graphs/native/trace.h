/* Traces: what other extension modules use of them. */
#pragma once
#include "primitive.h" /* first: Python.h says so */

/* A call of which all is known but the operands. */
typedef struct {
  PyObject *op, *rule;
  uint64_t hash; /* the same for calls that make the same values */
} hiprt_py_application;

/* Add such a call to a lazy graph, with the number of its first result, and return what it returns. A call with a stamp
 * stands for others. */
PyObject *hiprt_py_again(hiprt_py_trace *trace, const hiprt_py_application *call, PyObject *arguments, PyObject *inputs,
                         uint64_t number, uint64_t stamp);
/* Whether a value, which a primitive makes, is a cache of which a part was written, so that views of it may be prefixes. */
int hiprt_py_is_grown(const hiprt_py_trace *trace, const hiprt_py_array *value);
