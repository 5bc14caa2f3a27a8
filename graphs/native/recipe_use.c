#include "recipe_use.h" /* first: Python.h says so */

#include "calls.h"
#include "recipe_pattern.h"

/* The kinds of templates. */
enum { CONSTANT, VALUE, A_LIST, A_TUPLE, A_DICT, NEW, GIVEN, FOUND, SUM };

static uint64_t stamps; /* so far */

static PyObject *made_of(hiprt_py_use *u, PyObject *template);

static PyObject *made_items(hiprt_py_use *u, PyObject *templates, int is_list) {
  const Py_ssize_t count = PyTuple_Size(templates);
  PyObject *made = is_list ? PyList_New(count) : PyTuple_New(count);
  for (Py_ssize_t i = 0; made && i < count; i++) {
    PyObject *each = made_of(u, PyTuple_GetItem(templates, i));
    if (!each)
      Py_CLEAR(made);
    else if (is_list)
      PyList_SetItem(made, i, each);
    else
      PyTuple_SetItem(made, i, each);
  }
  return made;
}

/* Return what a template stands for, as a new reference. */
static PyObject *made_of(hiprt_py_use *u, PyObject *template) {
  PyObject *what = PyTuple_GetItem(template, 1);
  switch (hiprt_py_number_at(template, 0)) {
    case CONSTANT: return Py_NewRef(what);
    case VALUE: return Py_NewRef(u->values[PyLong_AsSsize_t(what)]);
    case A_LIST: return made_items(u, what, 1);
    case A_TUPLE: return made_items(u, what, 0);
    case A_DICT: {
      PyObject *items = made_items(u, PyTuple_GetItem(template, 2), 0), *made = items ? PyDict_New() : 0;
      for (Py_ssize_t i = 0; made && i < PyTuple_Size(items); i++)
        if (PyDict_SetItem(made, PyTuple_GetItem(what, i), PyTuple_GetItem(items, i))) Py_CLEAR(made);
      Py_XDECREF(items);
      return made;
    }
    case NEW: {
      const Py_ssize_t at = PyLong_AsSsize_t(what);
      if (!u->fresh[at]) u->fresh[at] = hiprt_py_around(u->values[hiprt_py_number_at(u->of->fresh, at)]);
      return Py_XNewRef(u->fresh[at]);
    }
    case GIVEN: return Py_NewRef(u->arrays[PyLong_AsSsize_t(what)]);
    case FOUND: return Py_NewRef(u->objects[PyLong_AsSsize_t(what)]);
    default: return PyLong_FromLongLong(hiprt_py_total(u, PyLong_AsSsize_t(what)));
  }
}

/* Let a value that is there already be a result of a call, in the place of the value that the call has made. */
static int stand_in(PyObject **made, PyObject *value, PyObject *results, Py_ssize_t at) {
  hiprt_py_array *now = (hiprt_py_array *)value;
  const hiprt_py_array *like = (hiprt_py_array *)*made;
  PyObject *reference = results ? PyWeakref_NewRef(value, 0) : 0, *before = now->primitive;
  if (results && (!reference || PyTuple_SetItem(results, at, reference))) return -1;
  now->primitive = Py_NewRef(like->primitive);
  now->number = like->number;
  now->address = like->address;
  now->start = like->start;
  now->end = like->end;
  Py_XDECREF(before);
  Py_DECREF(*made);
  *made = Py_NewRef(value);
  return 0;
}

/* Note the values that a call returned; `there` has those that are there already, by place, or is NULL. */
static int keep_results(hiprt_py_use *u, PyObject *made, PyObject **there) {
  const int is_list = PyList_CheckExact(made), is_tuple = PyTuple_CheckExact(made);
  const Py_ssize_t count = is_list ? PyList_Size(made) : is_tuple ? PyTuple_Size(made) : 1;
  int status = 0;
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject **each = &u->values[u->value_count], *value = there ? there[u->value_count] : 0;
    *each = Py_NewRef(is_list ? PyList_GetItem(made, i) : is_tuple ? PyTuple_GetItem(made, i) : made);
    u->value_count++;
    if (!value || status) continue;
    hiprt_py_primitive *maker = (hiprt_py_primitive *)((hiprt_py_array *)*each)->primitive;
    status = stand_in(each, value, maker->results, i);
  }
  Py_DECREF(made);
  return status;
}

