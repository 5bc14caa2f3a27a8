/* The requests of an arena while a step records: buffers at provisional addresses, each made in one call from Python.
 *
 * This is the extension module hiprt.allocator.native.requests. */
#include "objects.h" /* first: Python.h says so */

/* A request, and the buffer that stands for it. */
typedef struct {
  unsigned long long start, end;
  hiprt_py_buffer *buffer; /* borrowed; NULL once it is gone */
} request;

/* Base of hiprt.allocator.arena.Arena. */
typedef struct {
  PyObject_HEAD
  PyTypeObject *type;               /* of buffers */
  hiprt_uses *uses;                 /* who works with the memory of the step */
  unsigned long long next, spacing; /* the address of the next request, and what it is a multiple of */
  request *all;
  size_t count, room;
  int device; /* counted from 1: a step is on one; 0 before the first request */
} requests_object;

/* A buffer is gone before its request had memory. */
static int forget(void *requests, void *number, hiprt_uses *uses) {
  ((requests_object *)requests)->all[(size_t)(uintptr_t)number].buffer = 0;
  return 0;
}

static int grow(requests_object *self) {
  const size_t room = self->room ? 2 * self->room : 64;
  request *all = PyMem_Realloc(self->all, room * sizeof *all);
  if (!all) return -1;
  self->all = all;
  self->room = room;
  return 0;
}

static int device_of(PyObject *stream) {
  PyObject *device = PyObject_GetAttrString(stream, "device");
  PyObject *index = device ? PyObject_GetAttrString(device, "index") : 0;
  const int number = index ? (int)PyLong_AsLong(index) : -1;
  Py_XDECREF(device);
  Py_XDECREF(index);
  return number;
}

/* allocate(nbytes, stream) */
static PyObject *allocate(PyObject *object, PyObject *args) {
  requests_object *self = (requests_object *)object;
  PyObject *size, *stream;
  if (!PyArg_ParseTuple(args, "O!O", &PyLong_Type, &size, &stream)) return 0;
  if (!self->type) return PyErr_Format(PyExc_RuntimeError, "the requests have no addresses yet");
  const unsigned long long nbytes = PyLong_AsUnsignedLongLong(size);
  unsigned long long next = self->next;
  if (!PyErr_Occurred() && !self->device) self->device = device_of(stream) + 1;
  if (PyErr_Occurred()) return 0;
  if (nbytes >= -2 * self->spacing || __builtin_add_overflow(next, nbytes + 2 * self->spacing, &next))
    return PyErr_Format(PyExc_OverflowError, "%llu bytes do not fit into the addresses that are left", nbytes);
  if (self->count == self->room && grow(self)) return PyErr_NoMemory();
  hiprt_py_buffer *made = hiprt_py_new_buffer(self->type);
  if (!made) return 0;
  made->address = self->next;
  made->nbytes = nbytes;
  made->device = self->device - 1;
  made->pool = Py_NewRef(object);
  made->is_new = (char)hiprt_order_is_on();
  hiprt_uses_retain(made->uses = self->uses);
  if (!(made->views = PyList_New(0))) {
    Py_DECREF(made);
    return 0;
  }
  made->give = forget;
  made->books = self;
  made->block = (void *)(uintptr_t)self->count;
  self->all[self->count++] = (request){self->next, self->next + nbytes, made};
  self->next += (nbytes + 2 * self->spacing - 1) / self->spacing * self->spacing;
  return (PyObject *)made;
}

/* found(): the extents of the requests as hiprt_range, their sizes, and (number, buffer) of each whose buffer is not gone. */
static PyObject *found(PyObject *object, PyObject *unused) {
  const requests_object *self = (const requests_object *)object;
  PyObject *extents = PyBytes_FromStringAndSize(0, (Py_ssize_t)(self->count * sizeof(hiprt_range)));
  PyObject *sizes = PyList_New((Py_ssize_t)self->count), *alive = PyList_New(0);
  int status = extents && sizes && alive ? 0 : -1;
  hiprt_range *to = status ? 0 : (hiprt_range *)PyBytes_AsString(extents);
  for (size_t i = 0; !status && i < self->count; i++) {
    const request *each = &self->all[i];
    to[i] = (hiprt_range){each->start, each->end};
    PyObject *size = PyLong_FromUnsignedLongLong(each->end - each->start);
    status = size ? PyList_SetItem(sizes, (Py_ssize_t)i, size) : -1;
    if (status || !each->buffer) continue;
    PyObject *one = Py_BuildValue("(nO)", (Py_ssize_t)i, (PyObject *)each->buffer);
    status = one ? PyList_Append(alive, one) : -1;
    Py_XDECREF(one);
  }
  if (!status) return Py_BuildValue("(NNN)", extents, sizes, alive);
  Py_XDECREF(extents);
  Py_XDECREF(sizes);
  Py_XDECREF(alive);
  return 0;
}

