/* Armed steps: a callable that does its last call again as one graph launch, without Python code, also with arrays that lie
 * elsewhere.
 *
 * This is the extension module hiprt.graphs.native.armed. */
#include "objects.h" /* first: Python.h says so */

#include <pthread.h>
#include <string.h>

#include "exec.h"
#include "moved_call.h"
#include "results.h"
#include "stream.h"

/* What a call launches again: all NULL, or all of one call. */
typedef struct {
  PyObject *kept, *holder;           /* the kept call, and what keeps the exec alive */
  PyObject *args, *names;            /* its arguments, and the names of the last of them that are given by name */
  PyObject *stream, *version;        /* its stream, and the version of the flags */
  PyObject *result;                  /* what a call returns */
  PyObject *own;                     /* the ids of the buffers of results that are copied for each call */
  PyObject *moves;                   /* by what the exec is patched, see moved_call.h; None: it is not */
  hiprt_exec *exec;
  unsigned long long *addresses; /* one for each argument; 0 unless it is an array */
  int device;                    /* the one that the flags name, counted from 1 */
} ready;

/* Device memory that a call writes an argument to, ahead of the launch. */
typedef struct {
  Py_ssize_t argument;
  unsigned long long address;
  char format; /* of Python's struct: f, d, i or q */
} cell;

#define MOST_CELLS 16

/* Base of hiprt.graphs.Step. */
typedef struct {
  PyObject_HEAD
  PyObject *given; /* the stream it runs on; NULL or None: its caller's */
  char keep;
  uint64_t *replays;            /* counts the launches; it lies in `counter` */
  PyObject *counter, *flags;    /* the owner of that number, and the values of the flags */
  pthread_mutex_t is_launching; /* taken with the GIL held, kept while it is released */
  uintptr_t launcher;           /* the thread that has taken it; set with the GIL held */
  ready last;
  cell cells[MOST_CELLS];
  Py_ssize_t n_cells;
} step;

static PyObject *interned(PyObject **name, const char *text) {
  if (!*name) *name = PyUnicode_InternFromString(text);
  return *name;
}

static PyObject *new_step(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  step *self = (step *)allocate(type, 0);
  if (self) pthread_mutex_init(&self->is_launching, 0);
  return (PyObject *)self;
}

/* attach(counter, address, flags): launches are counted in the uint64_t at the address, which the counter keeps alive. */
static PyObject *attach(PyObject *object, PyObject *args) {
  step *self = (step *)object;
  PyObject *counter, *flags;
  unsigned long long address;
  if (!PyArg_ParseTuple(args, "OKO!", &counter, &address, &PyDict_Type, &flags)) return 0;
  Py_INCREF(counter);
  Py_INCREF(flags);
  Py_XDECREF(self->counter);
  Py_XDECREF(self->flags);
  self->counter = counter;
  self->replays = (uint64_t *)(uintptr_t)address;
  self->flags = flags;
  Py_RETURN_NONE;
}

static PyObject *version_of(const step *self) {
  static PyObject *name;
  return self->flags && interned(&name, "version") ? PyDict_GetItemWithError(self->flags, name) : 0;
}

/* Replace what is armed at once: dropping the last reference to an object may run other threads. */
static void set(step *self, ready next) {
  ready before = self->last;
  self->last = next;
  Py_XDECREF(before.kept);
  Py_XDECREF(before.holder);
  Py_XDECREF(before.args);
  Py_XDECREF(before.names);
  Py_XDECREF(before.stream);
  Py_XDECREF(before.version);
  Py_XDECREF(before.result);
  Py_XDECREF(before.own);
  Py_XDECREF(before.moves);
  PyMem_Free(before.addresses);
}