/* Make the constants and positions. */
static int begin(hiprt_py_use *u) {
  const hiprt_py_recipe *self = u->of;
  for (Py_ssize_t i = 0; i < PyTuple_Size(self->constants); i++)
    u->values[u->value_count++] = Py_NewRef(PyTuple_GetItem(self->constants, i));
  for (Py_ssize_t i = 0; i < PyTuple_Size(self->positions); i++) {
    PyObject *number = PyLong_FromLongLong(hiprt_py_total(u, hiprt_py_number_at(self->positions, i)));
    PyObject *value = number ? PyObject_CallFunctionObjArgs(self->position, number, NULL) : 0;
    Py_XDECREF(number);
    if (!value) return -1;
    u->values[u->value_count++] = value;
  }
  return 0;
}

/* Make the values of all calls, with numbers from one on. */
static int compute(hiprt_py_use *u, uint64_t number, PyObject **there) {
  const hiprt_py_recipe *self = u->of;
  const uint64_t salt = (2 * number + 1) * 0x9e3779b97f4a7c15ull; /* odd */
  for (Py_ssize_t i = 0; i < PyTuple_Size(self->calls); i++) {
    PyObject *call = PyTuple_GetItem(self->calls, i), *places = PyTuple_GetItem(call, 4);
    const hiprt_py_application known = {PyTuple_GetItem(call, 0), PyTuple_GetItem(call, 1),
                                        (PyLong_AsUnsignedLongLongMask(PyTuple_GetItem(call, 2)) + 1) * salt};
    PyObject *arguments = made_items(u, PyTuple_GetItem(call, 3), 0), *inputs = PyTuple_New(PyTuple_Size(places));
    for (Py_ssize_t j = 0; inputs && j < PyTuple_Size(places); j++)
      PyTuple_SetItem(inputs, j, Py_NewRef(u->values[hiprt_py_number_at(places, j)]));
    PyObject *made = arguments && inputs ? hiprt_py_again(hiprt_py_lazy_trace, &known, arguments, inputs, number, 0) : 0;
    Py_XDECREF(arguments);
    Py_XDECREF(inputs);
    if (!made || keep_results(u, made, there)) return -1;
    number += (uint64_t)PyTuple_Size(PyTuple_GetItem(known.rule, 1)) + 1;
  }
  return 0;
}

/* Return how many numbers the calls take. */
static uint64_t numbers_of(const hiprt_py_recipe *self) {
  const Py_ssize_t given = self->array_count + PyTuple_Size(self->constants) + PyTuple_Size(self->positions);
  return (uint64_t)(self->value_count - given + PyTuple_Size(self->calls));
}

/* Return the stamp of the fixed arrays' values: the last one, where they are the same. */
static uint64_t stamp_of(hiprt_py_recipe *self, const hiprt_py_use *u) {
  int is_same = self->stamp != 0;
  for (Py_ssize_t i = 0; i < u->array_count; i++) {
    if (self->roles[i] != HIPRT_PY_FIXED) continue;
    const hiprt_py_seen now = {u->values[i], ((hiprt_py_array *)u->values[i])->number};
    is_same = is_same && self->last[i].value == now.value && self->last[i].number == now.number;
    self->last[i] = now;
  }
  return is_same ? self->stamp : (self->stamp = ++stamps);
}

/* Add one call that stands for all of them. Its arguments are the arrays, constants and positions; arrays that are fixed are no
 * inputs, so that nothing looks at them again where the structure is known. Constants are: one may be a position as well. */
