/* Launches as Python objects: a kernel with everything but its arrays, whose payload is laid out once; and plans, which
 * make an op's result and launch what fills it. */
#include "launcher.h" /* first: Python.h says so */

/* Base of hiprt.kernels.lang.launch.Launch. */
typedef struct {
  PyObject_HEAD
  PyObject *names;    /* the kernel's arguments, in order */
  PyObject *scalars;  /* a dict: those that every call has in common */
  PyObject *function; /* a weak reference to the launcher, once a call has asked for it: the kernel keeps that */
  int device;         /* the launcher's */
  hiprt_dims dims;
  uint64_t fixed;     /* a bit for each argument that is in `scalars` */
  char *payload;      /* dimensions and fixed scalars, zeros elsewhere */
} launch_object;

/* Base of hiprt.kernels.lang.launch.Plan. */
typedef struct {
  PyObject_HEAD
  PyObject *op, *shape, *dtype, *launch; /* launch is None where there is nothing to compute */
  PyObject *make;                        /* hiprt.array.make */
} plan_object;

static PyTypeObject *launch_type;
static PyObject *watcher; /* is called before each launch: a debugging aid */

static int argument_of(const launch_object *self, PyObject *name) {
  const Py_ssize_t count = PyTuple_Size(self->names);
  for (Py_ssize_t i = 0; i < count; i++)
    if (PyTuple_GetItem(self->names, i) == name) return (int)i; /* names of code are interned, as the kernel's are */
  for (Py_ssize_t i = 0; i < count; i++)
    if (!PyUnicode_Compare(PyTuple_GetItem(self->names, i), name)) return (int)i;
  PyErr_Format(PyExc_TypeError, "no argument is named %R; the kernel takes %R", name, self->names);
  return -1;
}

/* prepare(grid, threads, names, scalars) */
static PyObject *prepare(PyObject *object, PyObject *const *args, Py_ssize_t count) {
  launch_object *self = (launch_object *)object;
  if (count != 4 || !PyTuple_Check(args[2]) || PyTuple_Size(args[2]) > HIPRT_MAX_ARGS || !PyDict_Check(args[3]))
    return PyErr_Format(PyExc_TypeError, "prepare: grid, threads, at most 64 names and scalars are needed");
  if (hiprt_py_three(args[0], 0, self->dims.grid) || hiprt_py_three(args[1], 1, self->dims.block)) {
    if (PyErr_Occurred()) return 0;
    return PyErr_Format(PyExc_ValueError, "grid %R, threads %R: three sizes each, threadgroups of at least one thread",
                        args[0], args[1]);
  }
  self->names = Py_NewRef(args[2]);
  self->scalars = Py_NewRef(args[3]);
  PyObject *name, *value;
  for (Py_ssize_t at = 0; PyDict_Next(self->scalars, &at, &name, &value);) {
    const int argument = argument_of(self, name);
    if (argument < 0) return 0;
    self->fixed |= UINT64_C(1) << argument;
  }
  Py_RETURN_NONE;
}

/* Ask the subclass for the launcher on a stream's device, lay out what its calls have in common, and return it. */
static PyObject *bind(launch_object *self, PyObject *stream, int device) {
  PyObject *function = PyObject_CallMethod((PyObject *)self, "bind", "O", stream), *weak = 0;
  if (!function) return 0;
  const hiprt_py_launcher *launcher = (const hiprt_py_launcher *)function;
  char *payload = 0;
  if (!PyObject_TypeCheck(function, hiprt_py_launcher_type) ||
      launcher->kernel->n_args != (uint32_t)PyTuple_Size(self->names)) {
    PyErr_Format(PyExc_TypeError, "%R does not take %R", function, self->names);
  } else if (!(payload = PyMem_Calloc(1, launcher->kernel->payload_size))) {
    PyErr_NoMemory();
  } else {
    self->dims.shared = launcher->shared;
    memcpy(payload, &self->dims, sizeof self->dims);
    PyObject *name, *value;
    for (Py_ssize_t at = 0; !PyErr_Occurred() && PyDict_Next(self->scalars, &at, &name, &value);)
      hiprt_py_pack_value(launcher, (uint32_t)argument_of(self, name), value, payload);
  }
  if (PyErr_Occurred() || !(weak = PyWeakref_NewRef(function, 0))) {
    PyMem_Free(payload);
    Py_DECREF(function);
    return 0;
  }
  PyMem_Free(self->payload);
  Py_XDECREF(self->function);
  self->function = weak;
  self->payload = payload;
  self->device = device;
  return function;
}

