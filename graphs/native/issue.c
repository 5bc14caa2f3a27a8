/* Issues: what one call of an op launched, to be launched again for other arrays without calling the op; and the run of a
 * program's primitives, which does so.
 *
 * This is the extension module hiprt.graphs.native.issue. */
#include "launcher.h"
#include "reading.h"

#include <limits.h>
#include <string.h>

#define ITSELF INT_MIN
#define MOST_ARRAYS 64 /* that the launches of one call use besides the operands */

/* An array that the op made, or a view. */
typedef struct {
  PyObject *pattern; /* an array of its form */
  int source;        /* which operand it shows; -1 - i: which new buffer; ITSELF: the pattern is the array */
  long long offset;  /* bytes behind the operand's address, or behind the buffer's */
} made_array;

typedef struct {
  PyObject *function; /* a weak reference to the launcher: the kernel keeps that */
  PyObject *payload;
  int *places; /* by argument: the place of its array; operands come first */
} noted_launch;

typedef struct {
  PyObject_HEAD
  PyTypeObject *type; /* of arrays */
  int operands, n_arrays, n_launches, n_results, n_buffers;
  made_array *arrays;
  noted_launch *launches;
  int *results;      /* places; -1: None */
  PyObject *nbytes;  /* a tuple: of the new buffers */
} issue_object;

static PyTypeObject *issue_type;

/* One issue while it is launched. */
typedef struct {
  const issue_object *self;
  PyObject *const *operands; /* borrowed */
  PyObject *stream, *allocate;
  PyObject *buffers[MOST_ARRAYS], *arrays[MOST_ARRAYS];
} issuing;

static int is_place(const issue_object *self, long place) { return place >= 0 && place < self->operands + self->n_arrays; }

static int read_array(issue_object *self, made_array *to, PyObject *from) {
  if (!PyArg_ParseTuple(from, "O!iL", hiprt_py_array_type, &to->pattern, &to->source, &to->offset)) return -1;
  if (to->source >= self->operands || (to->source < -self->n_buffers && to->source != ITSELF)) {
    PyErr_SetString(PyExc_ValueError, "an array shows an operand or a new buffer");
    return -1;
  }
  Py_INCREF(to->pattern);
  return 0;
}

static int *read_places(const issue_object *self, PyObject *from, Py_ssize_t count) {
  int *places = PyMem_Calloc((size_t)count + 1, sizeof *places);
  for (Py_ssize_t i = 0; places && i < count; i++) {
    PyObject *each = PyTuple_GetItem(from, i);
    const long place = !each || each == Py_None ? -1 : PyLong_AsLong(each);
    if (PyErr_Occurred() || (each != Py_None && !is_place(self, place))) {
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "there is no array in this place");
      PyMem_Free(places);
      return 0;
    }
    places[i] = (int)place;
  }
  if (!places) PyErr_NoMemory();
  return places;
}

static int read_launch(const issue_object *self, noted_launch *to, PyObject *from) {
  PyObject *function, *places;
  if (!PyArg_ParseTuple(from, "O!SO!", hiprt_py_launcher_type, &function, &to->payload, &PyTuple_Type, &places)) {
    to->payload = 0;
    return -1;
  }
  Py_INCREF(to->payload);
  const hiprt_kernel *kernel = ((const hiprt_py_launcher *)function)->kernel;
  if (PyTuple_Size(places) != (Py_ssize_t)kernel->n_args || PyBytes_Size(to->payload) != (Py_ssize_t)kernel->payload_size) {
    PyErr_SetString(PyExc_ValueError, "the payload is that of another kernel");
    return -1;
  }
  if (!(to->places = read_places(self, places, (Py_ssize_t)kernel->n_args))) return -1;
  for (uint32_t i = 0; i < kernel->n_args; i++)
    if ((kernel->args[i].access != 0) != (to->places[i] >= 0)) {
      PyErr_SetString(PyExc_ValueError, "each buffer of the kernel needs an array");
      return -1;
    }
  return (to->function = PyWeakref_NewRef(function, 0)) ? 0 : -1;
}

/* Issue(class of arrays, number of operands, bytes of new buffers, arrays, launches, results); arrays as (pattern, source or
 * ITSELF, offset), launches as (launcher, payload, places by argument), results as places. */
