/* Patterns: whether the objects that a call reads are those that a recipe is for.
 *
 * Called with the GIL held. */
#pragma once
#include "recipe_object.h" /* first: Python.h says so */

/* Fit a call's arguments, of which the root is a tuple, and note in the use what is found; 0 where they do not fit, perhaps
 * with an exception. */
int hiprt_py_fits(hiprt_py_use *use, PyObject *root);
/* Whether all tests of the recipe hold for the integers that were found. */
int hiprt_py_holds(const hiprt_py_use *use);
/* Return a sum of the integers that were found. */
long long hiprt_py_total(const hiprt_py_use *use, Py_ssize_t sum);
/* Whether an object is another one, or the same number or text; -1 with an exception. */
int hiprt_py_is_same(PyObject *object, PyObject *expected);
