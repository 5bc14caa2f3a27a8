/* Parameters: the arguments of a call of an op, in the order of what the op takes.
 *
 * Called with the GIL held. */
#pragma once
#include "objects.h" /* first: Python.h says so */

#define HIPRT_PY_PARAMETERS 64 /* the most of an op */

/* Put a call's arguments in the order of the op's parameters, of which there is room for HIPRT_PY_PARAMETERS; borrowed
 * references. -1 with an exception. */
int hiprt_py_ordered(const hiprt_py_op *op, PyObject *args, PyObject *kwargs, PyObject **out_ordered);