static PyObject *new_issue(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyTypeObject *array;
  PyObject *nbytes, *arrays, *launches, *results;
  int operands;
  if (!PyArg_ParseTuple(args, "O!iO!O!O!O!", &PyType_Type, &array, &operands, &PyTuple_Type, &nbytes, &PyTuple_Type, &arrays,
                        &PyTuple_Type, &launches, &PyTuple_Type, &results))
    return 0;
  if (PyTuple_Size(nbytes) > MOST_ARRAYS || PyTuple_Size(arrays) > MOST_ARRAYS || operands < 0)
    return PyErr_Format(PyExc_ValueError, "at most %d arrays are needed", MOST_ARRAYS);
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  issue_object *self = (issue_object *)allocate(type, 0);
  if (!self) return 0;
  self->type = (PyTypeObject *)Py_NewRef(array);
  self->operands = operands;
  self->nbytes = Py_NewRef(nbytes);
  self->n_buffers = (int)PyTuple_Size(nbytes);
  self->arrays = PyMem_Calloc((size_t)PyTuple_Size(arrays) + 1, sizeof *self->arrays);
  self->launches = PyMem_Calloc((size_t)PyTuple_Size(launches) + 1, sizeof *self->launches);
  int status = self->arrays && self->launches ? 0 : -1;
  if (status) PyErr_NoMemory();
  for (Py_ssize_t i = 0; !status && i < PyTuple_Size(arrays); i++) {
    made_array *to = &self->arrays[self->n_arrays];
    status = read_array(self, to, PyTuple_GetItem(arrays, i));
    if (!status) self->n_arrays++;
  }
  for (Py_ssize_t i = 0; !status && i < PyTuple_Size(launches); i++)
    status = read_launch(self, &self->launches[self->n_launches++], PyTuple_GetItem(launches, i));
  if (!status && (self->results = read_places(self, results, PyTuple_Size(results)))) {
    self->n_results = (int)PyTuple_Size(results);
    return (PyObject *)self;
  }
  Py_DECREF(self);
  return 0;
}

/* Return a new buffer, borrowed: what the op allocated in its place. */
static hiprt_py_buffer *buffer_of(issuing *now, int number) {
  if (now->buffers[number]) return (hiprt_py_buffer *)now->buffers[number];
  PyObject *nbytes = PyTuple_GetItem(now->self->nbytes, number);
  PyObject *made = nbytes ? PyObject_CallFunctionObjArgs(now->allocate, nbytes, now->stream, NULL) : 0;
  if (made && !PyObject_TypeCheck(made, hiprt_py_buffer_type)) {
    PyErr_Format(PyExc_TypeError, "the allocator returned %R, which is not a buffer", made);
    Py_CLEAR(made);
  }
  return (hiprt_py_buffer *)(now->buffers[number] = made);
}

/* Return the array in a place, borrowed. */
static PyObject *array_in(issuing *now, int place) {
  const issue_object *self = now->self;
  if (place < self->operands) return now->operands[place];
  const int at = place - self->operands;
  if (now->arrays[at]) return now->arrays[at];
  const made_array *made = &self->arrays[at];
  if (made->source == ITSELF) return now->arrays[at] = Py_NewRef(made->pattern);
  PyObject *buffer;
  unsigned long long address;
  if (made->source < 0) {
    hiprt_py_buffer *found = buffer_of(now, -1 - made->source);
    if (!found) return 0;
    buffer = (PyObject *)found;
    address = found->address;
  } else {
    const hiprt_py_array *operand = (const hiprt_py_array *)now->operands[made->source];
    buffer = operand->buffer;
    address = operand->address;
  }
  return now->arrays[at] = hiprt_py_array_at(self->type, (const hiprt_py_array *)made->pattern, buffer,
                                             address + (unsigned long long)made->offset);
}

/* Return the launchers of all launches, new references; 0 without an exception where one is gone. */
static int find_functions(const issue_object *self, PyObject **functions) {
  for (int i = 0; i < self->n_launches; i++) {
    PyObject *found = hiprt_py_referred(self->launches[i].function);
    if (!found || found == Py_None) {
      while (i--) Py_DECREF(functions[i]);
      return 0;
    }
    functions[i] = Py_NewRef(found);
  }
  return 1;
}

static int launch(issuing *now, const hiprt_py_launcher *launcher, const noted_launch *noted) {
  const hiprt_kernel *kernel = launcher->kernel;
  _Alignas(16) char payload[HIPRT_PY_PAYLOAD];
  memcpy(payload, PyBytes_AsString(noted->payload), kernel->payload_size);
  PyObject *values[HIPRT_MAX_ARGS] = {0};
  for (uint32_t i = 0, buffer = 0; i < kernel->n_args; i++) {
    if (!kernel->args[i].access) continue;
    values[i] = array_in(now, noted->places[i]);
    if (!values[i] || hiprt_py_pack_array(launcher, i, buffer++, values[i], payload)) return -1;
  }
  return hiprt_py_submit(launcher, (hiprt_py_stream *)now->stream, payload, values);
}

