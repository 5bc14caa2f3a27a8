/* Launchers: a kernel of the core as a Python object, which lays out the payload of a launch and launches in one
 * call. */
#include "launcher.h" /* first: Python.h says so */

#include <math.h>

#define MOST HIPRT_PY_PAYLOAD

typedef hiprt_py_launcher launcher;

PyTypeObject *hiprt_py_launcher_type;

/* open(kernel, formats, shared) */
static PyObject *open_launcher(PyObject *object, PyObject *const *args, Py_ssize_t count) {
  launcher *self = (launcher *)object;
  if (count != 3) return PyErr_Format(PyExc_TypeError, "open: 3 arguments are needed, %zd given", count);
  hiprt_kernel *kernel = PyLong_AsVoidPtr(args[0]);
  const char *formats = PyUnicode_AsUTF8AndSize(args[1], 0);
  if (!kernel || !formats) return 0;
  const unsigned long shared = PyLong_AsUnsignedLong(args[2]);
  if (PyErr_Occurred()) return 0;
  if (strlen(formats) != kernel->n_args || kernel->payload_size > MOST)
    return PyErr_Format(PyExc_ValueError, "%s: %u bytes of arguments, formats %s", kernel->name, kernel->payload_size,
                        formats);
  self->kernel = kernel;
  self->shared = (uint32_t)shared;
  memcpy(self->formats, formats, kernel->n_args + 1);
  Py_RETURN_NONE;
}

int hiprt_py_three(PyObject *sizes, uint32_t least, uint32_t *out) {
  if (!PyTuple_Check(sizes) || PyTuple_Size(sizes) != 3) return -1;
  for (Py_ssize_t i = 0; i < 3; i++) {
    PyObject *size = PyTuple_GetItem(sizes, i);
    Py_ssize_t n = PyLong_AsSsize_t(size); /* quicker than PyNumber_AsSsize_t, which takes other integers too */
    if (n < 0 && PyErr_Occurred()) {
      PyErr_Clear();
      n = PyNumber_AsSsize_t(size, PyExc_OverflowError);
    }
    if (n < (Py_ssize_t)least || n > UINT32_MAX) return -1;
    out[i] = (uint32_t)n;
  }
  return 0;
}

/* Whether a tuple will always be read as it is now. */
static int is_constant(PyObject *sizes) {
  for (Py_ssize_t i = 0; i < 3; i++)
    if (!PyLong_CheckExact(PyTuple_GetItem(sizes, i))) return 0;
  return PyTuple_CheckExact(sizes);
}

/* Read grid (0) or block (1) as hiprt_py_three does; the tuple that came last is read once. */
static int read_sizes(launcher *self, int which, PyObject *sizes, uint32_t *out) {
  if (sizes == self->sizes[which]) {
    memcpy(out, self->known[which], sizeof self->known[which]);
    return 0;
  }
  if (hiprt_py_three(sizes, (uint32_t)which, out)) return -1;
  if (!is_constant(sizes)) return 0;
  PyObject *before = self->sizes[which];
  self->sizes[which] = Py_NewRef(sizes);
  memcpy(self->known[which], out, sizeof self->known[which]);
  Py_XDECREF(before);
  return 0;
}

/* Pack any value: Function.packed converts it, or says what is wrong. */
static int pack_any(const launcher *self, uint32_t argument, PyObject *value, char *cell) {
  PyErr_Clear();
  PyObject *packed = PyObject_CallMethod((PyObject *)self, "packed", "IO", argument, value);
  if (packed) memcpy(cell, PyBytes_AsString(packed), self->kernel->args[argument].size);
  Py_XDECREF(packed);
  return packed ? 0 : -1;
}