/* disarm(): afterwards no call launches the exec, and none is about to. */
static PyObject *disarm(PyObject *object, PyObject *unused) {
  step *self = (step *)object;
  set(self, (ready){0});
  /* A thread that was launching is not in a forked process; a finaliser may come while a result is copied. */
  if (hiprt_is_forked || self->launcher == hiprt_this_thread()) Py_RETURN_NONE;
  if (pthread_mutex_trylock(&self->is_launching)) {
    Py_BEGIN_ALLOW_THREADS;
    pthread_mutex_lock(&self->is_launching);
    Py_END_ALLOW_THREADS;
  }
  pthread_mutex_unlock(&self->is_launching);
  Py_RETURN_NONE;
}

/* launches_here(): whether this thread is between a launch and the end of the copies of its results. */
static PyObject *launches_here(PyObject *object, PyObject *unused) {
  return PyBool_FromLong(((step *)object)->launcher == hiprt_this_thread());
}

static unsigned long long *addresses_of(PyObject *args) {
  Py_ssize_t n = PyTuple_Size(args);
  unsigned long long *addresses = PyMem_Calloc((size_t)n + 1, sizeof *addresses);
  for (Py_ssize_t i = 0; addresses && i < n; i++) {
    PyObject *value = PyTuple_GetItem(args, i);
    if (PyObject_TypeCheck(value, hiprt_py_array_type)) addresses[i] = ((hiprt_py_array *)value)->address;
  }
  if (!addresses) PyErr_NoMemory();
  return addresses;
}

/* vary([(argument, address, format), ...]): a call writes these arguments to device memory. Called while the step is
 * not armed. */
static PyObject *vary(PyObject *object, PyObject *cells) {
  step *self = (step *)object;
  Py_ssize_t n = PyList_Check(cells) ? PyList_Size(cells) : MOST_CELLS + 1;
  if (n > MOST_CELLS) return PyErr_Format(PyExc_ValueError, "vary: a list of up to %d cells is needed", MOST_CELLS);
  for (Py_ssize_t i = 0; i < n; i++) {
    int format;
    cell *each = self->cells + i;
    if (!PyArg_ParseTuple(PyList_GetItem(cells, i), "nKC", &each->argument, &each->address, &format)) return 0;
    each->format = (char)format;
  }
  self->n_cells = n;
  Py_RETURN_NONE;
}

/* Convert an argument to the bits of its cell; 0 where only Python can. */
static int convert(char format, PyObject *value, uint64_t *out_bits) {
  *out_bits = 0;
  if (format == 'f' || format == 'd') {
    if (!PyFloat_CheckExact(value)) return 0;
    const double number = PyFloat_AsDouble(value);
    const float narrow = (float)number;
    memcpy(out_bits, format == 'f' ? (const void *)&narrow : &number, format == 'f' ? 4 : 8);
    return 1;
  }
  int overflow;
  const long long number = PyLong_CheckExact(value) ? PyLong_AsLongLongAndOverflow(value, &overflow) : 0;
  if (!PyLong_CheckExact(value) || overflow) return 0;
  if (format == 'i' && (number < INT32_MIN || number > INT32_MAX)) return 0;
  memcpy(out_bits, &number, format == 'i' ? 4 : 8);
  return 1;
}

static PyObject *shared(PyObject *value) {
  Py_XINCREF(value);
  return value;
}

/* arm(kept, holder, exec, stream, args, names, device, moves): until disarm() or a change of flags, a call with these
 * arguments, the last of them by these names, launches the exec, which the holder keeps alive, on the stream, if it is
 * the caller's where the step follows that; `device` is the one that the flags name. It returns kept.result, of which
 * arrays in the buffers of kept.own are copied. `moves` is not None where the arguments are arrays without names, and the
 * exec may be given others. */
