/* Streams as Python objects, with what a launch needs of them, and the stream that each thread has chosen. */
#include "objects.h"

#include "status.h"

PyTypeObject *hiprt_py_stream_type;

#define HERE __attribute__((tls_model("initial-exec")))
static _Thread_local PyObject *chosen HERE; /* the stream that this thread launches on; NULL: its device's default stream */
static _Thread_local int device HERE; /* the device that this thread chose, counted from 1; 0: none */

/* choose(stream or None): what this thread launches on; return what it was. */
static PyObject *choose(PyObject *type, PyObject *stream) {
  PyObject *before = chosen ? chosen : Py_NewRef(Py_None);
  chosen = stream == Py_None ? 0 : Py_NewRef(stream);
  return before;
}

/* chosen(): the stream that this thread chose, or None. */
static PyObject *get_chosen(PyObject *type, PyObject *unused) { return Py_NewRef(chosen ? chosen : Py_None); }

/* choose_device(index) */
static PyObject *choose_device(PyObject *type, PyObject *index) {
  const long number = PyLong_AsLong(index);
  if (number == -1 && PyErr_Occurred()) return 0;
  device = (int)number + 1;
  Py_RETURN_NONE;
}

int hiprt_py_is_current(const hiprt_py_stream *stream, int of_flags) {
  if (chosen) return chosen == (PyObject *)stream;
  return stream->default_of && stream->default_of == (device ? device : of_flags);
}

PyObject *hiprt_py_memory(const hiprt_py_stream *stream) {
  const hiprt_stream *core = hiprt_py_core(stream);
  if (!stream->memory || stream->memory == Py_None) return 0;
  return !atomic_load(&core->owner) || hiprt_stream_records(core) ? stream->memory : 0;
}

int hiprt_py_keep(const hiprt_py_stream *stream, PyObject *object, uint32_t access) {
  hiprt_py_buffer *buffer = (hiprt_py_buffer *)object;
  const hiprt_stream *core = hiprt_py_core(stream);
  const int is_kept = buffer->kept_by == core->recording;
  if ((is_kept && !(access & ~buffer->kept_access)) || buffer->pool == stream->memory) return 0;
  hiprt_uses *uses = hiprt_py_uses(buffer);
  if (!uses || (!is_kept && PyList_Append(stream->keep, object))) return -1;
  const int status = core->calls->touch(core->recorder, uses, access);
  if (status) {
    hiprt_py_raise(status);
    return -1;
  }
  buffer->kept_access = (is_kept ? buffer->kept_access : 0) | access;
  buffer->kept_by = core->recording;
  return 0;
}

int hiprt_py_step_aside(hiprt_py_stream *stream) {
  if (!hiprt_thread_recordings || hiprt_stream_records(hiprt_py_core(stream))) return 0;
  PyObject *done = PyObject_CallMethod((PyObject *)stream, "step_aside", 0);
  Py_XDECREF(done);
  return done ? 0 : -1;
}

/* What a copy or a fill does, and with which buffers. */
typedef struct {
  unsigned long long dst, src, nbytes;
  unsigned value, width;
  int kind;
  PyObject *buffers[2]; /* written, read; not given: none */
} work;

static int submit(hiprt_stream *stream, const work *w) {
  return w->width ? hiprt_fill(stream, w->dst, w->value, w->width, w->nbytes)
                  : hiprt_copy(stream, w->dst, w->src, w->nbytes, w->kind);
}

static int submit_in_order(hiprt_stream *stream, const work *w, const hiprt_touch *touches, uint32_t count) {
  if (!hiprt_order_is_needed(stream)) {
    const int status = submit(stream, w);
    if (!status && hiprt_order_is_needed(stream)) hiprt_order_note(stream, touches, count);
    return status;
  }
  int status = hiprt_order_begin(stream, touches, count);
  if (status) return status;
  status = submit(stream, w);
  hiprt_order_end(stream, touches, count);
  return status;
}

/* Return the status of the work; -1 with an exception. */
static int run(hiprt_py_stream *self, const work *w) {
  hiprt_stream *stream = hiprt_py_core(self);
  hiprt_touch touches[2];
  uint32_t count = 0;
  int status;
  for (int i = 0; i < 2; i++)
    if (w->buffers[i] && w->buffers[i] != Py_None) {
      if (!PyObject_TypeCheck(w->buffers[i], hiprt_py_buffer_type))
        return PyErr_Format(PyExc_TypeError, "%R is not a buffer", w->buffers[i]), -1;
      touches[count].access = i ? HIPRT_READ : HIPRT_WRITE;
      if (!(touches[count++].uses = hiprt_py_uses((hiprt_py_buffer *)w->buffers[i]))) return -1;
    }
  if (hiprt_stream_records(stream)) {
    for (int i = 0; i < 2; i++)
      if (w->buffers[i] && w->buffers[i] != Py_None &&
          hiprt_py_keep(self, w->buffers[i], i ? HIPRT_READ : HIPRT_WRITE))
        return -1;
    status = submit(stream, w);
  } else {
    for (int i = 0; i < 2; i++)
      if (w->buffers[i] && w->buffers[i] != Py_None && !hiprt_py_is_settled((hiprt_py_buffer *)w->buffers[i])) return -1;
    Py_BEGIN_ALLOW_THREADS;
    status = count ? submit_in_order(stream, w, touches, count) : submit(stream, w);
    Py_END_ALLOW_THREADS;
  }
  return status;
}