static int join(hiprt_py_recipe *self, hiprt_py_use *u) {
  const Py_ssize_t others = PyTuple_Size(self->constants) + PyTuple_Size(self->positions);
  Py_ssize_t count = others, at = 0;
  for (Py_ssize_t i = 0; i < u->array_count; i++) count += self->roles[i] == HIPRT_PY_INPUT;
  PyObject *arguments = PyTuple_New(u->array_count + others), *inputs = PyTuple_New(count);
  for (Py_ssize_t i = 0; arguments && inputs && i < u->array_count + others; i++) {
    const int role = i < u->array_count ? self->roles[i] : HIPRT_PY_INPUT;
    PyTuple_SetItem(arguments, i, Py_NewRef(role == HIPRT_PY_UNUSED ? Py_None : u->values[i]));
    if (role == HIPRT_PY_INPUT) PyTuple_SetItem(inputs, at++, Py_NewRef(u->values[i]));
  }
  const uint64_t number = hiprt_py_numbered(numbers_of(self));
  const hiprt_py_application known = {(PyObject *)self, self->joint, (2 * number + 1) * 0x9e3779b97f4a7c15ull};
  const int is_ready = arguments && inputs;
  PyObject *made = is_ready ? hiprt_py_again(hiprt_py_lazy_trace, &known, arguments, inputs, number, stamp_of(self, u)) : 0;
  for (Py_ssize_t i = 0; made && i < PyTuple_Size(self->outputs); i++)
    u->values[hiprt_py_number_at(self->outputs, i)] = Py_NewRef(PyTuple_GetItem(made, i));
  Py_XDECREF(arguments);
  Py_XDECREF(inputs);
  Py_XDECREF(made);
  return made ? 0 : -1;
}

/* Put what was made where the function put it. `writes` has (number of the object, kind, key, template): kind 0 sets an item
 * of a list, 1 one of a dictionary, 2 an attribute. */
static int leave(hiprt_py_use *u, PyObject *made) {
  const hiprt_py_recipe *self = u->of;
  for (Py_ssize_t i = 0; i < PyTuple_Size(self->writes); i++) {
    PyObject *write = PyTuple_GetItem(self->writes, i), *key = PyTuple_GetItem(write, 2), *each = PyTuple_GetItem(made, i);
    PyObject *object = u->objects[hiprt_py_number_at(write, 0)];
    const Py_ssize_t kind = hiprt_py_number_at(write, 1);
    PyObject *attributes = kind == 2 ? PyObject_GenericGetDict(object, 0) : Py_NewRef(object);
    if (!attributes) return -1;
    const int status = kind ? PyDict_SetItem(attributes, key, each)
                            : PyList_SetItem(attributes, PyLong_AsSsize_t(key), Py_NewRef(each));
    Py_DECREF(attributes);
    if (status) return -1;
  }
  for (Py_ssize_t i = 0; i < PyTuple_Size(self->changed); i++) {
    PyObject *each = PyTuple_GetItem(self->changed, i);
    hiprt_py_lazy *array = (hiprt_py_lazy *)u->arrays[hiprt_py_number_at(each, 0)];
    PyObject *before = array->value;
    array->value = Py_NewRef(u->values[hiprt_py_number_at(each, 1)]);
    Py_XDECREF(before);
  }
  return 0;
}

static void drop(PyObject **items, Py_ssize_t count) {
  for (Py_ssize_t i = 0; items && i < count; i++) Py_XDECREF(items[i]);
  PyMem_Free(items);
}

/* Begin a use; -1 with an exception. */
static int open_use(hiprt_py_use *u, const hiprt_py_recipe *self) {
  *u = (hiprt_py_use){.of = self};
  if (!self->nodes) return PyErr_Format(PyExc_TypeError, "the recipe was not made"), -1;
  u->objects = PyMem_Calloc((size_t)self->node_count + 1, sizeof(PyObject *));
  u->arrays = PyMem_Calloc((size_t)self->array_count + 1, sizeof(PyObject *));
  u->values = PyMem_Calloc((size_t)self->value_count + 1, sizeof(PyObject *));
  u->fresh = PyMem_Calloc((size_t)PyTuple_Size(self->fresh) + 1, sizeof(PyObject *));
  u->integers = PyMem_Calloc((size_t)self->integer_count + 1, sizeof(long long));
  if (u->objects && u->arrays && u->values && u->fresh && u->integers) return 0;
  return PyErr_NoMemory(), -1;
}

