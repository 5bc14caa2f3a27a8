/* Compiled functions: a callable that finds the program of its arguments, and runs it, without Python code.
 *
 * This is the extension module hiprt.graphs.native.compiled. */
#include "reading.h" /* first: Python.h says so */
#include "stream.h"

/* Base of hiprt.graphs.trace.compile.Traced. */
typedef struct {
  PyObject_HEAD
  PyObject *stream, *step; /* of the last call; NULL before that */
  char is_plain;           /* a run returns what the function returns; else Python makes it of that */
} traced_object;

/* Base of hiprt.graphs.trace.compile.Compiled. */
typedef struct {
  PyObject_HEAD
  PyObject *inputs, *outputs; /* trees of captured arrays; NULL or None: none are */
  PyObject *known;   /* a dict: what was traced, by the signature of a call */
  PyObject *flags;   /* a dict: the values of the flags */
  PyObject *version; /* of the flags for which calls may run programs; NULL or None: not known */
  int device;        /* the one that the flags name then */
} compiled_object;

static PyTypeObject *traced_type;

static PyObject *interned(PyObject **name, const char *text) {
  if (!*name) *name = PyUnicode_InternFromString(text);
  return *name;
}

static int is_ready(const compiled_object *self) {
  static PyObject *name;
  if (hiprt_py_current_trace || !self->known || !self->flags || !self->version || self->version == Py_None) return 0;
  return interned(&name, "version") && PyDict_GetItemWithError(self->flags, name) == self->version;
}

/* Return what a call gets, read with the captured arrays. */
static int read_call(const compiled_object *self, PyObject *args, PyObject *kwargs, PyObject **key, PyObject **arrays) {
  PyObject *named = kwargs ? Py_NewRef(kwargs) : PyDict_New();
  const int has_inputs = self->inputs && self->inputs != Py_None;
  PyObject *tree = !named ? 0 : has_inputs ? PyTuple_Pack(3, args, named, self->inputs) : PyTuple_Pack(2, args, named);
  const int status = tree ? hiprt_py_signature(tree, key, arrays) : -1;
  Py_XDECREF(named);
  Py_XDECREF(tree);
  return status;
}

/* Return the step that runs the program of a call on the caller's stream, if there is one, and its arguments. */
static PyObject *step_for(const compiled_object *self, PyObject *args, PyObject *kwargs, PyObject **traced,
                          PyObject **arrays) {
  PyObject *key;
  if (!is_ready(self) || read_call(self, args, kwargs, &key, arrays)) return 0;
  PyObject *found = PyDict_GetItemWithError(self->known, key);
  const traced_object *known = (const traced_object *)found;
  PyObject *step = 0;
  if (found && PyObject_TypeCheck(found, traced_type) && known->step &&
      !hiprt_py_core((const hiprt_py_stream *)known->stream)->closed_by &&
      hiprt_py_is_current((const hiprt_py_stream *)known->stream, self->device + 1)) {
    step = Py_NewRef(known->step);
    *traced = Py_NewRef(found);
  } else {
    Py_CLEAR(*arrays);
  }
  Py_DECREF(key);
  return step;
}

static PyObject *call(PyObject *object, PyObject *args, PyObject *kwargs) {
  static PyObject *name, *results;
  PyObject *traced, *arrays, *step = step_for((const compiled_object *)object, args, kwargs, &traced, &arrays);
  if (!step) {
    PyErr_Clear(); /* Python says what is wrong */
    PyObject *method = interned(&name, "call") ? PyObject_GetAttr(object, name) : 0;
    PyObject *result = method ? PyObject_Call(method, args, kwargs) : 0;
    Py_XDECREF(method);
    return result;
  }
  PyObject *made = PyObject_Call(step, arrays, 0);
  if (made && !((traced_object *)traced)->is_plain && interned(&results, "results")) {
    PyObject *outputs = ((const compiled_object *)object)->outputs;
    PyObject *result = PyObject_CallMethodObjArgs(traced, results, made, outputs ? outputs : Py_None, NULL);
    Py_DECREF(made);
    made = result;
  }
  Py_DECREF(step);
  Py_DECREF(traced);
  Py_DECREF(arrays);
  return made;
}