/* Return the launcher on a stream's device: that of the call before, if it is still there. */
static PyObject *launcher_on(launch_object *self, PyObject *stream, int device) {
  if (!self->function || device != self->device) return bind(self, stream, device);
  PyObject *found = hiprt_py_referred(self->function);
  return !found || found == Py_None ? bind(self, stream, device) : Py_NewRef(found);
}

/* Tell the watcher of a launch: watcher(launch, values), with the values in the order of the kernel's arguments. */
static int tell(const launch_object *self, PyObject *const *values) {
  const Py_ssize_t count = PyTuple_Size(self->names);
  PyObject *all = PyTuple_New(count);
  for (Py_ssize_t i = 0; all && i < count; i++) {
    PyObject *value = values[i] ? values[i] : PyDict_GetItem(self->scalars, PyTuple_GetItem(self->names, i));
    PyTuple_SetItem(all, i, Py_NewRef(value ? value : Py_None));
  }
  PyObject *done = all ? PyObject_CallFunctionObjArgs(watcher, self, all, NULL) : 0;
  Py_XDECREF(all);
  Py_XDECREF(done);
  return done ? 0 : -1;
}

/* Launch nothing, but tell a rehearsal what the launch would write. */
static int rehearse(const launch_object *self, hiprt_py_stream *stream, PyObject *const *values) {
  PyObject *told = PyObject_CallMethod((PyObject *)self, "writes", "O", stream);
  if (!told) return -1;
  int status = 0;
  for (Py_ssize_t i = 0; !status && i < PyTuple_Size(self->names); i++)
    if (values[i] && PySequence_Contains(told, PyTuple_GetItem(self->names, i)) == 1)
      status = PyList_Append(stream->written, values[i]);
  Py_DECREF(told);
  return status;
}

static int launch_with(const hiprt_py_launcher *launcher, const launch_object *self, hiprt_py_stream *stream,
                       PyObject *const *values) {
  const hiprt_kernel *kernel = launcher->kernel;
  if (watcher && tell(self, values)) return -1;
  if (!self->dims.grid[0] || !self->dims.grid[1] || !self->dims.grid[2]) return 0;
  if (hiprt_py_step_aside(stream)) return -1;
  _Alignas(16) char payload[HIPRT_PY_PAYLOAD];
  memcpy(payload, self->payload, kernel->payload_size);
  for (uint32_t i = 0, buffer = 0; i < kernel->n_args; i++) {
    if (kernel->args[i].access) {
      if (hiprt_py_pack_array(launcher, i, buffer++, values[i], payload)) return -1;
    } else if (values[i] && hiprt_py_pack_value(launcher, i, values[i], payload)) {
      return -1;
    }
  }
  return hiprt_py_submit(launcher, stream, payload, values);
}