static void close_use(const hiprt_py_use *u) {
  if (u->fresh) drop(u->fresh, PyTuple_Size(u->of->fresh));
  drop(u->values, u->of->value_count);
  drop(u->objects, u->of->node_count);
  PyMem_Free(u->arrays);
  PyMem_Free(u->integers);
}

/* Whether one call can stand for all: fixed arrays are read where they are, without another evaluation. */
static int is_joint(const hiprt_py_use *u) { return u->of->joint != Py_None && !u->is_lazy; }

/* Return what the templates of the writes stand for. */
static PyObject *made_writes(hiprt_py_use *u) {
  PyObject *writes = u->of->writes, *made = PyTuple_New(PyTuple_Size(writes));
  for (Py_ssize_t i = 0; made && i < PyTuple_Size(made); i++) {
    PyObject *each = made_of(u, PyTuple_GetItem(PyTuple_GetItem(writes, i), 3));
    if (!each || PyTuple_SetItem(made, i, each)) Py_CLEAR(made);
  }
  return made;
}

PyObject *hiprt_py_take(PyObject *object, PyObject *root) {
  hiprt_py_recipe *self = (hiprt_py_recipe *)object;
  hiprt_py_use u;
  PyObject *result = 0, *made = 0;
  if (!open_use(&u, self)) {
    if (!hiprt_py_fits(&u, root) || !hiprt_py_holds(&u)) {
      if (!PyErr_Occurred()) result = Py_NewRef(Py_NotImplemented);
    } else if (!begin(&u) && !(is_joint(&u) ? join(self, &u) : compute(&u, hiprt_py_numbered(numbers_of(self)), 0))) {
      made = made_writes(&u);
      result = made ? made_of(&u, self->result) : 0;
      if (result && leave(&u, made)) Py_CLEAR(result);
    }
  }
  Py_XDECREF(made);
  close_use(&u);
  return result;
}

PyObject *hiprt_py_values(PyObject *object, PyObject *root) {
  hiprt_py_use u;
  PyObject *found = 0;
  if (!open_use(&u, (const hiprt_py_recipe *)object)) {
    u.fits_all = 1;
    if (hiprt_py_fits(&u, root)) {
      found = PyList_New(u.array_count);
      for (Py_ssize_t i = 0; found && i < u.array_count; i++) PyList_SetItem(found, i, Py_NewRef(u.values[i]));
    } else if (!PyErr_Occurred()) {
      found = Py_NewRef(Py_None);
    }
  }
  close_use(&u);
  return found;
}

PyObject *hiprt_py_expand(PyObject *object, PyObject *joint) {
  const hiprt_py_recipe *self = (const hiprt_py_recipe *)object;
  hiprt_py_primitive *primitive = (hiprt_py_primitive *)joint;
  if (Py_TYPE(joint) != hiprt_py_primitive_type || primitive->op != object || !self->nodes)
    return PyErr_Format(PyExc_TypeError, "expand: a call that stands for this recipe's is needed");
  hiprt_py_use u;
  PyObject **there = PyMem_Calloc((size_t)self->value_count + 1, sizeof(PyObject *));
  PyObject *arguments = Py_NewRef(primitive->arguments), *results = Py_XNewRef(primitive->results), *done = 0;
  Py_INCREF(joint);
  if (!open_use(&u, self) && there) {
    u.array_count = self->array_count;
    u.value_count = PyTuple_Size(arguments);
    for (Py_ssize_t i = 0; i < u.value_count; i++) u.values[i] = Py_NewRef(PyTuple_GetItem(arguments, i));
    for (Py_ssize_t i = 0; results && i < PyTuple_Size(self->outputs); i++) {
      PyObject *value = hiprt_py_referred(PyTuple_GetItem(results, i));
      if (value != Py_None && ((hiprt_py_array *)value)->primitive == joint)
        there[hiprt_py_number_at(self->outputs, i)] = Py_NewRef(value);
    }
    if (!compute(&u, primitive->number, there)) done = Py_NewRef(Py_None);
  } else if (!there) {
    PyErr_NoMemory();
  }
  drop(there, self->value_count);
  close_use(&u);
  Py_DECREF(arguments);
  Py_XDECREF(results);
  Py_DECREF(joint);
  return done;
}
