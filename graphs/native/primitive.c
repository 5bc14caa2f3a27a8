/* Primitives as Python objects of the extension module hiprt.graphs.native.trace. */
#include "primitive.h" /* first: Python.h says so */

PyTypeObject *hiprt_py_primitive_type;
static uint64_t values = 1; /* so far; 0 is the number of arrays in memory */

uint64_t hiprt_py_numbered(uint64_t count) {
  values += count;
  return values - count;
}

hiprt_py_primitive *hiprt_py_new_primitive(uint64_t trace, PyObject *op, PyObject *arguments, PyObject *inputs,
                                           PyObject *rule, uint64_t hash, uint64_t number) {
  allocfunc allocate = (allocfunc)PyType_GetSlot(hiprt_py_primitive_type, Py_tp_alloc);
  hiprt_py_primitive *made = inputs ? (hiprt_py_primitive *)allocate(hiprt_py_primitive_type, 0) : 0;
  if (!made) {
    Py_XDECREF(inputs);
    return 0;
  }
  made->op = Py_NewRef(op);
  made->arguments = Py_NewRef(arguments);
  made->inputs = inputs;
  made->rule = Py_NewRef(rule);
  made->trace = trace;
  made->number = number;
  made->hash = hash;
  return made;
}

PyObject *hiprt_py_leaf(const hiprt_py_array *value, PyObject *array) {
  PyObject *arguments = PyTuple_Pack(1, array);
  const uint64_t trace = ((const hiprt_py_primitive *)value->primitive)->trace, hash = hiprt_py_mixed(value->number, 0);
  hiprt_py_primitive *made =
      arguments ? hiprt_py_new_primitive(trace, Py_None, arguments, PyTuple_New(0), Py_None, hash, value->number) : 0;
  if (made) {
    made->holds = (hiprt_py_buffer *)Py_NewRef(((const hiprt_py_array *)array)->buffer);
    made->holds->leaves++;
  }
  Py_XDECREF(arguments);
  return (PyObject *)made;
}

/* replaced(op, arguments, inputs, rule): a primitive that makes the same value, and is another call. */
static PyObject *replaced_by(PyObject *object, PyObject *args) {
  const hiprt_py_primitive *self = (const hiprt_py_primitive *)object;
  PyObject *op, *arguments, *inputs, *rule;
  if (!PyArg_ParseTuple(args, "O!O!O!O!", hiprt_py_op_type, &op, &PyTuple_Type, &arguments, &PyTuple_Type, &inputs,
                        &PyTuple_Type, &rule))
    return 0;
  return (PyObject *)hiprt_py_new_primitive(self->trace, op, arguments, Py_NewRef(inputs), rule, self->hash, self->number);
}

static int primitive_traverse(PyObject *object, visitproc visit, void *arg) {
  hiprt_py_primitive *self = (hiprt_py_primitive *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->op);
  Py_VISIT(self->arguments);
  Py_VISIT(self->inputs);
  Py_VISIT(self->rule);
  Py_VISIT(self->results);
  Py_VISIT(self->mark);
  return 0;
}

static int primitive_clear(PyObject *object) {
  hiprt_py_primitive *self = (hiprt_py_primitive *)object;
  Py_CLEAR(self->op);
  Py_CLEAR(self->arguments);
  Py_CLEAR(self->inputs);
  Py_CLEAR(self->rule);
  Py_CLEAR(self->results);
  Py_CLEAR(self->mark);
  return 0;
}

static void primitive_dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  hiprt_py_buffer *holds = ((hiprt_py_primitive *)object)->holds;
  if (holds) holds->leaves--;
  Py_XDECREF((PyObject *)holds);
  primitive_clear(object);
  hiprt_py_free(object);
}

PyTypeObject *hiprt_py_make_primitive(void) {
  static PyMethodDef methods[] = {{"replaced", replaced_by, METH_VARARGS, 0}, {0}};
  static PyMemberDef members[] = {
      {"op", T_OBJECT, offsetof(hiprt_py_primitive, op), READONLY, 0},
      {"arguments", T_OBJECT, offsetof(hiprt_py_primitive, arguments), READONLY, 0},
      {"inputs", T_OBJECT, offsetof(hiprt_py_primitive, inputs), READONLY, 0},
      {"rule", T_OBJECT, offsetof(hiprt_py_primitive, rule), READONLY, 0},
      {"trace", T_ULONGLONG, offsetof(hiprt_py_primitive, trace), READONLY, 0},
      {"number", T_ULONGLONG, offsetof(hiprt_py_primitive, number), READONLY, 0},
      {"hash", T_ULONGLONG, offsetof(hiprt_py_primitive, hash), READONLY, 0},
      {"prefix", T_INT, offsetof(hiprt_py_primitive, prefix), 0, 0},
      {"stamp", T_ULONGLONG, offsetof(hiprt_py_primitive, stamp), READONLY, 0},
      {"mark", T_OBJECT, offsetof(hiprt_py_primitive, mark), READONLY, 0},
      {0},
  };
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, (void *)primitive_dealloc}, {Py_tp_traverse, (void *)primitive_traverse},
      {Py_tp_clear, (void *)primitive_clear},     {Py_tp_members, members},
      {Py_tp_methods, methods},                   {0, 0},
  };
  static PyType_Spec spec = {"hiprt.graphs.native.trace.Primitive", sizeof(hiprt_py_primitive), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
  return hiprt_py_primitive_type = (PyTypeObject *)PyType_FromSpec(&spec);
}
