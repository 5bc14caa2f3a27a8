/* Traces: what other extension modules use of them. */
#pragma once
#include "objects.h" /* first: Python.h says so */

/* Read a tree of arrays and constants: all of it but the contents of its arrays, as a tuple, and the arrays, as one.
 * -1 with an exception. */
int hiprt_py_signature(PyObject *tree, PyObject **out_key, PyObject **out_arrays);
