/* Copies of a step's results: the extension module hiprt.graphs.native.results. */
#include "results.h"

#include "stream.h"

/* One call of hiprt_py_copied. */
typedef struct {
  PyObject *own, *stream;
  PyObject *copies; /* a dict: the copy of each buffer by its id; NULL while there is none */
} copying;

static PyObject *attribute_of(PyObject **cached, const char *module, const char *name) {
  if (!*cached) {
    PyObject *found = PyImport_ImportModule(module);
    *cached = found ? PyObject_GetAttrString(found, name) : 0;
    Py_XDECREF(found);
  }
  return *cached;
}

/* Copy a buffer; where the C core cannot, Python does it, or says what is wrong. */
static int copy(PyObject *stream, PyObject *to, PyObject *from) {
  const int status = hiprt_thread_recordings ? -1 : hiprt_py_copy((hiprt_py_stream *)stream, to, from);
  if (!status || PyErr_Occurred()) return status;
  const hiprt_py_buffer *target = (hiprt_py_buffer *)to, *source = (hiprt_py_buffer *)from;
  PyObject *method = PyObject_GetAttrString(stream, "copy");
  PyObject *args = Py_BuildValue("(KKKi)", target->address, source->address, source->nbytes, hipMemcpyDeviceToDevice);
  PyObject *named = Py_BuildValue("{sOsO}", "to", to, "of", from);
  PyObject *done = method && args && named ? PyObject_Call(method, args, named) : 0;
  Py_XDECREF(method);
  Py_XDECREF(args);
  Py_XDECREF(named);
  Py_XDECREF(done);
  return done ? 0 : -1;
}

/* Return the copy of a buffer, which arrays that share the buffer share. */
static PyObject *copy_of(copying *c, PyObject *buffer, PyObject *id) {
  static PyObject *allocate;
  PyObject *found = c->copies ? PyDict_GetItemWithError(c->copies, id) : 0;
  if (found || PyErr_Occurred()) return Py_XNewRef(found);
  if (!attribute_of(&allocate, "hiprt.buffer", "allocate")) return 0;
  PyObject *nbytes = PyLong_FromUnsignedLongLong(((hiprt_py_buffer *)buffer)->nbytes);
  PyObject *made = nbytes ? PyObject_CallFunctionObjArgs(allocate, nbytes, c->stream, NULL) : 0;
  Py_XDECREF(nbytes);
  if (made && !PyObject_TypeCheck(made, hiprt_py_buffer_type)) {
    PyErr_Format(PyExc_TypeError, "the allocator returned %R, which is not a buffer", made);
    Py_CLEAR(made);
  }
  if (made && copy(c->stream, made, buffer)) Py_CLEAR(made);
  if (made && !c->copies) c->copies = PyDict_New();
  if (made && (!c->copies || PyDict_SetItem(c->copies, id, made))) Py_CLEAR(made);
  return made;
}

static unsigned long long moved(PyObject *array, PyObject *place) {
  const hiprt_py_array *from = (hiprt_py_array *)array;
  return from->address - ((hiprt_py_buffer *)from->buffer)->address + ((hiprt_py_buffer *)place)->address;
}

static PyObject *copied_array(copying *c, PyObject *array) {
  static PyObject *type;
  PyObject *buffer = ((hiprt_py_array *)array)->buffer;
  PyObject *id = PyLong_FromVoidPtr(buffer);
  const int is_own = id ? PySequence_Contains(c->own, id) : -1;
  PyObject *made = is_own ? 0 : Py_NewRef(array);
  PyObject *place = is_own > 0 ? copy_of(c, buffer, id) : 0;
  if (place && attribute_of(&type, "hiprt.array", "Array"))
    made = hiprt_py_array_at((PyTypeObject *)type, (hiprt_py_array *)array, place, moved(array, place));
  Py_XDECREF(place);
  Py_XDECREF(id);
  return made;
}

static PyObject *copied(copying *c, PyObject *value) {
  if (PyObject_TypeCheck(value, hiprt_py_array_type)) return copied_array(c, value);
  if (PyDict_Check(value)) {
    PyObject *made = PyDict_New(), *key, *each;
    for (Py_ssize_t at = 0; made && PyDict_Next(value, &at, &key, &each);) {
      PyObject *item = copied(c, each);
      if (!item || PyDict_SetItem(made, key, item)) Py_CLEAR(made);
      Py_XDECREF(item);
    }
    return made;
  }
  if (!PyTuple_Check(value) && !PyList_Check(value)) return Py_NewRef(value);
  const int is_tuple = PyTuple_Check(value);
  const Py_ssize_t count = is_tuple ? PyTuple_Size(value) : PyList_Size(value);
  PyObject *items = PyList_New(count); /* CPython 3.11's PySequence_List loses a reference where memory runs out */
  for (Py_ssize_t i = 0; items && i < count; i++) {
    PyObject *each = Py_XNewRef(is_tuple ? PyTuple_GetItem(value, i) : PyList_GetItem(value, i));
    PyObject *item = each ? copied(c, each) : 0;
    Py_XDECREF(each);
    if (!item || PyList_SetItem(items, i, item)) Py_CLEAR(items);
  }
  if (!items || PyList_CheckExact(value)) return items;
  PyObject *tuple = PyList_AsTuple(items), *made = tuple;
  Py_DECREF(items);
  if (!tuple || PyTuple_CheckExact(value)) return tuple;
  /* A named tuple takes its items one by one, other classes take them all at once. */
  PyObject *type = (PyObject *)Py_TYPE(value);
  made = PyObject_HasAttrString(value, "_fields") ? PyObject_CallObject(type, tuple)
                                                  : PyObject_CallFunctionObjArgs(type, tuple, NULL);
  Py_DECREF(tuple);
  return made;
}

PyObject *hiprt_py_copied(PyObject *result, PyObject *own, PyObject *stream) {
  copying c = {own, stream, 0};
  PyObject *made = copied(&c, result);
  Py_XDECREF(c.copies);
  return made;
}

/* copied(result, own, stream) */
static PyObject *copied_from_python(PyObject *module, PyObject *args) {
  PyObject *result, *own, *stream;
  if (!PyArg_ParseTuple(args, "OOO!", &result, &own, hiprt_py_stream_type, &stream)) return 0;
  return hiprt_py_copied(result, own, stream);
}

PyMODINIT_FUNC PyInit_results(void) {
  static PyMethodDef methods[] = {{"copied", copied_from_python, METH_VARARGS, 0}, {0}};
  static struct PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "hiprt.graphs.native.results", "Copies of results.", -1, methods, 0, 0, 0, 0,
  };
  return PyModule_Create(&definition);
}