/* moves(offsets, address): where the memory of the requests is, in a block at this address, as hiprt_move. A move includes
 * the gap behind its request: addresses one past the last move too. */
static PyObject *moves(PyObject *object, PyObject *args) {
  const requests_object *self = (const requests_object *)object;
  PyObject *offsets;
  unsigned long long address;
  if (!PyArg_ParseTuple(args, "O!K", &PyTuple_Type, &offsets, &address)) return 0;
  if (PyTuple_Size(offsets) != (Py_ssize_t)self->count)
    return PyErr_Format(PyExc_ValueError, "each request needs an offset");
  PyObject *made = PyBytes_FromStringAndSize(0, (Py_ssize_t)(self->count * sizeof(hiprt_move)));
  hiprt_move *to = made ? (hiprt_move *)PyBytes_AsString(made) : 0;
  for (size_t i = 0; made && i < self->count; i++) {
    const unsigned long long offset = PyLong_AsUnsignedLongLong(PyTuple_GetItem(offsets, (Py_ssize_t)i));
    to[i] = (hiprt_move){self->all[i].start, self->all[i].end + self->spacing - 1, address + offset};
    if (PyErr_Occurred()) Py_CLEAR(made);
  }
  return made;
}

/* clear(): forget the requests so far; their buffers have memory, or never will. */
static PyObject *clear(PyObject *object, PyObject *unused) {
  requests_object *self = (requests_object *)object;
  for (size_t i = 0; i < self->count; i++)
    if (self->all[i].buffer) self->all[i].buffer->give = 0;
  self->count = 0;
  Py_RETURN_NONE;
}

/* open(type of buffers, uses, address, spacing): from now on requests get addresses from this one on. */
static PyObject *open_at(PyObject *object, PyObject *args) {
  requests_object *self = (requests_object *)object;
  PyTypeObject *type;
  unsigned long long uses;
  if (!PyArg_ParseTuple(args, "O!KKK", &PyType_Type, &type, &uses, &self->next, &self->spacing)) return 0;
  if (self->type || !PyType_IsSubtype(type, hiprt_py_buffer_type) || !self->spacing)
    return PyErr_Format(PyExc_ValueError, "a type of buffers and a spacing are needed, once");
  self->type = (PyTypeObject *)Py_NewRef((PyObject *)type);
  hiprt_uses_retain(self->uses = (hiprt_uses *)(uintptr_t)uses);
  Py_RETURN_NONE;
}

/* The addresses of the requests: the first, and one past the last; zeros without any. */
static PyObject *get_unsettled(PyObject *object, void *closure) {
  const requests_object *self = (const requests_object *)object;
  if (!self->count) return Py_BuildValue("(ii)", 0, 0);
  return Py_BuildValue("(KK)", self->all[0].start, self->next);
}

static int requests_traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT((PyObject *)((requests_object *)object)->type);
  return 0;
}

static void requests_dealloc(PyObject *object) {
  requests_object *self = (requests_object *)object;
  PyObject_GC_UnTrack(object);
  hiprt_uses_release(self->uses);
  PyMem_Free(self->all);
  Py_XDECREF((PyObject *)self->type);
  hiprt_py_free(object);
}

PyMODINIT_FUNC PyInit_requests(void) {
  static PyMethodDef methods[] = {{"allocate", allocate, METH_VARARGS, 0}, {"found", found, METH_NOARGS, 0},
                                  {"moves", moves, METH_VARARGS, 0},       {"clear", clear, METH_NOARGS, 0},
                                  {"open", open_at, METH_VARARGS, 0},      {0}};
  static PyGetSetDef getset[] = {{"unsettled", get_unsettled, 0, 0, 0}, {0}};
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, (void *)requests_dealloc}, {Py_tp_traverse, (void *)requests_traverse},
      {Py_tp_methods, methods},                  {Py_tp_getset, getset},
      {0, 0},
  };
  static PyType_Spec spec = {"hiprt.allocator.native.requests.Requests", sizeof(requests_object), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  static struct PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "hiprt.allocator.native.requests", "Requests of an arena.", -1, 0, 0, 0, 0, 0,
  };
  PyObject *module = PyModule_Create(&definition), *type = module ? PyType_FromSpec(&spec) : 0;
  if (!type || PyModule_AddObject(module, "Requests", type)) Py_CLEAR(module);
  return module;
}