/* Launch with the values that the call gives, by argument; those of `fixed` are NULL. */
static int submit(launch_object *self, PyObject *stream_object, PyObject *const *values, uint64_t given) {
  hiprt_py_stream *stream = (hiprt_py_stream *)stream_object;
  const int is_stream = PyObject_TypeCheck(stream_object, hiprt_py_stream_type);
  if (!is_stream || !(stream->address || stream->written)) {
    PyErr_Format(PyExc_TypeError, "%R is not a stream", stream_object);
    return -1;
  }
  const Py_ssize_t count = PyTuple_Size(self->names);
  const uint64_t all = count < 64 ? (UINT64_C(1) << count) - 1 : UINT64_MAX;
  if ((given | self->fixed) != all || given & self->fixed) {
    for (Py_ssize_t i = 0; i < count; i++)
      if (!((given ^ self->fixed) >> i & 1)) {
        PyErr_Format(PyExc_TypeError, "%U is %s", PyTuple_GetItem(self->names, i),
                     given >> i & 1 ? "part of the launch already" : "not given");
        return -1;
      }
  }
  if (stream->written) return rehearse(self, stream, values);
  PyObject *function = launcher_on(self, stream_object, hiprt_py_core(stream)->device);
  if (!function) return -1;
  const int status = launch_with((const hiprt_py_launcher *)function, self, stream, values);
  Py_DECREF(function);
  return status;
}

static PyObject *call(PyObject *object, PyObject *args, PyObject *kwargs) {
  launch_object *self = (launch_object *)object;
  if (PyTuple_Size(args) != 1 || !self->names)
    return PyErr_Format(PyExc_TypeError, "a launch takes a stream, and its arguments by name");
  PyObject *values[HIPRT_MAX_ARGS] = {0}, *name, *value;
  uint64_t given = 0;
  for (Py_ssize_t at = 0; kwargs && PyDict_Next(kwargs, &at, &name, &value);) {
    const int argument = argument_of(self, name);
    if (argument < 0) return 0;
    values[argument] = value;
    given |= UINT64_C(1) << argument;
  }
  if (submit(self, PyTuple_GetItem(args, 0), values, given)) return 0;
  Py_RETURN_NONE;
}

int hiprt_py_is_watched(void) { return watcher != 0; }

/* watch(callback or None): the watcher of all launches of the process; return the one before. */
static PyObject *watch(PyObject *type, PyObject *callback) {
  PyObject *before = watcher ? watcher : Py_NewRef(Py_None);
  watcher = callback == Py_None ? 0 : Py_NewRef(callback);
  return before;
}

static int launch_traverse(PyObject *object, visitproc visit, void *arg) {
  launch_object *self = (launch_object *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->names);
  Py_VISIT(self->scalars);
  Py_VISIT(self->function);
  return 0;
}

static int launch_clear(PyObject *object) {
  launch_object *self = (launch_object *)object;
  Py_CLEAR(self->names);
  Py_CLEAR(self->scalars);
  Py_CLEAR(self->function);
  return 0;
}

static void launch_dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  launch_clear(object);
  PyMem_Free(((launch_object *)object)->payload);
  hiprt_py_free(object);
}

