/* Host views: the buffer protocol of Python for objects whose elements a method copies to the host.
 *
 * This is the extension module hiprt.graphs.native.host_view. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

/* The stable interface has the buffer protocol from Python 3.11; this is how 3.10 lays it out as well. */
#if defined(Py_LIMITED_API) && Py_LIMITED_API + 0 < 0x030B0000
typedef struct {
  void *buf;
  PyObject *obj;
  Py_ssize_t len, itemsize;
  int readonly, ndim;
  char *format;
  Py_ssize_t *shape, *strides, *suboffsets;
  void *internal;
} view;
enum { GET_BUFFER = 1, RELEASE_BUFFER = 2 };
#else
typedef Py_buffer view;
enum { GET_BUFFER = Py_bf_getbuffer, RELEASE_BUFFER = Py_bf_releasebuffer };
#endif

/* What a consumer asks for, of the protocol's flags. */
enum { FORMAT = 0x04, ND = 0x08, STRIDES = 0x10 | ND, CONTIGUOUS_C = 0x20 | STRIDES, CONTIGUOUS_F = 0x40 | STRIDES };

/* What a view holds until it is released. */
typedef struct {
  PyObject *copy; /* the object whose memory is shown */
  char format[16];
  Py_ssize_t sizes[]; /* the shape, then the strides in bytes */
} shown;

static int is_packed(const view *to, int is_column_major) {
  Py_ssize_t step = to->itemsize;
  for (int i = 0; i < to->ndim; i++) {
    const int axis = is_column_major ? i : to->ndim - 1 - i;
    if (to->shape[axis] > 1 && to->strides[axis] != step) return 0;
    step *= to->shape[axis];
  }
  return 1;
}

static int fill(view *to, PyObject *self, PyObject *found, int flags) {
  PyObject *copy, *shape, *strides;
  unsigned long long address;
  const char *format;
  Py_ssize_t itemsize;
  if (!PyArg_ParseTuple(found, "OKnsO!O!", &copy, &address, &itemsize, &format, &PyTuple_Type, &shape, &PyTuple_Type,
                        &strides))
    return -1;
  const Py_ssize_t ndim = PyTuple_Size(shape);
  shown *kept = PyTuple_Size(strides) == ndim ? PyMem_Calloc(1, sizeof(shown) + 2 * (size_t)ndim * sizeof(Py_ssize_t)) : 0;
  if (!kept) {
    PyErr_NoMemory();
    return -1;
  }
  strncpy(kept->format, format, sizeof(kept->format) - 1);
  *to = (view){(void *)(uintptr_t)address, 0, itemsize, itemsize, 0, (int)ndim, kept->format, 0, 0, 0, kept};
  to->shape = kept->sizes;
  to->strides = kept->sizes + ndim;
  for (Py_ssize_t i = 0; i < ndim; i++) {
    to->shape[i] = PyLong_AsSsize_t(PyTuple_GetItem(shape, i));
    to->strides[i] = PyLong_AsSsize_t(PyTuple_GetItem(strides, i));
    to->len *= to->shape[i];
  }
  const int wants_c = (flags & CONTIGUOUS_C) == CONTIGUOUS_C || (flags & STRIDES) != STRIDES;
  const int wants_f = (flags & CONTIGUOUS_F) == CONTIGUOUS_F;
  const int is_refused = (wants_c && !is_packed(to, 0)) || (wants_f && !is_packed(to, 1));
  if (PyErr_Occurred() || is_refused) {
    if (is_refused) PyErr_SetString(PyExc_BufferError, "the elements of the array do not lie in order without gaps");
    PyMem_Free(kept);
    return -1;
  }
  if (!(flags & FORMAT)) to->format = 0;
  if (!(flags & ND)) to->shape = 0;
  if ((flags & STRIDES) != STRIDES) to->strides = 0;
  kept->copy = Py_NewRef(copy);
  to->obj = Py_NewRef(self);
  return 0;
}

static int get_buffer(PyObject *self, view *to, int flags) {
  memset(to, 0, sizeof(*to));
  PyObject *found = PyObject_CallMethod(self, "host_view", 0);
  const int status = found ? fill(to, self, found, flags) : -1;
  Py_XDECREF(found);
  return status;
}

static void release_buffer(PyObject *self, view *to) {
  shown *kept = to->internal;
  if (!kept) return;
  Py_DECREF(kept->copy);
  PyMem_Free(kept);
}

PyMODINIT_FUNC PyInit_host_view(void) {
  static PyType_Slot slots[] = {{GET_BUFFER, (void *)get_buffer}, {RELEASE_BUFFER, (void *)release_buffer}, {0, 0}};
  static PyType_Spec spec = {"hiprt.graphs.native.host_view.HostView", sizeof(PyObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  static struct PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "hiprt.graphs.native.host_view", "Host views.", -1, 0, 0, 0, 0, 0,
  };
  PyObject *module = PyModule_Create(&definition);
  PyObject *type = module ? PyType_FromSpec(&spec) : 0;
  if (!type || PyModule_AddObject(module, "HostView", type)) Py_CLEAR(module);
  return module;
}