static PyObject *arm(PyObject *object, PyObject *given) {
  step *self = (step *)object;
  PyObject *kept, *holder, *stream, *args, *names, *moves, *version = version_of(self);
  unsigned long long exec;
  int device;
  if (!PyArg_ParseTuple(given, "OOKO!O!O!iO", &kept, &holder, &exec, hiprt_py_stream_type, &stream, &PyTuple_Type,
                        &args, &PyTuple_Type, &names, &device, &moves))
    return 0;
  if (!version) return PyErr_Format(PyExc_TypeError, "arm: the step has no flags");
  PyObject *result = PyObject_GetAttrString(kept, "result"), *own = result ? PyObject_GetAttrString(kept, "own") : 0;
  unsigned long long *addresses = result && own ? addresses_of(args) : 0;
  if (addresses)
    set(self, (ready){shared(kept), shared(holder), shared(args), shared(names), shared(stream), shared(version),
                      shared(result), shared(own), shared(moves), (hiprt_exec *)(uintptr_t)exec, addresses, device + 1});
  Py_XDECREF(result);
  Py_XDECREF(own);
  return addresses ? shared(Py_None) : 0;
}

static int are_equal(PyObject *mine, PyObject *its) {
  if (mine == its) return 1;
  int answer = mine && its ? PyObject_RichCompareBool(mine, its, Py_EQ) : 0;
  if (answer < 0) PyErr_Clear();
  return answer > 0;
}

/* Whether an argument is the one that the step is armed for. Python compares what is equal but not the same object,
 * except for integers, texts and arrays. */
static int is_same(PyObject *mine, PyObject *its, unsigned long long address) {
  if (!PyObject_TypeCheck(its, hiprt_py_array_type)) {
    int is_plain = Py_TYPE(mine) == Py_TYPE(its) && (PyLong_CheckExact(its) || PyUnicode_CheckExact(its));
    return mine == its || (is_plain && are_equal(mine, its));
  }
  const hiprt_py_array *a = (hiprt_py_array *)mine, *b = (hiprt_py_array *)its;
  if (!PyObject_TypeCheck(mine, hiprt_py_array_type) || b->address != address) return 0;
  return a == b || (are_equal(a->shape, b->shape) && are_equal(a->dtype, b->dtype) && are_equal(a->strides, b->strides));
}

static hiprt_stream *core_of(PyObject *stream) {
  return (hiprt_stream *)(uintptr_t)((hiprt_py_stream *)stream)->address;
}

static const cell *cell_of(const step *self, Py_ssize_t argument) {
  for (Py_ssize_t i = 0; i < self->n_cells; i++)
    if (self->cells[i].argument == argument) return self->cells + i;
  return 0;
}

/* How many arguments are given by name; `key` is none. */
static Py_ssize_t count_named(PyObject *kwargs) {
  static PyObject *name;
  const Py_ssize_t n = kwargs ? PyDict_Size(kwargs) : 0;
  return n && interned(&name, "key") && PyDict_GetItemWithError(kwargs, name) ? n - 1 : n;
}

/* Whether a call of this thread may launch what the step is armed for, if its arguments fit. */
static int is_armed(const step *self) {
  const ready *last = &self->last;
  if (hiprt_py_current_trace || !last->kept || !self->keep || version_of(self) != last->version) return 0;
  const hiprt_stream *stream = core_of(last->stream);
  if (hiprt_thread_recordings || stream->closed_by || stream->is_closed) return 0;
  const int follows = !self->given || self->given == Py_None;
  return follows ? hiprt_py_is_current((hiprt_py_stream *)last->stream, last->device) : last->stream == self->given;
}

/* Whether the step, which is armed, is so for a call with these arguments; out_bits receives what goes to each cell. */
static int is_ready_for(const step *self, PyObject *args, PyObject *kwargs, uint64_t *out_bits) {
  const ready *last = &self->last;
  const Py_ssize_t n_placed = PyTuple_Size(args), n_named = PyTuple_Size(last->names), n = n_placed + n_named;
  if (n != PyTuple_Size(last->args) || count_named(kwargs) != n_named) return 0;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *value = i < n_placed ? PyTuple_GetItem(args, i)
                                   : PyDict_GetItemWithError(kwargs, PyTuple_GetItem(last->names, i - n_placed));
    const cell *own = self->n_cells ? cell_of(self, i) : 0;
    if (!value || (own ? !convert(own->format, value, out_bits + (own - self->cells))
                       : !is_same(PyTuple_GetItem(last->args, i), value, last->addresses[i])))
      return 0;
  }
  return 1;
}

