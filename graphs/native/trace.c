/* Traces as Python objects: the extension module hiprt.graphs.native.trace. */
#include "tracer.h" /* first: Python.h says so */

#include "calls.h"
#include "values.h"

static uint64_t traces; /* so far */

/* prepare(buffer, value class, size class or None, whether the list keeps primitives) */
static PyObject *prepare(PyObject *object, PyObject *args) {
  hiprt_py_tracer *self = (hiprt_py_tracer *)object;
  PyObject *buffer, *value, *size;
  if (!PyArg_ParseTuple(args, "O!O!Op", hiprt_py_buffer_type, &buffer, &PyType_Type, &value, &size, &self->reader.keeps))
    return 0;
  if (self->primitives || !PyType_IsSubtype((PyTypeObject *)value, hiprt_py_array_type))
    return PyErr_Format(PyExc_TypeError, "prepare: once, with a class of arrays");
  if (!(self->reader.places = PyDict_New()) || !(self->primitives = PyList_New(0))) return 0;
  self->buffer = Py_XNewRef(buffer);
  self->reader.value = (PyTypeObject *)Py_XNewRef(value);
  self->reader.size = size == Py_None ? 0 : (PyTypeObject *)Py_XNewRef(size);
  self->reader.trace = ++traces;
  self->base.add = hiprt_py_add;
  Py_RETURN_NONE;
}

/* see_prefixes(op of views, op of writes): note views of the first elements of what the second op returns, and call
 * of_prefixes(op, arguments), which returns None or what the call is to return, for ops that are given such views. */
static PyObject *see_prefixes(PyObject *object, PyObject *args) {
  hiprt_py_tracer *self = (hiprt_py_tracer *)object;
  PyObject *view, *grown;
  if (!PyArg_ParseTuple(args, "O!O!", hiprt_py_op_type, &view, hiprt_py_op_type, &grown)) return 0;
  if (self->grown) return PyErr_Format(PyExc_TypeError, "see_prefixes: once");
  self->view = Py_XNewRef(view);
  self->grown = Py_XNewRef(grown);
  Py_RETURN_NONE;
}

/* see_integers(class of numbers, class of values): numbers of the first class are used as ints, and values of the second
 * are told by `pin` where a call is one for their sizes. */
static PyObject *see_integers(PyObject *object, PyObject *args) {
  hiprt_py_tracer *self = (hiprt_py_tracer *)object;
  PyObject *integer, *varying;
  if (!PyArg_ParseTuple(args, "O!O!", &PyType_Type, &integer, &PyType_Type, &varying)) return 0;
  if (self->reader.integer) return PyErr_Format(PyExc_TypeError, "see_integers: once");
  self->reader.integer = (PyTypeObject *)Py_XNewRef(integer);
  self->varying = (PyTypeObject *)Py_XNewRef(varying);
  Py_RETURN_NONE;
}

/* given(array): a value that stands for an array of this form, whichever it will be. */
static PyObject *given(PyObject *object, PyObject *array) {
  hiprt_py_tracer *self = (hiprt_py_tracer *)object;
  if (!PyObject_TypeCheck(array, hiprt_py_array_type) || !self->primitives)
    return PyErr_Format(PyExc_TypeError, "%R is not an array", array);
  PyObject *none = PyTuple_New(0), *form = hiprt_py_form((hiprt_py_array *)array);
  const uint64_t number = hiprt_py_numbered(1), hash = hiprt_py_mixed(number, (uint64_t)(uintptr_t)form);
  const int is_ready = form && none;
  hiprt_py_primitive *maker =
      is_ready ? hiprt_py_made_primitive(self, Py_None, none, Py_XNewRef(none), Py_None, hash, number) : 0;
  PyObject *made = maker ? hiprt_py_new_value(self, array, maker, 0, hiprt_py_address_for((hiprt_py_array *)array)) : 0;
  Py_XDECREF(none);
  Py_XDECREF(form);
  Py_XDECREF((PyObject *)maker);
  return made;
}

/* enter(): record this thread's ops from now on; return the trace that did so before. */
static PyObject *enter(PyObject *object, PyObject *unused) {
  hiprt_py_trace *before = hiprt_py_current_trace;
  if (!((hiprt_py_tracer *)object)->primitives) return PyErr_Format(PyExc_TypeError, "the trace is not prepared");
  hiprt_py_current_trace = (hiprt_py_trace *)object;
  return Py_XNewRef(before ? (PyObject *)before : Py_None);
}

