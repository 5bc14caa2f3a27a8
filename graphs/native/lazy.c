/* Lazy arrays as Python objects: each holds a value of a lazy graph, and ops are applied to them without Python.
 *
 * This is the extension module hiprt.graphs.native.lazy. */
#include "lazy.h" /* first: Python.h says so */

typedef hiprt_py_lazy lazy_object;

/* What `declare` was given. */
hiprt_py_trace *hiprt_py_lazy_trace;
PyTypeObject *hiprt_py_lazy_type;
static PyTypeObject *lazy_type;
static PyObject *value_of;
static _Thread_local PyObject *watching; /* a list that receives a weak reference to each array that is made; else NULL */

PyObject *hiprt_py_around(PyObject *value) {
  allocfunc allocate = (allocfunc)PyType_GetSlot(hiprt_py_lazy_type, Py_tp_alloc);
  lazy_object *made = (lazy_object *)allocate(hiprt_py_lazy_type, 0);
  if (!made) return 0;
  made->value = Py_NewRef(value);
  PyObject *reference = watching ? PyWeakref_NewRef((PyObject *)made, 0) : 0;
  if (watching && (!reference || PyList_Append(watching, reference))) {
    Py_XDECREF(reference);
    Py_DECREF((PyObject *)made);
    return 0;
  }
  Py_XDECREF(reference);
  /* No circle leads through an array, and the collector need not look at thousands of them. */
  if (PyObject_GC_IsTracked((PyObject *)made)) PyObject_GC_UnTrack((PyObject *)made);
  return (PyObject *)made;
}

/* Return an argument with the values in the place of lazy arrays, as a new reference. */
static PyObject *unwrapped(PyObject *part) {
  if (PyObject_TypeCheck(part, lazy_type)) {
    PyObject *value = ((lazy_object *)part)->value;
    return value ? Py_NewRef(value) : PyErr_Format(PyExc_ValueError, "the array was not made");
  }
  if (PyList_CheckExact(part) || PyTuple_CheckExact(part)) {
    const int is_tuple = PyTuple_CheckExact(part);
    const Py_ssize_t count = is_tuple ? PyTuple_Size(part) : PyList_Size(part);
    PyObject *copy = is_tuple ? PyTuple_New(count) : PyList_New(count);
    for (Py_ssize_t i = 0; copy && i < count; i++) {
      PyObject *item = unwrapped(is_tuple ? PyTuple_GetItem(part, i) : PyList_GetItem(part, i));
      if (!item)
        Py_CLEAR(copy);
      else if (is_tuple)
        PyTuple_SetItem(copy, i, item);
      else
        PyList_SetItem(copy, i, item);
    }
    return copy;
  }
  if (PyDict_CheckExact(part)) {
    PyObject *copy = PyDict_New(), *name, *each;
    for (Py_ssize_t at = 0; copy && PyDict_Next(part, &at, &name, &each);) {
      PyObject *item = unwrapped(each);
      if (!item || PyDict_SetItem(copy, name, item)) Py_CLEAR(copy);
      Py_XDECREF(item);
    }
    return copy;
  }
  if (PyObject_TypeCheck(part, hiprt_py_array_type) && !((hiprt_py_array *)part)->primitive)
    return PyObject_CallFunctionObjArgs(value_of, part, NULL);
  return Py_NewRef(part);
}

/* Return what an op returned with lazy arrays around the values; steals the reference. */
static PyObject *wrapped(PyObject *made) {
  if (!made) return 0;
  PyObject *result = 0;
  if (PyObject_TypeCheck(made, hiprt_py_array_type)) {
    result = hiprt_py_around(made);
  } else if (PyTuple_CheckExact(made) || PyList_CheckExact(made)) {
    const int is_tuple = PyTuple_CheckExact(made);
    const Py_ssize_t count = is_tuple ? PyTuple_Size(made) : PyList_Size(made);
    result = is_tuple ? PyTuple_New(count) : PyList_New(count);
    for (Py_ssize_t i = 0; result && i < count; i++) {
      PyObject *item = wrapped(Py_NewRef(is_tuple ? PyTuple_GetItem(made, i) : PyList_GetItem(made, i)));
      if (!item)
        Py_CLEAR(result);
      else if (is_tuple)
        PyTuple_SetItem(result, i, item);
      else
        PyList_SetItem(result, i, item);
    }
  } else {
    return made;
  }
  Py_DECREF(made);
  return result;
}