/* Write the cells in stream order, four bytes at a time. */
static int write_cells(const step *self, const uint64_t *bits) {
  hiprt_stream *stream = core_of(self->last.stream);
  for (Py_ssize_t i = 0; i < self->n_cells; i++) {
    const cell *each = self->cells + i;
    const int is_wide = each->format == 'd' || each->format == 'q';
    int status = hiprt_fill(stream, each->address, (uint32_t)bits[i], 4, 1);
    if (!status && is_wide) status = hiprt_fill(stream, each->address + 4, (uint32_t)(bits[i] >> 32), 4, 1);
    if (status) return status;
  }
  return 0;
}

/* Note that the step is armed for the arrays of a moved call, unless another thread has disarmed it. */
static void carry(step *self, PyObject *args, hiprt_py_moved *moved) {
  hiprt_py_carry(moved);
  if (self->last.moves != moved->moves) return;
  moved->gone[2] = self->last.args;
  self->last.args = shared(args);
  memcpy(self->last.addresses, PyBytes_AsString(moved->addresses), (size_t)PyBytes_Size(moved->addresses));
}

/* Launch what the step is armed for, which is a call with these arguments, and return what the call returns; `moved`, unless
 * NULL, says where its arrays lie. The caller has taken the mutex. */
static PyObject *launch(step *self, PyObject *args, PyObject *kwargs, hiprt_py_moved *moved) {
  static PyObject *fail, *results;
  /* Another thread may disarm the step during the launch. */
  PyObject *kept = shared(self->last.kept), *holder = shared(self->last.holder), *stream = shared(self->last.stream);
  PyObject *result = shared(self->last.result), *own = shared(self->last.own);
  hiprt_exec *exec = self->last.exec;
  int status = 0, ran = 0, is_moved;
  self->launcher = hiprt_this_thread();
  Py_BEGIN_ALLOW_THREADS;
  if (moved) status = hiprt_py_move(moved, exec);
  is_moved = moved && !status;
  /* The next move waits for this launch, and not for what else is on the stream by then. */
  if (!status) status = hiprt_exec_launch(exec, core_of(stream), is_moved, &ran);
  Py_END_ALLOW_THREADS;
  if (is_moved) carry(self, args, moved);
  /* The next launch overwrites what is copied, so it comes after the copy. */
  if (!status) {
    PyObject *copied = hiprt_py_copied(result, own, stream);
    if (!copied && PyErr_ExceptionMatches(PyExc_Exception) && interned(&results, "results")) {
      PyErr_Clear(); /* Python copies once more, or says what is wrong */
      copied = PyObject_CallMethodObjArgs(kept, results, stream, NULL);
    }
    Py_DECREF(result);
    result = copied;
  }
  Py_DECREF(own);
  self->launcher = 0;
  pthread_mutex_unlock(&self->is_launching);
  if (is_moved) hiprt_py_count_moved(moved);
  if (status) {
    PyObject *number = interned(&fail, "fail") ? PyLong_FromLong(status) : 0;
    Py_XDECREF(result);
    result = number ? PyObject_CallMethodObjArgs((PyObject *)self, fail, kept, number, ran ? Py_True : Py_False, stream, args,
                                                 kwargs ? kwargs : Py_None, NULL)
                    : 0;
    Py_XDECREF(number);
  } else if (result && self->replays && !moved) {
    ++*self->replays;
  }
  Py_DECREF(kept);
  Py_DECREF(holder);
  Py_DECREF(stream);
  return result;
}