int hiprt_py_copy(hiprt_py_stream *stream, PyObject *to, PyObject *from) {
  const hiprt_py_buffer *target = (hiprt_py_buffer *)to, *source = (hiprt_py_buffer *)from;
  const work w = {.dst = target->address, .src = source->address, .nbytes = source->nbytes,
                  .kind = hipMemcpyDeviceToDevice, .buffers = {to, from}};
  return run(stream, &w);
}

static PyObject *status_of(int status) { return PyErr_Occurred() ? 0 : PyLong_FromLong(status); }

/* queue_copy(target, source, nbytes, kind, to, of): return a status. The buffers `to` and `of` may be None; then the
 * copy is in no order with other streams. */
static PyObject *queue_copy(PyObject *object, PyObject *args) {
  work w = {.width = 0};
  if (!PyArg_ParseTuple(args, "KKKiOO", &w.dst, &w.src, &w.nbytes, &w.kind, w.buffers, w.buffers + 1)) return 0;
  return status_of(run((hiprt_py_stream *)object, &w));
}

/* queue_fill(target, value, width, count, to) */
static PyObject *queue_fill(PyObject *object, PyObject *args) {
  work w = {.kind = 0};
  if (!PyArg_ParseTuple(args, "KIIKO", &w.dst, &w.value, &w.width, &w.nbytes, w.buffers)) return 0;
  if (!w.width) return PyErr_Format(PyExc_ValueError, "width must be 1, 2 or 4");
  return status_of(run((hiprt_py_stream *)object, &w));
}

/* order(buffer, access): order what others put on the stream next. */
static PyObject *order(PyObject *object, PyObject *args) {
  PyObject *buffer;
  unsigned access;
  if (!PyArg_ParseTuple(args, "O!I", hiprt_py_buffer_type, &buffer, &access)) return 0;
  hiprt_uses *uses = hiprt_py_uses((hiprt_py_buffer *)buffer);
  if (!uses) return 0;
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = hiprt_order_next(hiprt_py_core((hiprt_py_stream *)object), uses, access);
  Py_END_ALLOW_THREADS;
  return PyLong_FromLong(status);
}

static PyObject *get_recording(PyObject *object, void *closure) {
  const hiprt_py_stream *self = (hiprt_py_stream *)object;
  return PyBool_FromLong(self->address && hiprt_stream_records(hiprt_py_core(self)));
}

static PyObject *get_memory(PyObject *object, void *closure) {
  const hiprt_py_stream *self = (hiprt_py_stream *)object;
  PyObject *memory = self->address ? hiprt_py_memory(self) : self->memory;
  return Py_NewRef(memory ? memory : Py_None);
}

static int set_memory(PyObject *object, PyObject *memory, void *closure) {
  PyObject *before = ((hiprt_py_stream *)object)->memory;
  ((hiprt_py_stream *)object)->memory = memory ? Py_NewRef(memory) : 0;
  Py_XDECREF(before);
  return 0;
}

static int traverse(PyObject *object, visitproc visit, void *arg) {
  hiprt_py_stream *self = (hiprt_py_stream *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->memory);
  Py_VISIT(self->keep);
  Py_VISIT(self->written);
  return 0;
}

static int clear(PyObject *object) {
  hiprt_py_stream *self = (hiprt_py_stream *)object;
  Py_CLEAR(self->memory);
  Py_CLEAR(self->keep);
  Py_CLEAR(self->written);
  return 0;
}

static void dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  clear(object);
  hiprt_py_free(object);
}

PyTypeObject *hiprt_py_make_stream(void) {
  static PyMemberDef members[] = {
      {"address", T_ULONGLONG, offsetof(hiprt_py_stream, address), 0, 0},
      {"keep", T_OBJECT, offsetof(hiprt_py_stream, keep), 0, 0},
      {"written", T_OBJECT, offsetof(hiprt_py_stream, written), 0, 0},
      {"default_of", T_INT, offsetof(hiprt_py_stream, default_of), 0, 0},
      {0},
  };
  static PyMethodDef methods[] = {
      {"choose", choose, METH_STATIC | METH_O, 0},
      {"chosen", get_chosen, METH_STATIC | METH_NOARGS, 0},
      {"choose_device", choose_device, METH_STATIC | METH_O, 0},
      {"queue_copy", queue_copy, METH_VARARGS, 0},
      {"queue_fill", queue_fill, METH_VARARGS, 0},
      {"order", order, METH_VARARGS, 0},
      {0},
  };
  static PyGetSetDef getset[] = {
      {"recording", get_recording, 0, 0, 0}, {"memory", get_memory, set_memory, 0, 0}, {0}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, (void *)dealloc}, {Py_tp_traverse, (void *)traverse},
                                {Py_tp_clear, (void *)clear},     {Py_tp_members, members},
                                {Py_tp_methods, methods},         {Py_tp_getset, getset},
                                {0, 0}};
  static PyType_Spec spec = {"hiprt.objects.Stream", sizeof(hiprt_py_stream), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  return hiprt_py_stream_type = (PyTypeObject *)PyType_FromSpec(&spec);
}