/* leave(trace or None): let the trace that was before record again. */
static PyObject *leave(PyObject *object, PyObject *before) {
  hiprt_py_current_trace = before == Py_None ? 0 : (hiprt_py_trace *)before;
  Py_RETURN_NONE;
}

/* current(): the trace that records this thread's ops, or None. */
static PyObject *current(PyObject *type, PyObject *unused) {
  return Py_XNewRef(hiprt_py_current_trace ? (PyObject *)hiprt_py_current_trace : Py_None);
}

/* signature(tree): all of a tree but the contents of its arrays, as a tuple, and the arrays, as one. */
static PyObject *signature(PyObject *type, PyObject *tree) {
  PyObject *key, *arrays;
  if (hiprt_py_signature(tree, &key, &arrays)) return 0;
  PyObject *both = PyTuple_Pack(2, key, arrays);
  Py_DECREF(key);
  Py_DECREF(arrays);
  return both;
}

static int trace_traverse(PyObject *object, visitproc visit, void *arg) {
  hiprt_py_tracer *self = (hiprt_py_tracer *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->primitives);
  Py_VISIT(self->reader.places);
  Py_VISIT(self->buffer);
  Py_VISIT(self->view);
  Py_VISIT(self->grown);
  Py_VISIT((PyObject *)self->reader.value);
  Py_VISIT((PyObject *)self->reader.size);
  Py_VISIT((PyObject *)self->reader.integer);
  Py_VISIT((PyObject *)self->varying);
  return 0;
}

static int trace_clear(PyObject *object) {
  hiprt_py_tracer *self = (hiprt_py_tracer *)object;
  Py_CLEAR(self->primitives);
  Py_CLEAR(self->reader.places);
  Py_CLEAR(self->buffer);
  Py_CLEAR(self->view);
  Py_CLEAR(self->grown);
  PyTypeObject **types[] = {&self->reader.value, &self->reader.size, &self->reader.integer, &self->varying};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    PyObject *type = (PyObject *)*types[i];
    *types[i] = 0;
    Py_XDECREF(type);
  }
  return 0;
}

static void trace_dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  trace_clear(object);
  hiprt_py_free(object);
}

static PyTypeObject *make_trace(void) {
  static PyMemberDef members[] = {{"primitives", T_OBJECT, offsetof(hiprt_py_tracer, primitives), READONLY, 0}, {0}};
  static PyMethodDef methods[] = {{"prepare", prepare, METH_VARARGS, 0},
                                  {"see_prefixes", see_prefixes, METH_VARARGS, 0},
                                  {"see_integers", see_integers, METH_VARARGS, 0},
                                  {"given", given, METH_O, 0},
                                  {"add", hiprt_py_add_known, METH_VARARGS, 0},
                                  {"repeat", hiprt_py_repeat, METH_VARARGS, 0},
                                  {"fill_in", hiprt_py_fill_in, METH_VARARGS | METH_STATIC, 0},
                                  {"enter", enter, METH_NOARGS, 0},
                                  {"leave", leave, METH_O, 0},
                                  {"current", current, METH_NOARGS | METH_STATIC, 0},
                                  {"signature", signature, METH_O | METH_STATIC, 0},
                                  {0}};
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, (void *)trace_dealloc}, {Py_tp_traverse, (void *)trace_traverse},
      {Py_tp_clear, (void *)trace_clear},     {Py_tp_members, members},
      {Py_tp_methods, methods},               {0, 0},
  };
  static PyType_Spec spec = {"hiprt.graphs.native.trace.Trace", sizeof(hiprt_py_tracer), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  return (PyTypeObject *)PyType_FromSpec(&spec);
}

PyMODINIT_FUNC PyInit_trace(void) {
  static struct PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "hiprt.graphs.native.trace", "Traces and primitives.", -1, 0, 0, 0, 0, 0,
  };
  PyObject *module = PyModule_Create(&definition);
  PyTypeObject *trace = module ? make_trace() : 0, *primitive = trace ? hiprt_py_make_primitive() : 0;
  if (!primitive || PyModule_AddObject(module, "Trace", (PyObject *)trace) ||
      PyModule_AddObject(module, "Primitive", (PyObject *)primitive))
    Py_CLEAR(module);
  return module;
}
