#include "parameters.h" /* first: Python.h says so */

/* Return which parameter has a name, or `count`; it is looked for from one of them on first. */
static Py_ssize_t find_name(PyObject *const *names, Py_ssize_t count, Py_ssize_t from, PyObject *name) {
  for (Py_ssize_t i = from; i < count; i++)
    if (names[i] == name) return i;
  for (Py_ssize_t i = 0; i < count; i++) /* names of code are interned, others may not be */
    if (names[i] == name || !PyUnicode_Compare(names[i], name)) return i;
  return count;
}

int hiprt_py_ordered(const hiprt_py_op *op, PyObject *args, PyObject *kwargs, PyObject **ordered) {
  const Py_ssize_t count = op->count, given = PyTuple_Size(args);
  PyObject *const *names = op->parameters, *const *defaults = names + count;
  if (given > op->positional || count > HIPRT_PY_PARAMETERS) {
    PyErr_Format(PyExc_TypeError, "%U takes %zd arguments by position, %zd are given", op->name, op->positional, given);
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; i++) ordered[i] = i < given ? PyTuple_GetItem(args, i) : 0;
  PyObject *name, *value;
  Py_ssize_t next = given; /* most names come in the order of the parameters */
  for (Py_ssize_t at = 0; kwargs && PyDict_Next(kwargs, &at, &name, &value);) {
    const Py_ssize_t i = find_name(names, count, next, name);
    next = i + 1;
    if (i < count && !ordered[i]) {
      ordered[i] = value;
    } else if (i < count) {
      PyErr_Format(PyExc_TypeError, "%U: %U is given twice", op->name, name);
      return -1;
    } else if (PyUnicode_CompareWithASCIIString(name, "stream")) {
      PyErr_Format(PyExc_TypeError, "%U has no parameter %R", op->name, name);
      return -1;
    } else if (value != Py_None) {
      PyErr_Format(PyExc_ValueError, "%U: a traced op has no stream of its own: the program runs on one stream, that "
                   "on which the compiled function is called", op->name);
      return -1;
    }
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    if (!ordered[i]) ordered[i] = defaults[i];
    if (ordered[i] == Py_Ellipsis && defaults[i] == Py_Ellipsis) {
      PyErr_Format(PyExc_TypeError, "%U: %U is not given", op->name, names[i]);
      return -1;
    }
  }
  return 0;
}
