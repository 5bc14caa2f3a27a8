/* Statistics: the extension module hiprt.graphs.native.stats. */
#include "stats.h"

/* Where an Event has what is read here. */
enum { RUNG = 1, REASON = 2, SECONDS = 5 };

static PyObject *increased(PyObject *number, Py_ssize_t by) {
  PyObject *other = PyLong_FromSsize_t(by), *sum = other && number ? PyNumber_Add(number, other) : Py_XNewRef(other);
  Py_XDECREF(other);
  return sum;
}

static PyObject *attribute(PyObject *object, PyObject **name, const char *text) {
  if (!*name) *name = PyUnicode_InternFromString(text);
  return *name ? PyObject_GetAttr(object, *name) : 0;
}

/* Count one more in a dictionary; with is_known only under a key that it has. */
static int count_in(PyObject *counts, PyObject *key, int is_known) {
  PyObject *before = PyDict_GetItemWithError(counts, key);
  if (!before && (PyErr_Occurred() || is_known)) return PyErr_Occurred() ? -1 : 0;
  PyObject *after = increased(before, 1);
  const int status = after ? PyDict_SetItem(counts, key, after) : -1;
  Py_XDECREF(after);
  return status;
}

PyObject *hiprt_py_timed_event(PyObject *event, double seconds) {
  const Py_ssize_t n = PyTuple_Size(event);
  PyObject *items = PyTuple_New(n), *args = PyTuple_New(1), *made = 0;
  for (Py_ssize_t i = 0; items && i < n; i++) {
    PyObject *item = i == SECONDS ? PyFloat_FromDouble(seconds) : Py_NewRef(PyTuple_GetItem(event, i));
    if (!item || PyTuple_SetItem(items, i, item)) Py_CLEAR(items);
  }
  if (items && args && !PyTuple_SetItem(args, 0, Py_NewRef(items)))
    made = ((newfunc)PyType_GetSlot(&PyTuple_Type, Py_tp_new))(Py_TYPE(event), args, 0);
  Py_XDECREF(items);
  Py_XDECREF(args);
  return made;
}

int hiprt_py_add_to(PyObject *object, PyObject *name, Py_ssize_t by) {
  PyObject *before = PyObject_GetAttr(object, name), *after = before ? increased(before, by) : 0;
  const int status = after ? PyObject_SetAttr(object, name, after) : -1;
  Py_XDECREF(before);
  Py_XDECREF(after);
  return status;
}

int hiprt_py_count(PyObject *stats, PyObject *event, PyObject *difference) {
  static PyObject *counted, *reasons, *last, *events, *append;
  if (!PyTuple_Check(event) || PyTuple_Size(event) <= SECONDS) {
    PyErr_Format(PyExc_TypeError, "count: %R is no event", event);
    return -1;
  }
  PyObject *rung = PyTuple_GetItem(event, RUNG), *all = attribute(stats, &events, "events");
  PyObject *rungs = attribute(stats, &counted, "counted"), *why = attribute(stats, &reasons, "reasons");
  PyObject *reason = PyUnicode_FromFormat("%S: %S", rung, PyTuple_GetItem(event, REASON));
  PyObject *pair = PyTuple_Pack(2, event, difference), *appended = 0;
  int status = all && rungs && why && reason && pair ? 0 : -1;
  if (!status) status = count_in(rungs, rung, 1);
  if (!status) status = count_in(why, reason, 0);
  if (!status && !last) last = PyUnicode_InternFromString("last");
  if (!status && !append) append = PyUnicode_InternFromString("append");
  if (!status && (!last || !append || PyObject_SetAttr(stats, last, pair))) status = -1;
  if (!status && !(appended = PyObject_CallMethodObjArgs(all, append, pair, NULL))) status = -1;
  Py_XDECREF(all);
  Py_XDECREF(rungs);
  Py_XDECREF(why);
  Py_XDECREF(reason);
  Py_XDECREF(pair);
  Py_XDECREF(appended);
  return status;
}

/* count(stats, event, difference) */
static PyObject *count(PyObject *module, PyObject *args) {
  PyObject *stats, *event, *difference;
  if (!PyArg_ParseTuple(args, "OOO", &stats, &event, &difference) || hiprt_py_count(stats, event, difference)) return 0;
  Py_RETURN_NONE;
}

PyMODINIT_FUNC PyInit_stats(void) {
  static PyMethodDef methods[] = {{"count", count, METH_VARARGS, 0}, {0}};
  static struct PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "hiprt.graphs.native.stats", "Statistics of steps.", -1, methods, 0, 0, 0, 0,
  };
  return PyModule_Create(&definition);
}
