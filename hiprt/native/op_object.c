/* Ops as Python objects: functions that launch. While their thread traces, a call is recorded instead. */
#include "objects.h"

_Thread_local hiprt_py_trace *hiprt_py_current_trace;
PyTypeObject *hiprt_py_op_type;

static PyObject *call(PyObject *object, PyObject *args, PyObject *kwargs) {
  hiprt_py_op *self = (hiprt_py_op *)object;
  hiprt_py_trace *trace = hiprt_py_current_trace;
  if (!self->function) return PyErr_Format(PyExc_TypeError, "the op was not declared");
  return trace ? trace->add(trace, self, args, kwargs) : PyObject_Call(self->function, args, kwargs);
}

/* declare(function, name, names, defaults, positional) */
static PyObject *declare(PyObject *object, PyObject *args) {
  hiprt_py_op *self = (hiprt_py_op *)object;
  PyObject *function, *name, *names, *defaults;
  Py_ssize_t positional;
  if (!PyArg_ParseTuple(args, "OUO!O!n", &function, &name, &PyTuple_Type, &names, &PyTuple_Type, &defaults,
                        &positional))
    return 0;
  const Py_ssize_t count = PyTuple_Size(names);
  if (self->function || count != PyTuple_Size(defaults) || positional > count)
    return PyErr_Format(PyExc_ValueError, "declare: once, with a default for each parameter");
  if (!self->rules && !(self->rules = PyDict_New())) return 0;
  if (!(self->parameters = PyMem_Calloc(2 * (size_t)count + 1, sizeof *self->parameters))) return PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < count; i++) {
    self->parameters[i] = PyTuple_GetItem(names, i);
    self->parameters[count + i] = PyTuple_GetItem(defaults, i);
  }
  self->count = count;
  self->function = Py_NewRef(function);
  self->name = Py_NewRef(name);
  self->names = Py_NewRef(names);
  self->defaults = Py_NewRef(defaults);
  self->positional = positional;
  Py_RETURN_NONE;
}

static int traverse(PyObject *object, visitproc visit, void *arg) {
  hiprt_py_op *self = (hiprt_py_op *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->function);
  Py_VISIT(self->names);
  Py_VISIT(self->defaults);
  Py_VISIT(self->rules);
  for (int i = 0; i < HIPRT_RECENT_RULES; i++) {
    Py_VISIT(self->recent[i].key);
    Py_VISIT(self->recent[i].rule);
  }
  return 0;
}

static int clear(PyObject *object) {
  hiprt_py_op *self = (hiprt_py_op *)object;
  self->count = 0;
  Py_CLEAR(self->function);
  Py_CLEAR(self->name);
  Py_CLEAR(self->names);
  Py_CLEAR(self->defaults);
  Py_CLEAR(self->rules);
  for (int i = 0; i < HIPRT_RECENT_RULES; i++) {
    Py_CLEAR(self->recent[i].key);
    Py_CLEAR(self->recent[i].rule);
  }
  return 0;
}

static void dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  clear(object);
  PyMem_Free(((hiprt_py_op *)object)->parameters);
  hiprt_py_free(object);
}

PyTypeObject *hiprt_py_make_op(void) {
  static PyMemberDef members[] = {
      {"function", T_OBJECT, offsetof(hiprt_py_op, function), READONLY, 0},
      {"name", T_OBJECT, offsetof(hiprt_py_op, name), READONLY, 0},
      {"names", T_OBJECT, offsetof(hiprt_py_op, names), READONLY, 0},
      {"defaults", T_OBJECT, offsetof(hiprt_py_op, defaults), READONLY, 0},
      {"rules", T_OBJECT, offsetof(hiprt_py_op, rules), READONLY, 0},
      {"positional", T_PYSSIZET, offsetof(hiprt_py_op, positional), READONLY, 0},
      {0},
  };
  static PyMethodDef methods[] = {{"declare", declare, METH_VARARGS, 0}, {0}};
  static PyType_Slot slots[] = {
      {Py_tp_call, (void *)call},   {Py_tp_dealloc, (void *)dealloc}, {Py_tp_traverse, (void *)traverse},
      {Py_tp_clear, (void *)clear}, {Py_tp_members, members},         {Py_tp_methods, methods},
      {0, 0},
  };
  static PyType_Spec spec = {"hiprt.objects.Op", sizeof(hiprt_py_op), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  return hiprt_py_op_type = (PyTypeObject *)PyType_FromSpec(&spec);
}
