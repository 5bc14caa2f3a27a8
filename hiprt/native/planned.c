/* Planned functions: what the checks and the arithmetic before a launch gave for the forms of their arguments is
 * remembered. */
#include "objects.h"

#define MOST 4096 /* forms remembered */

typedef struct {
  PyObject_HEAD
  PyObject *function, *plans;
} planned;

static PyObject *new_planned(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *function;
  if (!PyArg_ParseTuple(args, "O", &function)) return 0;
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  planned *self = (planned *)allocate(type, 0);
  if (!self) return 0;
  Py_INCREF(function);
  self->function = function;
  self->plans = PyDict_New();
  if (self->plans) return (PyObject *)self;
  Py_DECREF(self);
  return 0;
}

/* Return the arguments with the form of each array in its place. */
static PyObject *key_of(PyObject *args) {
  Py_ssize_t count = PyTuple_Size(args);
  PyObject *key = PyTuple_New(count);
  for (Py_ssize_t i = 0; key && i < count; i++) {
    PyObject *value = PyTuple_GetItem(args, i);
    if (PyObject_TypeCheck(value, hiprt_py_array_type))
      value = hiprt_py_form((hiprt_py_array *)value);
    else
      Py_INCREF(value);
    if (value)
      PyTuple_SetItem(key, i, value);
    else
      Py_CLEAR(key);
  }
  return key;
}

/* Make the scalars of numpy's in a key Python numbers, which they equal: a plan is the same for both. */
static int simplify(PyObject *key) {
  static PyObject *scalar;
  if (!scalar) {
    PyObject *numpy = PyImport_ImportModule("numpy");
    scalar = numpy ? PyObject_GetAttrString(numpy, "generic") : 0;
    Py_XDECREF(numpy);
  }
  for (Py_ssize_t i = 0; scalar && i < PyTuple_Size(key); i++) {
    PyObject *value = PyTuple_GetItem(key, i);
    int is_scalar = PyObject_IsInstance(value, scalar);
    PyObject *number = is_scalar > 0 ? PyObject_CallMethod(value, "item", 0) : 0;
    if (is_scalar < 0 || (is_scalar && !number)) return -1;
    if (is_scalar) PyTuple_SetItem(key, i, number);
  }
  return scalar ? 0 : -1;
}

static PyObject *call(PyObject *object, PyObject *args, PyObject *kwargs) {
  planned *self = (planned *)object;
  if (kwargs && PyDict_Size(kwargs)) return PyErr_Format(PyExc_TypeError, "a plan takes no keyword arguments");
  PyObject *key = key_of(args);
  if (!key) return 0;
  PyObject *plan = PyDict_GetItemWithError(self->plans, key);
  if (plan) {
    Py_INCREF(plan);
  } else {
    /* An argument without a hash is refused by the function itself, which says so. */
    int can_remember = !PyErr_Occurred();
    PyErr_Clear();
    if (!simplify(key)) plan = PyObject_CallObject(self->function, key);
    if (plan && PyDict_Size(self->plans) >= MOST) PyDict_Clear(self->plans);
    if (plan && can_remember && PyDict_SetItem(self->plans, key, plan)) Py_CLEAR(plan);
  }
  Py_DECREF(key);
  return plan;
}

static int traverse(PyObject *object, visitproc visit, void *arg) {
  planned *self = (planned *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->function);
  Py_VISIT(self->plans);
  return 0;
}

static int clear(PyObject *object) {
  planned *self = (planned *)object;
  Py_CLEAR(self->function);
  Py_CLEAR(self->plans);
  return 0;
}

static void dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  clear(object);
  hiprt_py_free(object);
}

PyTypeObject *hiprt_py_make_planned(void) {
  static PyMemberDef members[] = {{"function", T_OBJECT, offsetof(planned, function), READONLY, 0}, {0}};
  static PyType_Slot slots[] = {
      {Py_tp_new, (void *)new_planned}, {Py_tp_call, (void *)call},     {Py_tp_dealloc, (void *)dealloc},
      {Py_tp_clear, (void *)clear},     {Py_tp_traverse, (void *)traverse}, {Py_tp_members, members},
      {0, 0},
  };
  static PyType_Spec spec = {"hiprt.objects.Planned", sizeof(planned), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                             slots};
  return (PyTypeObject *)PyType_FromSpec(&spec);
}
