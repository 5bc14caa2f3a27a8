/* Lazy arrays: what other extension modules use of them.
 *
 * Called with the GIL held. */
#pragma once
#include "objects.h" /* first: Python.h says so */

/* Base of the arrays of a module of lazy arrays. */
typedef struct {
  PyObject_HEAD
  PyObject *value;
} hiprt_py_lazy;

extern hiprt_py_trace *hiprt_py_lazy_trace; /* with which their ops are recorded; NULL: none is declared */
extern PyTypeObject *hiprt_py_lazy_type;    /* the class of what ops return */
/* Return such an array with a value. */
PyObject *hiprt_py_around(PyObject *value);
