/* Buffers as Python objects: memory that is given back when the last reference to it is gone. */
#include "objects.h"

PyTypeObject *hiprt_py_buffer_type;

hiprt_py_buffer *hiprt_py_new_buffer(PyTypeObject *type) {
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  return (hiprt_py_buffer *)allocate(type, 0);
}

static PyObject *new_buffer(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"address", "nbytes", "device", "free", "owner", "pool", 0};
  unsigned long long address, nbytes;
  int device;
  PyObject *given[3] = {Py_None, Py_None, Py_None};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "KKi|OOO", names, &address, &nbytes, &device, given, given + 1,
                                   given + 2))
    return 0;
  hiprt_py_buffer *self = hiprt_py_new_buffer(type);
  if (!self) return 0;
  self->address = address;
  self->nbytes = nbytes;
  self->device = device;
  for (int i = 0; i < 3; i++) Py_INCREF(given[i]);
  self->free = given[0];
  self->owner = given[1];
  self->pool = given[2];
  return (PyObject *)self;
}

static void give(hiprt_py_buffer *self) {
  void (*function)(void *, void *) = self->give;
  self->give = 0;
  if (function) function(self->books, self->block);
}

/* Python code is called only for memory that Python code frees. */
static void finalize(PyObject *object) {
  hiprt_py_buffer *self = (hiprt_py_buffer *)object;
  give(self);
  if (!self->free || self->free == Py_None) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject *done = PyObject_CallMethod(object, "release", 0);
  if (!done) PyErr_WriteUnraisable(object);
  Py_XDECREF(done);
  PyErr_Restore(type, value, trace);
}

static int traverse(PyObject *object, visitproc visit, void *arg) {
  hiprt_py_buffer *self = (hiprt_py_buffer *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->free);
  Py_VISIT(self->owner);
  Py_VISIT(self->pool);
  Py_VISIT(self->views);
  return 0;
}

static int clear(PyObject *object) {
  hiprt_py_buffer *self = (hiprt_py_buffer *)object;
  Py_CLEAR(self->free);
  Py_CLEAR(self->owner);
  Py_CLEAR(self->pool);
  Py_CLEAR(self->views);
  return 0;
}

static void dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  give((hiprt_py_buffer *)object);
  clear(object);
  hiprt_py_free(object);
}

PyTypeObject *hiprt_py_make_buffer(void) {
  static PyMemberDef members[] = {
      {"address", T_ULONGLONG, offsetof(hiprt_py_buffer, address), 0, 0},
      {"nbytes", T_ULONGLONG, offsetof(hiprt_py_buffer, nbytes), 0, 0},
      {"device", T_INT, offsetof(hiprt_py_buffer, device), 0, 0},
      {"free", T_OBJECT, offsetof(hiprt_py_buffer, free), 0, 0},
      {"owner", T_OBJECT, offsetof(hiprt_py_buffer, owner), 0, 0},
      {"pool", T_OBJECT, offsetof(hiprt_py_buffer, pool), 0, 0},
      {"views", T_OBJECT, offsetof(hiprt_py_buffer, views), 0, 0},
      {"is_readonly", T_BOOL, offsetof(hiprt_py_buffer, is_readonly), 0, 0},
      {0},
  };
  static PyType_Slot slots[] = {
      {Py_tp_new, (void *)new_buffer},    {Py_tp_dealloc, (void *)dealloc}, {Py_tp_traverse, (void *)traverse},
      {Py_tp_clear, (void *)clear},       {Py_tp_members, members},         {Py_tp_finalize, (void *)finalize},
      {0, 0},
  };
  static PyType_Spec spec = {"hiprt.objects.Buffer", sizeof(hiprt_py_buffer), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  return hiprt_py_buffer_type = (PyTypeObject *)PyType_FromSpec(&spec);
}