PyTypeObject *hiprt_py_make_launch(void) {
  static PyMethodDef methods[] = {
      {"prepare", (PyCFunction)(void (*)(void))prepare, METH_FASTCALL, 0},
      {"watch", watch, METH_STATIC | METH_O, 0},
      {0},
  };
  static PyType_Slot slots[] = {
      {Py_tp_call, (void *)call},           {Py_tp_dealloc, (void *)launch_dealloc}, {Py_tp_clear, (void *)launch_clear},
      {Py_tp_traverse, (void *)launch_traverse}, {Py_tp_methods, methods},           {0, 0},
  };
  static PyType_Spec spec = {"hiprt.objects.Launch", sizeof(launch_object), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  return launch_type = (PyTypeObject *)PyType_FromSpec(&spec);
}

/* prepare(op, shape, dtype, launch, make) */
static PyObject *prepare_plan(PyObject *object, PyObject *const *args, Py_ssize_t count) {
  plan_object *self = (plan_object *)object;
  if (count != 5 || (args[3] != Py_None && !PyObject_TypeCheck(args[3], launch_type)))
    return PyErr_Format(PyExc_TypeError, "prepare: op, shape, dtype, a launch or None, and make are needed");
  self->op = Py_NewRef(args[0]);
  self->shape = Py_NewRef(args[1]);
  self->dtype = Py_NewRef(args[2]);
  self->launch = Py_NewRef(args[3]);
  self->make = Py_NewRef(args[4]);
  Py_RETURN_NONE;
}

/* Return the array that receives the result: a new one, or the caller's after the subclass has checked it. */
static PyObject *receive(plan_object *self, PyObject *stream, PyObject *out, PyObject *const *operands,
                         PyObject *keywords) {
  if (out == Py_None) return PyObject_CallFunctionObjArgs(self->make, self->shape, self->dtype, stream, NULL);
  PyObject *named = PyDict_New();
  for (Py_ssize_t i = 0; named && keywords && i < PyTuple_Size(keywords); i++)
    if (PyDict_SetItem(named, PyTuple_GetItem(keywords, i), operands[i])) Py_CLEAR(named);
  PyObject *result = named ? PyObject_CallMethod((PyObject *)self, "receive", "OOO", stream, out, named) : 0;
  Py_XDECREF(named);
  return result;
}

/* run(stream, out, /, **operands) */
static PyObject *run(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
  plan_object *self = (plan_object *)object;
  if (count != 2 || !self->make)
    return PyErr_Format(PyExc_TypeError, "a plan runs on a stream, with out or None, and operands by name");
  PyObject *const *operands = args + 2;
  PyObject *result = receive(self, args[0], args[1], operands, keywords);
  if (!result || self->launch == Py_None) return result;
  launch_object *launch = (launch_object *)self->launch;
  PyObject *values[HIPRT_MAX_ARGS] = {0};
  uint64_t given = 0;
  int is_right = 1;
  for (Py_ssize_t i = -1; is_right && i < (keywords ? PyTuple_Size(keywords) : 0); i++) {
    static PyObject *out_name;
    if (!out_name) out_name = PyUnicode_InternFromString("out");
    const int argument = argument_of(launch, i < 0 ? out_name : PyTuple_GetItem(keywords, i));
    is_right = argument >= 0;
    if (!is_right) break;
    /* The first operand stands in for one that is not there: the kernel knows, and does not read it. */
    values[argument] = i < 0 ? result : operands[i] == Py_None ? operands[0] : operands[i];
    given |= UINT64_C(1) << argument;
  }
  if (is_right && !submit(launch, args[0], values, given)) return result;
  Py_DECREF(result);
  return 0;
}

static int plan_traverse(PyObject *object, visitproc visit, void *arg) {
  plan_object *self = (plan_object *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->op);
  Py_VISIT(self->shape);
  Py_VISIT(self->dtype);
  Py_VISIT(self->launch);
  Py_VISIT(self->make);
  return 0;
}

static int plan_clear(PyObject *object) {
  plan_object *self = (plan_object *)object;
  Py_CLEAR(self->op);
  Py_CLEAR(self->shape);
  Py_CLEAR(self->dtype);
  Py_CLEAR(self->launch);
  Py_CLEAR(self->make);
  return 0;
}

static void plan_dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  plan_clear(object);
  hiprt_py_free(object);
}

PyTypeObject *hiprt_py_make_plan(void) {
  static PyMethodDef methods[] = {
      {"prepare", (PyCFunction)(void (*)(void))prepare_plan, METH_FASTCALL, 0},
      {"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL | METH_KEYWORDS, 0},
      {0},
  };
  static PyMemberDef members[] = {
      {"op", T_OBJECT, offsetof(plan_object, op), READONLY, 0},
      {"shape", T_OBJECT, offsetof(plan_object, shape), READONLY, 0},
      {"dtype", T_OBJECT, offsetof(plan_object, dtype), READONLY, 0},
      {"launch", T_OBJECT, offsetof(plan_object, launch), READONLY, 0},
      {0},
  };
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, (void *)plan_dealloc}, {Py_tp_clear, (void *)plan_clear}, {Py_tp_traverse, (void *)plan_traverse},
      {Py_tp_methods, methods},              {Py_tp_members, members},          {0, 0},
  };
  static PyType_Spec spec = {"hiprt.objects.Plan", sizeof(plan_object), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  return (PyTypeObject *)PyType_FromSpec(&spec);
}