/* Patch what the step is armed for, and launch it; NULL without an exception where only Python can. */
static PyObject *move(step *self, PyObject *args, PyObject *kwargs) {
  hiprt_py_moved moved;
  PyObject *result = 0;
  /* Replays take the mutex only, Python the ladder's lock, and then it disarms. Other code may have run meanwhile. */
  if (hiprt_py_begin_moved(&moved, self->last.moves, args) && is_armed(self) && self->last.moves == moved.moves &&
      !pthread_mutex_trylock(&self->is_launching)) {
    if (hiprt_py_may_move(&moved, self->last.exec))
      result = launch(self, args, kwargs, &moved);
    else
      pthread_mutex_unlock(&self->is_launching);
  }
  hiprt_py_end_moved(&moved);
  return result;
}

static PyObject *call(PyObject *object, PyObject *args, PyObject *kwargs) {
  static PyObject *name;
  step *self = (step *)object;
  uint64_t bits[MOST_CELLS];
  const int is_last = is_armed(self) && is_ready_for(self, args, kwargs, bits);
  if (is_last && !pthread_mutex_trylock(&self->is_launching)) {
    if (!write_cells(self, bits)) return launch(self, args, kwargs, 0);
    /* Nothing was launched: Python writes the cells again, and says what is wrong. */
    pthread_mutex_unlock(&self->is_launching);
  }
  if (!is_last && is_armed(self) && self->last.moves != Py_None && !count_named(kwargs)) {
    PyObject *result = move(self, args, kwargs);
    if (result || PyErr_Occurred()) return result;
  }
  PyObject *method = interned(&name, "call") ? PyObject_GetAttr(object, name) : 0;
  PyObject *result = method ? PyObject_Call(method, args, kwargs) : 0;
  Py_XDECREF(method);
  return result;
}

static int traverse(PyObject *object, visitproc visit, void *arg) {
  step *self = (step *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->given);
  Py_VISIT(self->counter);
  Py_VISIT(self->flags);
  Py_VISIT(self->last.kept);
  Py_VISIT(self->last.holder);
  Py_VISIT(self->last.args);
  Py_VISIT(self->last.names);
  Py_VISIT(self->last.stream);
  Py_VISIT(self->last.version);
  Py_VISIT(self->last.result);
  Py_VISIT(self->last.own);
  Py_VISIT(self->last.moves);
  return 0;
}

static int clear(PyObject *object) {
  step *self = (step *)object;
  set(self, (ready){0});
  Py_CLEAR(self->given);
  self->replays = 0;
  Py_CLEAR(self->counter);
  Py_CLEAR(self->flags);
  return 0;
}

static void dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  clear(object);
  pthread_mutex_destroy(&((step *)object)->is_launching);
  hiprt_py_free(object);
}

static PyTypeObject *make_type(void) {
  static PyMemberDef members[] = {
      {"given", T_OBJECT, offsetof(step, given), 0, 0}, {"keep", T_BOOL, offsetof(step, keep), 0, 0}, {0}};
  static PyMethodDef methods[] = {{"attach", attach, METH_VARARGS, 0},
                                  {"arm", arm, METH_VARARGS, 0},
                                  {"vary", vary, METH_O, 0},
                                  {"disarm", disarm, METH_NOARGS, 0},
                                  {"launches_here", launches_here, METH_NOARGS, 0},
                                  {0}};
  static PyType_Slot slots[] = {
      {Py_tp_new, (void *)new_step}, {Py_tp_call, (void *)call},         {Py_tp_dealloc, (void *)dealloc},
      {Py_tp_clear, (void *)clear},  {Py_tp_traverse, (void *)traverse}, {Py_tp_members, members},
      {Py_tp_methods, methods},      {0, 0},
  };
  static PyType_Spec spec = {"hiprt.graphs.native.armed.Armed", sizeof(step), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  return (PyTypeObject *)PyType_FromSpec(&spec);
}

PyMODINIT_FUNC PyInit_armed(void) {
  static struct PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "hiprt.graphs.native.armed", "Steps that do their last call again.", -1, 0, 0, 0, 0, 0,
  };
  PyObject *module = PyModule_Create(&definition);
  PyTypeObject *type = module ? make_type() : 0;
  if (!type || PyModule_AddObject(module, "Armed", (PyObject *)type)) Py_CLEAR(module);
  return module;
}