/* apply(function, *args, **kwargs): what a function of ops returns for the values of lazy arrays, as lazy arrays. */
static PyObject *apply(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names) {
  if (!hiprt_py_lazy_type) return PyErr_Format(PyExc_RuntimeError, "no class of arrays was declared");
  if (count < 1) return PyErr_Format(PyExc_TypeError, "apply: a function is needed");
  const Py_ssize_t named = names ? PyTuple_Size(names) : 0;
  PyObject *given = PyTuple_New(count - 1), *keywords = named ? PyDict_New() : 0, *made = 0;
  int is_ready = given && (!named || keywords);
  for (Py_ssize_t i = 1; is_ready && i < count; i++) {
    PyObject *each = unwrapped(args[i]);
    is_ready = each && !PyTuple_SetItem(given, i - 1, each);
  }
  for (Py_ssize_t i = 0; is_ready && i < named; i++) {
    PyObject *each = unwrapped(args[count + i]);
    is_ready = each && !PyDict_SetItem(keywords, PyTuple_GetItem(names, i), each);
    Py_XDECREF(each);
  }
  if (is_ready) {
    hiprt_py_trace *before = hiprt_py_current_trace;
    hiprt_py_current_trace = hiprt_py_lazy_trace;
    made = PyObject_Call(args[0], given, keywords);
    hiprt_py_current_trace = before;
  }
  Py_XDECREF(given);
  Py_XDECREF(keywords);
  return wrapped(made);
}

/* watch(list or None): let the list receive a weak reference to each array that ops make in this thread; return the list
 * before. */
static PyObject *watch(PyObject *module, PyObject *list) {
  if (list != Py_None && !PyList_CheckExact(list)) return PyErr_Format(PyExc_TypeError, "watch: a list or None is needed");
  PyObject *before = watching ? watching : Py_NewRef(Py_None);
  watching = list == Py_None ? 0 : Py_NewRef(list);
  return before;
}

/* declare(trace, class, value_of): record with a trace, return arrays of a class, and make values of arrays in memory so. */
static PyObject *declare(PyObject *module, PyObject *args) {
  PyObject *recorder, *class, *function;
  if (!PyArg_ParseTuple(args, "OO!O", &recorder, &PyType_Type, &class, &function)) return 0;
  if (!PyType_IsSubtype((PyTypeObject *)class, lazy_type))
    return PyErr_Format(PyExc_TypeError, "declare: a class of lazy arrays is needed");
  hiprt_py_lazy_trace = (hiprt_py_trace *)Py_NewRef(recorder);
  hiprt_py_lazy_type = (PyTypeObject *)Py_NewRef(class);
  value_of = Py_NewRef(function);
  Py_RETURN_NONE;
}

static int traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(((lazy_object *)object)->value);
  return 0;
}

static int clear(PyObject *object) {
  Py_CLEAR(((lazy_object *)object)->value);
  return 0;
}

static void dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  clear(object);
  hiprt_py_free(object);
}

static PyTypeObject *make_lazy(void) {
  static PyMemberDef members[] = {{"value", T_OBJECT_EX, offsetof(lazy_object, value), 0, 0}, {0}};
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, (void *)dealloc}, {Py_tp_traverse, (void *)traverse},
      {Py_tp_clear, (void *)clear},     {Py_tp_members, members},
      {0, 0},
  };
  static PyType_Spec spec = {"hiprt.graphs.native.lazy.Lazy", sizeof(lazy_object), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  return (PyTypeObject *)PyType_FromSpec(&spec);
}

PyMODINIT_FUNC PyInit_lazy(void) {
  static PyMethodDef methods[] = {{"apply", (PyCFunction)(void (*)(void))apply, METH_FASTCALL | METH_KEYWORDS, 0},
                                  {"declare", declare, METH_VARARGS, 0},
                                  {"watch", watch, METH_O, 0},
                                  {0}};
  static struct PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "hiprt.graphs.native.lazy", "Lazy arrays.", -1, methods, 0, 0, 0, 0,
  };
  PyObject *module = PyModule_Create(&definition);
  lazy_type = module ? make_lazy() : 0;
  if (!lazy_type || PyModule_AddObject(module, "Lazy", (PyObject *)lazy_type)) Py_CLEAR(module);
  return module;
}