static int pack(const launcher *self, uint32_t argument, PyObject *value, char *cell) {
  const char format = self->formats[argument];
  const uint32_t size = self->kernel->args[argument].size;
  if (format == 'f') {
    double number = PyFloat_AsDouble(value);
    float narrow = (float)number;
    memcpy(cell, &narrow, 4);
    if ((number != -1 || !PyErr_Occurred()) && (isinf(number) || !isinf(narrow))) return 0;
  } else if (format == 'i' || format == 'I' || format == 'q') {
    const int is_number = PyLong_CheckExact(value) || PyLong_Check(value);
    long long number = is_number ? PyLong_AsLongLong(value) : -1;
    long long low = format == 'i' ? INT32_MIN : 0, high = format == 'i' ? INT32_MAX : UINT32_MAX;
    memcpy(cell, &number, format == 'q' ? 8 : 4);
    const int is_read = is_number && (number != -1 || !PyErr_Occurred());
    if (is_read && (format == 'q' || (low <= number && number <= high))) return 0;
  } else if (format == 's' && PyBytes_Check(value) && PyBytes_Size(value) == (Py_ssize_t)size) {
    memcpy(cell, PyBytes_AsString(value), size);
    return 0;
  }
  return pack_any(self, argument, value, cell);
}

/* Whether a value is an array; the class that came last is not asked again. */
static int is_array(PyObject *value) {
  static PyTypeObject *known; /* a reference, so that no other class takes its address */
  PyTypeObject *type = Py_TYPE(value);
  if (type == known) return 1;
  if (!PyType_IsSubtype(type, hiprt_py_array_type)) return 0;
  PyTypeObject *before = known;
  known = (PyTypeObject *)Py_NewRef((PyObject *)type);
  Py_XDECREF(before);
  return 1;
}

/* Raise for the value of a buffer: Function.refuse names the argument. */
static int refuse(const launcher *self, uint32_t argument, PyObject *value, const char *why) {
  Py_XDECREF(PyObject_CallMethod((PyObject *)self, "refuse", "IOz", argument, value, why));
  return -1;
}

int hiprt_py_pack_array(const launcher *self, uint32_t argument, uint32_t buffer, PyObject *value, char *payload) {
  const hiprt_kernel *kernel = self->kernel;
  const hiprt_py_array *array = (const hiprt_py_array *)value;
  if (!is_array(value) || !array->buffer) return refuse(self, argument, value, 0);
  if (array->primitive)
    return refuse(self, argument, value,
                  "is a traced value, which is not in memory: it was used after its trace, or by a kernel that the trace "
                  "does not see, as it sees those of hip_kernel and metal_kernel");
  if (kernel->args[argument].access & HIPRT_WRITE && ((const hiprt_py_buffer *)array->buffer)->is_readonly)
    return refuse(self, argument, value, "is written, and its memory is read-only: pass a copy");
  char *args = payload + sizeof(hiprt_dims);
  const hiprt_range touched = {array->start, array->end};
  memcpy(args + kernel->offsets[argument], &array->address, sizeof array->address);
  memcpy(args + kernel->args_size + buffer * sizeof touched, &touched, sizeof touched);
  return 0;
}

int hiprt_py_pack_value(const launcher *self, uint32_t argument, PyObject *value, char *payload) {
  const hiprt_kernel *kernel = self->kernel;
  char *cell = payload + sizeof(hiprt_dims) + kernel->offsets[argument];
  /* An array might be converted to a number, but only by waiting for the device. */
  if (!PyFloat_CheckExact(value) && !PyLong_CheckExact(value) && PyObject_TypeCheck(value, hiprt_py_array_type))
    return pack_any(self, argument, value, cell);
  return pack(self, argument, value, cell);
}

/* Write the arguments and ranges of a payload. Zeros between arguments take part when nodes are compared. */
static int pack_all(const launcher *self, PyObject *const *values, char *payload) {
  const hiprt_kernel *kernel = self->kernel;
  memset(payload + sizeof(hiprt_dims), 0, kernel->args_size);
  for (uint32_t i = 0, buffer = 0; i < kernel->n_args; i++) {
    const int is_buffer = kernel->args[i].access != 0;
    if (is_buffer ? hiprt_py_pack_array(self, i, buffer, values[i], payload)
                  : hiprt_py_pack_value(self, i, values[i], payload))
      return -1;
    buffer += is_buffer;
  }
  return 0;
}

/* Keep the buffers of a launch that is to be recorded alive, except those in the step's own memory, which lives with the
 * step. */
