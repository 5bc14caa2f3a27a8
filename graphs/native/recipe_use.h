/* Uses of recipes: what a call would compute is added to the lazy graph, without the function.
 *
 * Called with the GIL held. */
#pragma once
#include "recipe_object.h" /* first: Python.h says so */

/* take(root): what the function returns for arguments, of which the root is a tuple; NotImplemented where the recipe is not
 * for them. */
PyObject *hiprt_py_take(PyObject *recipe, PyObject *root);
/* values(root): the values of the pattern's arrays, in a list, where the root fits but for their forms; None elsewhere. */
PyObject *hiprt_py_values(PyObject *recipe, PyObject *root);
/* expand(primitive): put the calls in the place of one that stands for them, in the graph. */
PyObject *hiprt_py_expand(PyObject *recipe, PyObject *primitive);