/* Launch again, and return the results as a tuple; NULL without an exception where a kernel is gone. */
static PyObject *issue(const issue_object *self, PyObject *stream, PyObject *allocate, PyObject *const *operands) {
  PyObject *functions[MOST_ARRAYS], *results = 0;
  if (self->n_launches > MOST_ARRAYS || !find_functions(self, functions)) return 0;
  issuing now = {self, operands, stream, allocate, {0}, {0}};
  int status = self->n_launches ? hiprt_py_step_aside((hiprt_py_stream *)stream) : 0;
  for (int i = 0; i < self->n_launches; i++) {
    if (!status) status = launch(&now, (const hiprt_py_launcher *)functions[i], &self->launches[i]);
    Py_DECREF(functions[i]);
  }
  if (!status) results = PyTuple_New(self->n_results);
  for (int i = 0; results && i < self->n_results; i++) {
    PyObject *each = self->results[i] < 0 ? Py_None : array_in(&now, self->results[i]);
    if (each)
      PyTuple_SetItem(results, i, Py_NewRef(each));
    else
      Py_CLEAR(results);
  }
  for (int i = 0; i < self->n_arrays; i++) Py_XDECREF(now.arrays[i]);
  for (int i = 0; i < self->n_buffers; i++) Py_XDECREF(now.buffers[i]);
  return results;
}

/* One run of a program. */
typedef struct {
  PyObject *found, *known, *moved, *stream, *source, *perform;
  PyObject *allocate; /* what `source` returned; owned */
  PyTypeObject *size;
} running;

/* Ask where results are to lie: an op may have changed that, as work of other code in a step does. */
static int ask_source(running *run) {
  Py_XDECREF(run->allocate);
  run->allocate = PyObject_CallFunctionObjArgs(run->source, run->stream, NULL);
  return run->allocate ? 0 : -1;
}

/* Issue a call whose issue is known; NULL, perhaps without an exception, where it is not. */
static PyObject *issued(const running *run, PyObject *key, PyObject *arrays) {
  PyObject *found = PyDict_GetItemWithError(run->known, key), *operands[HIPRT_MAX_ARGS];
  const Py_ssize_t count = PyTuple_Size(arrays);
  if (!found) {
    /* An argument without a hash has no issue. */
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError)) PyErr_Clear();
    return 0;
  }
  if (!PyObject_TypeCheck(found, issue_type) || ((issue_object *)found)->operands != count || count > HIPRT_MAX_ARGS) return 0;
  for (Py_ssize_t i = 0; i < count; i++) operands[i] = PyTuple_GetItem(arrays, i);
  Py_INCREF(found);
  PyObject *made = issue((const issue_object *)found, run->stream, run->allocate, operands);
  Py_DECREF(found);
  return made;
}

/* Do what a primitive does, and return its results. */
static PyObject *results_of(running *run, PyObject *primitive, Py_ssize_t at) {
  PyObject *arguments, *form = 0, *arrays = 0, *key = 0, *made = 0;
  const int has_key = run->known != Py_None;
  const hiprt_py_primitive *each = (const hiprt_py_primitive *)primitive;
  if (hiprt_py_placed(each->arguments, run->found, run->moved, run->size, &arguments, has_key ? &form : 0, &arrays)) return 0;
  if (has_key && (key = PyTuple_Pack(2, each->op, form))) made = issued(run, key, arrays);
  if (!made && !PyErr_Occurred()) {
    made = PyObject_CallFunction(run->perform, "nOOOO", at, primitive, arguments, key ? key : Py_None,
                                 arrays ? arrays : Py_None);
    if (made && has_key && ask_source(run)) Py_CLEAR(made);
  }
  if (made && !PyTuple_Check(made)) {
    PyErr_Format(PyExc_TypeError, "%R is no tuple of results", made);
    Py_CLEAR(made);
  }
  Py_XDECREF(key);
  Py_DECREF(arguments);
  Py_XDECREF(form);
  Py_XDECREF(arrays);
  return made;
}

/* Remember a primitive's results by the numbers of their values. */
static int put(const running *run, const hiprt_py_primitive *primitive, PyObject *results) {
  PyObject *patterns = PyTuple_GetItem(primitive->rule, 1);
  int status = patterns ? 0 : -1;
  for (Py_ssize_t i = 0; !status && i < PyTuple_Size(results) && i < PyTuple_Size(patterns); i++) {
    if (PyTuple_GetItem(PyTuple_GetItem(patterns, i), 0) == Py_None) continue;
    PyObject *number = PyLong_FromUnsignedLongLong(primitive->number + (uint64_t)i);
    status = number ? PyDict_SetItem(run->found, number, PyTuple_GetItem(results, i)) : -1;
    Py_XDECREF(number);
  }
  return status;
}

/* Let go of the values that nothing behind a primitive uses, so that their memory can be used again. */
static int drop(const running *run, PyObject *numbers) {
  for (Py_ssize_t i = 0; i < PyList_Size(numbers); i++) {
    PyObject *number = PyList_GetItem(numbers, i);
    const int is_there = PyDict_Contains(run->found, number);
    if (is_there < 0 || (is_there && PyDict_DelItem(run->found, number))) return -1;
  }
  return 0;
}