static int keep(const launcher *self, const hiprt_py_stream *stream, PyObject *const *values) {
  const hiprt_kernel *kernel = self->kernel;
  for (uint32_t i = 0; i < kernel->n_args; i++)
    if (kernel->args[i].access &&
        hiprt_py_keep(stream, ((const hiprt_py_array *)values[i])->buffer, kernel->args[i].access))
      return -1;
  return 0;
}

static int are_settled(const launcher *self, PyObject *const *values) {
  const hiprt_kernel *kernel = self->kernel;
  for (uint32_t i = 0; i < kernel->n_args; i++)
    if (kernel->args[i].access && !hiprt_py_is_settled((hiprt_py_buffer *)((const hiprt_py_array *)values[i])->buffer))
      return 0;
  return 1;
}

static int list_touches(const launcher *self, PyObject *const *values, hiprt_touch *touches, uint32_t *out_count) {
  const hiprt_kernel *kernel = self->kernel;
  *out_count = 0;
  for (uint32_t i = 0; i < kernel->n_args; i++) {
    if (!kernel->args[i].access) continue;
    hiprt_uses *uses = hiprt_py_uses((hiprt_py_buffer *)((const hiprt_py_array *)values[i])->buffer);
    if (!uses) return -1;
    touches[(*out_count)++] = (hiprt_touch){uses, kernel->args[i].access};
  }
  return 0;
}

/* Launch behind what other streams do with the buffers. Return the status; -1 with an exception. */
static int launch_in_order(const launcher *self, hiprt_stream *stream, const char *payload, PyObject *const *values,
                           int *out_status) {
  hiprt_touch touches[HIPRT_MAX_ARGS];
  uint32_t count;
  if (list_touches(self, values, touches, &count)) return -1;
  Py_BEGIN_ALLOW_THREADS;
  *out_status = hiprt_order_begin(stream, touches, count);
  if (!*out_status) {
    *out_status = hiprt_launch_payload(stream, self->kernel, payload);
    hiprt_order_end(stream, touches, count);
  }
  Py_END_ALLOW_THREADS;
  return 0;
}

/* Note a launch during which a second stream came. */
static int note(const launcher *self, hiprt_stream *stream, PyObject *const *values) {
  hiprt_touch touches[HIPRT_MAX_ARGS];
  uint32_t count;
  if (list_touches(self, values, touches, &count)) return -1;
  Py_BEGIN_ALLOW_THREADS;
  hiprt_order_note(stream, touches, count);
  Py_END_ALLOW_THREADS;
  return 0;
}

static int record(const launcher *self, const hiprt_py_stream *stream, const char *payload, PyObject *const *values,
                  int *out_status) {
  if (keep(self, stream, values)) return -1;
  *out_status = hiprt_launch(hiprt_py_core(stream), self->kernel, payload, self->kernel->payload_size);
  return 0;
}

/* Record a launch for which there was no room, with the addresses that its arrays have by then; raise what else the
 * status means. */
static int record_again(const launcher *self, const hiprt_py_stream *stream, int status, const char *payload,
                        PyObject *const *values) {
  const Py_ssize_t size = self->kernel->payload_size;
  PyObject *moved = PyObject_CallMethod((PyObject *)self, "make_room", "Oiy#", stream, status, payload, size);
  if (!moved) return -1;
  _Alignas(16) char again[MOST];
  memcpy(again, PyBytes_AsString(moved), (size_t)size);
  Py_DECREF(moved);
  if (record(self, stream, again, values, &status)) return -1;
  if (status) hiprt_py_raise(status);
  return status ? -1 : 0;
}

_Thread_local PyObject *hiprt_py_noted __attribute__((tls_model("initial-exec")));

/* Append a launch to the thread's list. */
static int tell(const launcher *self, const char *payload, PyObject *const *values) {
  const hiprt_kernel *kernel = self->kernel;
  PyObject *arrays = PyTuple_New(kernel->n_args);
  for (uint32_t i = 0; arrays && i < kernel->n_args; i++)
    PyTuple_SetItem(arrays, i, Py_NewRef(kernel->args[i].access ? values[i] : Py_None));
  PyObject *told = arrays ? Py_BuildValue("(Oy#O)", self, payload, (Py_ssize_t)kernel->payload_size, arrays) : 0;
  const int status = told ? PyList_Append(hiprt_py_noted, told) : -1;
  Py_XDECREF(arrays);
  Py_XDECREF(told);
  return status;
}