/* attach(known, flags) */
static PyObject *attach(PyObject *object, PyObject *args) {
  compiled_object *self = (compiled_object *)object;
  PyObject *known, *flags;
  if (!PyArg_ParseTuple(args, "O!O!", &PyDict_Type, &known, &PyDict_Type, &flags)) return 0;
  PyObject *before[2] = {self->known, self->flags};
  self->known = Py_NewRef(known);
  self->flags = Py_NewRef(flags);
  Py_XDECREF(before[0]);
  Py_XDECREF(before[1]);
  Py_RETURN_NONE;
}

static int compiled_traverse(PyObject *object, visitproc visit, void *arg) {
  compiled_object *self = (compiled_object *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->inputs);
  Py_VISIT(self->outputs);
  Py_VISIT(self->known);
  Py_VISIT(self->flags);
  Py_VISIT(self->version);
  return 0;
}

static int compiled_clear(PyObject *object) {
  compiled_object *self = (compiled_object *)object;
  Py_CLEAR(self->inputs);
  Py_CLEAR(self->outputs);
  Py_CLEAR(self->known);
  Py_CLEAR(self->flags);
  Py_CLEAR(self->version);
  return 0;
}

static void compiled_dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  compiled_clear(object);
  hiprt_py_free(object);
}

static PyTypeObject *make_compiled(void) {
  static PyMemberDef members[] = {{"inputs", T_OBJECT, offsetof(compiled_object, inputs), 0, 0},
                                  {"outputs", T_OBJECT, offsetof(compiled_object, outputs), 0, 0},
                                  {"version", T_OBJECT, offsetof(compiled_object, version), 0, 0},
                                  {"device", T_INT, offsetof(compiled_object, device), 0, 0},
                                  {0}};
  static PyMethodDef methods[] = {{"attach", attach, METH_VARARGS, 0}, {0}};
  static PyType_Slot slots[] = {
      {Py_tp_call, (void *)call},           {Py_tp_dealloc, (void *)compiled_dealloc},
      {Py_tp_clear, (void *)compiled_clear}, {Py_tp_traverse, (void *)compiled_traverse},
      {Py_tp_members, members},             {Py_tp_methods, methods},
      {0, 0},
  };
  static PyType_Spec spec = {"hiprt.graphs.native.compiled.Compiled", sizeof(compiled_object), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  return (PyTypeObject *)PyType_FromSpec(&spec);
}

static int traced_traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(((traced_object *)object)->stream);
  Py_VISIT(((traced_object *)object)->step);
  return 0;
}

static int traced_clear(PyObject *object) {
  Py_CLEAR(((traced_object *)object)->stream);
  Py_CLEAR(((traced_object *)object)->step);
  return 0;
}

static void traced_dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  traced_clear(object);
  hiprt_py_free(object);
}

/* use(stream, step): what later calls on this stream run. */
static PyObject *use(PyObject *object, PyObject *args) {
  traced_object *self = (traced_object *)object;
  PyObject *stream, *step;
  if (!PyArg_ParseTuple(args, "O!O", hiprt_py_stream_type, &stream, &step)) return 0;
  PyObject *before[2] = {self->stream, self->step};
  self->stream = Py_NewRef(stream);
  self->step = Py_NewRef(step);
  Py_XDECREF(before[0]);
  Py_XDECREF(before[1]);
  Py_RETURN_NONE;
}

static PyTypeObject *make_traced(void) {
  static PyMemberDef members[] = {{"is_plain", T_BOOL, offsetof(traced_object, is_plain), 0, 0}, {0}};
  static PyMethodDef methods[] = {{"use", use, METH_VARARGS, 0}, {0}};
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, (void *)traced_dealloc}, {Py_tp_clear, (void *)traced_clear},
      {Py_tp_traverse, (void *)traced_traverse}, {Py_tp_members, members},
      {Py_tp_methods, methods},                {0, 0},
  };
  static PyType_Spec spec = {"hiprt.graphs.native.compiled.Traced", sizeof(traced_object), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  return traced_type = (PyTypeObject *)PyType_FromSpec(&spec);
}

PyMODINIT_FUNC PyInit_compiled(void) {
  static struct PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "hiprt.graphs.native.compiled", "Compiled functions.", -1, 0, 0, 0, 0, 0,
  };
  PyObject *module = PyModule_Create(&definition);
  PyTypeObject *compiled = module ? make_compiled() : 0, *traced = compiled ? make_traced() : 0;
  if (!traced || PyModule_AddObject(module, "Compiled", (PyObject *)compiled) ||
      PyModule_AddObject(module, "Traced", (PyObject *)traced))
    Py_CLEAR(module);
  return module;
}
