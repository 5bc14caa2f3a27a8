/* Statistics: events are counted in the Stats of a step (graphs/stats.py). Called with the GIL held. */
#pragma once
#include "objects.h" /* first: Python.h says so */

/* Return an event like another one that took these seconds. */
PyObject *hiprt_py_timed_event(PyObject *event, double seconds);
/* Count an event; `difference` is what says its difference as text, or None. -1 with an exception. */
int hiprt_py_count(PyObject *stats, PyObject *event, PyObject *difference);
/* Add to a number that an object has under this name. -1 with an exception. */
int hiprt_py_add_to(PyObject *object, PyObject *name, Py_ssize_t by);