int hiprt_py_submit(const launcher *self, hiprt_py_stream *stream, const char *payload, PyObject *const *values) {
  hiprt_stream *queue = hiprt_py_core(stream);
  int status;
  if (hiprt_py_noted && tell(self, payload, values)) return -1;
  if (hiprt_stream_records(queue)) {
    if (record(self, stream, payload, values, &status)) return -1;
  } else if (!are_settled(self, values)) {
    return -1;
  } else if (hiprt_order_is_needed(queue)) {
    if (launch_in_order(self, queue, payload, values, &status)) return -1;
  } else {
    Py_BEGIN_ALLOW_THREADS;
    status = hiprt_launch_payload(queue, self->kernel, payload);
    Py_END_ALLOW_THREADS;
    if (hiprt_order_is_needed(queue) && note(self, queue, values)) return -1;
  }
  return status ? record_again(self, stream, status, payload, values) : 0;
}

/* launch(stream, grid, block, *values, shared) */
static PyObject *launch(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
  launcher *self = (launcher *)object;
  const hiprt_kernel *kernel = self->kernel;
  hiprt_py_stream *stream = count ? (hiprt_py_stream *)args[0] : 0;
  Py_ssize_t named = keywords ? PyTuple_Size(keywords) : 0;
  if (count != (Py_ssize_t)kernel->n_args + 3 ||
      (named && (named > 1 || PyUnicode_CompareWithASCIIString(PyTuple_GetItem(keywords, 0), "shared"))))
    return PyErr_Format(PyExc_TypeError, "%s: stream, grid, block and %u arguments are needed, and shared may be",
                        kernel->name, kernel->n_args);
  if (!PyObject_TypeCheck(args[0], hiprt_py_stream_type) || !stream->address)
    return PyErr_Format(PyExc_TypeError, "%s: %R is not a stream", kernel->name, args[0]);
  if (hiprt_py_step_aside(stream)) return 0;
  _Alignas(16) char payload[MOST];
  hiprt_dims dims = {.zero = 0};
  Py_ssize_t shared = named ? PyNumber_AsSsize_t(args[count], PyExc_OverflowError) : self->shared;
  if (read_sizes(self, 0, args[1], dims.grid) || read_sizes(self, 1, args[2], dims.block) || shared < 0 || shared > UINT32_MAX) {
    if (PyErr_Occurred()) return 0;
    return PyErr_Format(PyExc_ValueError, "%s: grid %R, block %R: three sizes each, blocks of at least one thread",
                        kernel->name, args[1], args[2]);
  }
  if (!dims.grid[0] || !dims.grid[1] || !dims.grid[2]) Py_RETURN_NONE;
  dims.shared = (uint32_t)shared;
  memcpy(payload, &dims, sizeof dims);
  if (pack_all(self, args + 3, payload) || hiprt_py_submit(self, stream, payload, args + 3)) return 0;
  Py_RETURN_NONE;
}

static void dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  for (int i = 0; i < 2; i++) Py_XDECREF(((launcher *)object)->sizes[i]); /* tuples of numbers are in no cycle */
  hiprt_py_free(object);
}

static int traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(object));
  return 0;
}

PyTypeObject *hiprt_py_make_launcher(void) {
  static PyMethodDef methods[] = {
      {"open", (PyCFunction)(void (*)(void))open_launcher, METH_FASTCALL, 0},
      {"launch", (PyCFunction)(void (*)(void))launch, METH_FASTCALL | METH_KEYWORDS, 0},
      {0},
  };
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, (void *)dealloc}, {Py_tp_traverse, (void *)traverse}, {Py_tp_methods, methods}, {0, 0}};
  static PyType_Spec spec = {"hiprt.objects.Launcher", sizeof(launcher), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  return hiprt_py_launcher_type = (PyTypeObject *)PyType_FromSpec(&spec);
}
