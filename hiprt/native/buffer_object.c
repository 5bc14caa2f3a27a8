/* Buffers as Python objects: memory that is given back when the last reference to it is gone. */
#include "objects.h"

#include "status.h"

PyTypeObject *hiprt_py_buffer_type;
static PyObject *release; /* the method's name, made ahead: what is given back must not need memory */

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
  self->is_new = (char)hiprt_order_is_on();
  return (PyObject *)self;
}

hiprt_uses *hiprt_py_uses(hiprt_py_buffer *buffer) {
  if (!buffer->uses && hiprt_uses_create(buffer->is_new, &buffer->uses)) hiprt_py_raise(HIPRT_E_MEMORY);
  return buffer->uses;
}

int hiprt_py_is_settled(const hiprt_py_buffer *buffer) {
  if (!buffer->views || buffer->views == Py_None) return 1;
  PyErr_Format(PyExc_RuntimeError,
               "the array belongs to a step that another thread is still recording: wait until that call returns");
  return 0;
}

/* Buffers that went when their stream could not be made to wait for what others do with the memory; NULL: none. */
static PyObject *late;

/* share(uses): from now on the memory is part of a larger one with these, a hiprt_uses. */
static PyObject *share(PyObject *object, PyObject *address) {
  hiprt_py_buffer *self = (hiprt_py_buffer *)object;
  hiprt_uses *uses = PyLong_AsVoidPtr(address), *before = self->uses;
  if (!uses) return 0;
  hiprt_uses_retain(uses);
  self->uses = uses;
  hiprt_uses_release(before);
  Py_RETURN_NONE;
}

/* belong(stream): what `free` does is ordered behind the work of this stream, and so behind that of all others. */
static PyObject *belong(PyObject *object, PyObject *stream) {
  hiprt_py_buffer *self = (hiprt_py_buffer *)object;
  if (!PyObject_TypeCheck(stream, hiprt_py_stream_type)) return PyErr_Format(PyExc_TypeError, "belong: a stream is needed");
  hiprt_stream *before = self->home;
  self->home = hiprt_py_core((hiprt_py_stream *)stream);
  hiprt_stream_retain(self->home);
  hiprt_stream_release(before);
  Py_RETURN_NONE;
}

static PyObject *get_uses(PyObject *object, void *closure) {
  hiprt_uses *uses = hiprt_py_uses((hiprt_py_buffer *)object);
  return uses ? PyLong_FromVoidPtr(uses) : 0;
}

/* Give the memory back, behind what other streams do with it. Return a status; on failure the buffer still has it.
 * Python code is called only for memory that Python code frees. */
static int give_back(hiprt_py_buffer *self) {
  int status = self->give ? self->give(self->books, self->block, self->uses) : 0;
  if (status) return status;
  self->give = 0;
  if (!self->free || self->free == Py_None) return 0;
  if (self->home && self->uses && (status = hiprt_order_take_back(self->home, self->uses))) return status;
  PyObject *done = PyObject_CallMethodObjArgs((PyObject *)self, release, NULL);
  if (!done) PyErr_WriteUnraisable((PyObject *)self);
  Py_XDECREF(done);
  return 0;
}

static void give_back_later(PyObject *buffer) {
  if (!late) late = PyList_New(0);
  if (!late || PyList_Append(late, buffer)) PyErr_WriteUnraisable(buffer);
}

/* Give back what could not be given back before. */
static void give_back_late(void) {
  PyObject *buffers = late;
  int status = 0;
  late = 0;
  for (Py_ssize_t i = 0; i < PyList_Size(buffers); i++) {
    PyObject *buffer = PyList_GetItem(buffers, i);
    if (!status) status = give_back((hiprt_py_buffer *)buffer);
    if (status) give_back_later(buffer);
  }
  Py_DECREF(buffers);
}

static void finalize(PyObject *object) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (late) give_back_late();
  if (give_back((hiprt_py_buffer *)object)) give_back_later(object);
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
  clear(object);
  hiprt_uses_release(((hiprt_py_buffer *)object)->uses);
  hiprt_stream_release(((hiprt_py_buffer *)object)->home);
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
  static PyMethodDef methods[] = {{"share", share, METH_O, 0}, {"belong", belong, METH_O, 0}, {0}};
  static PyGetSetDef getset[] = {{"uses", get_uses, 0, 0, 0}, {0}};
  static PyType_Slot slots[] = {
      {Py_tp_new, (void *)new_buffer},    {Py_tp_dealloc, (void *)dealloc}, {Py_tp_traverse, (void *)traverse},
      {Py_tp_clear, (void *)clear},       {Py_tp_members, members},         {Py_tp_finalize, (void *)finalize},
      {Py_tp_methods, methods},           {Py_tp_getset, getset},           {0, 0},
  };
  static PyType_Spec spec = {"hiprt.objects.Buffer", sizeof(hiprt_py_buffer), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  if (!release && !(release = PyUnicode_InternFromString("release"))) return 0;
  return hiprt_py_buffer_type = (PyTypeObject *)PyType_FromSpec(&spec);
}