/* run(primitives, lasts, found, known or None, moved, class of sizes, stream, source, perform): do what each primitive does,
 * with arrays in `found` by the numbers of their values. What `known` has by (op, key of the arguments) is issued on the
 * stream, with memory of what source(stream) returns; perform(at, primitive, arguments, (op, key), operands) returns the
 * results of all others. Without `known` there are no keys, and no operands are listed. */
static PyObject *run(PyObject *module, PyObject *args) {
  PyObject *primitives, *lasts;
  running now = {0};
  if (!PyArg_ParseTuple(args, "O!O!O!OOO!OOO", &PyTuple_Type, &primitives, &PyList_Type, &lasts, &PyDict_Type, &now.found,
                        &now.known, &now.moved, &PyType_Type, &now.size, &now.stream, &now.source, &now.perform))
    return 0;
  if (now.known != Py_None && !PyObject_TypeCheck(now.stream, hiprt_py_stream_type))
    return PyErr_Format(PyExc_TypeError, "%R is not a stream", now.stream);
  if (now.known != Py_None && (!PyDict_Check(now.known) || hiprt_py_is_watched())) now.known = Py_None;
  const Py_ssize_t count = PyTuple_Size(primitives);
  if (PyList_Size(lasts) != count) return PyErr_Format(PyExc_ValueError, "each primitive needs a list of last uses");
  int status = now.known == Py_None ? 0 : ask_source(&now);
  for (Py_ssize_t i = 0; !status && i < count; i++) {
    PyObject *primitive = PyTuple_GetItem(primitives, i), *numbers = PyList_GetItem(lasts, i);
    if (!PyObject_TypeCheck(primitive, hiprt_py_primitive_type) || !PyList_Check(numbers)) {
      PyErr_Format(PyExc_TypeError, "primitives and lists of numbers are needed");
      status = -1;
      break;
    }
    PyObject *results = results_of(&now, primitive, i);
    status = results ? put(&now, (const hiprt_py_primitive *)primitive, results) : -1;
    Py_XDECREF(results);
    if (!status) status = drop(&now, numbers);
  }
  Py_XDECREF(now.allocate);
  return status ? 0 : Py_NewRef(Py_None);
}

/* note(list or None): append this thread's launches to a list from now on; return the list before, or None. */
static PyObject *note(PyObject *module, PyObject *list) {
  if (list != Py_None && !PyList_Check(list)) return PyErr_Format(PyExc_TypeError, "a list or None is needed");
  PyObject *before = hiprt_py_noted ? hiprt_py_noted : Py_NewRef(Py_None);
  hiprt_py_noted = list == Py_None ? 0 : Py_NewRef(list);
  return before;
}

static int issue_traverse(PyObject *object, visitproc visit, void *arg) {
  issue_object *self = (issue_object *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT((PyObject *)self->type);
  for (int i = 0; i < self->n_arrays; i++) Py_VISIT(self->arrays[i].pattern);
  return 0;
}

static void issue_dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  issue_object *self = (issue_object *)object;
  for (int i = 0; i < self->n_arrays; i++) Py_XDECREF(self->arrays[i].pattern);
  for (int i = 0; i < self->n_launches; i++) {
    Py_XDECREF(self->launches[i].function);
    Py_XDECREF(self->launches[i].payload);
    PyMem_Free(self->launches[i].places);
  }
  PyMem_Free(self->arrays);
  PyMem_Free(self->launches);
  PyMem_Free(self->results);
  Py_XDECREF(self->nbytes);
  Py_XDECREF((PyObject *)self->type);
  hiprt_py_free(object);
}

PyMODINIT_FUNC PyInit_issue(void) {
  static PyMethodDef methods[] = {{"run", run, METH_VARARGS, 0}, {"note", note, METH_O, 0}, {0}};
  static PyType_Slot slots[] = {
      {Py_tp_new, (void *)new_issue},
      {Py_tp_dealloc, (void *)issue_dealloc},
      {Py_tp_traverse, (void *)issue_traverse},
      {0, 0},
  };
  static PyType_Spec spec = {"hiprt.graphs.native.issue.Issue", sizeof(issue_object), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
  static struct PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "hiprt.graphs.native.issue", "Launches of calls, issued again.", -1, methods, 0, 0, 0, 0,
  };
  PyObject *module = PyModule_Create(&definition);
  issue_type = module ? (PyTypeObject *)PyType_FromSpec(&spec) : 0;
  if (!issue_type || PyModule_AddObject(module, "Issue", Py_NewRef((PyObject *)issue_type)) ||
      PyModule_AddIntConstant(module, "ITSELF", ITSELF))
    Py_CLEAR(module);
  return module;
}
