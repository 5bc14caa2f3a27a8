/* Results of a step: what its function returned, with copies of the arrays that the next launch overwrites.
 *
 * Copies are new references. Called with the GIL held. */
#pragma once
#include "objects.h" /* first: Python.h says so */

/* Return a structure of tuples, lists and dictionaries like `result`; its arrays in buffers whose ids are in `own`
 * show copies, made in stream order. NULL with an exception. */
PyObject *hiprt_py_copied(PyObject *result, PyObject *own, PyObject *stream);
