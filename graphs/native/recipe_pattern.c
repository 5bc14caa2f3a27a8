#include "recipe_pattern.h" /* first: Python.h says so */

#include <string.h>

#include "prefixes.h"

enum { EQUAL, DIFFERENT, LESS, AT_MOST, MORE, AT_LEAST };
#define MOST_INTEGER (1ll << 40)

int hiprt_py_is_same(PyObject *object, PyObject *expected) {
  if (object == expected) return 1;
  if (Py_TYPE(object) != Py_TYPE(expected)) return 0;
  if (PyUnicode_CheckExact(object) || PyLong_CheckExact(object)) return PyObject_RichCompareBool(object, expected, Py_EQ);
  if (!PyFloat_CheckExact(object)) return 0;
  const double a = PyFloat_AsDouble(object), b = PyFloat_AsDouble(expected);
  return !memcmp(&a, &b, sizeof a);
}

static Py_ssize_t fit(hiprt_py_use *u, Py_ssize_t at, PyObject *object);

/* Fit what a dictionary holds to the nodes from one on: return the number behind the last, 0 where it does not fit. */
static Py_ssize_t fit_items(hiprt_py_use *u, Py_ssize_t at, PyObject *dict, PyObject *keys) {
  PyObject *key, *each;
  Py_ssize_t place = 0, i = 0;
  if (PyDict_Size(dict) != PyTuple_Size(keys)) return 0;
  while (at && PyDict_Next(dict, &place, &key, &each))
    at = hiprt_py_is_same(key, PyTuple_GetItem(keys, i++)) == 1 ? fit(u, at, each) : 0;
  return at;
}

static int fit_array(hiprt_py_use *u, const hiprt_py_pattern *n, PyObject *object) {
  if (Py_TYPE(object) != hiprt_py_lazy_type) return 0;
  PyObject *value = ((hiprt_py_lazy *)object)->value;
  if (!value || !PyObject_TypeCheck(value, hiprt_py_array_type)) return 0;
  PyObject *form = hiprt_py_form((hiprt_py_array *)value);
  Py_XDECREF(form); /* the value holds it */
  const hiprt_py_primitive *maker = (const hiprt_py_primitive *)((hiprt_py_array *)value)->primitive;
  if ((form != n->object && !u->fits_all) || !maker || maker->prefix != n->count ||
      hiprt_py_is_grown(hiprt_py_lazy_trace, (hiprt_py_array *)value) != n->is_grown)
    return 0;
  u->is_lazy |= u->of->roles[u->array_count] == HIPRT_PY_FIXED && maker->op != Py_None;
  u->values[u->array_count] = Py_NewRef(value);
  u->value_count++;
  u->arrays[u->array_count++] = object;
  return 1;
}

/* Fit an object to a node: return the number of the node behind it and what is in it, 0 where it does not fit. */
static Py_ssize_t fit(hiprt_py_use *u, Py_ssize_t at, PyObject *object) {
  const hiprt_py_pattern *n = &u->of->nodes[at];
  u->objects[at++] = Py_NewRef(object);
  switch (n->kind) {
    case HIPRT_PY_SAME: return hiprt_py_is_same(object, n->object) == 1 ? at : 0;
    case HIPRT_PY_ARRAY: return fit_array(u, n, object) ? at : 0;
    case HIPRT_PY_INTEGER: {
      int overflow = 0;
      const long long number = PyLong_CheckExact(object) ? PyLong_AsLongLongAndOverflow(object, &overflow) : MOST_INTEGER;
      u->integers[u->integer_count++] = number;
      return !overflow && number > -MOST_INTEGER && number < MOST_INTEGER ? at : 0;
    }
    case HIPRT_PY_LIST:
    case HIPRT_PY_TUPLE: {
      const int is_list = n->kind == HIPRT_PY_LIST;
      if (is_list ? !PyList_CheckExact(object) : !PyTuple_CheckExact(object)) return 0;
      if ((is_list ? PyList_Size(object) : PyTuple_Size(object)) != n->count) return 0;
      for (Py_ssize_t i = 0; at && i < n->count; i++)
        at = fit(u, at, is_list ? PyList_GetItem(object, i) : PyTuple_GetItem(object, i));
      return at;
    }
    case HIPRT_PY_DICT: return PyDict_CheckExact(object) ? fit_items(u, at, object, n->own) : 0;
    case HIPRT_PY_OBJECT: {
      if ((PyObject *)Py_TYPE(object) != n->object) return 0;
      if (n->own != Py_None && !(at = fit_items(u, at, object, n->own))) return 0;
      PyObject *attributes = PyObject_GenericGetDict(object, 0);
      if (!attributes) return PyErr_Clear(), 0;
      at = fit_items(u, at, attributes, n->attributes);
      Py_DECREF(attributes); /* the object holds it */
      return at;
    }
    case HIPRT_PY_AGAIN: return object == u->objects[n->count] ? at : 0;
    default: return at;
  }
}

/* No sum overflows: graphs/trace/integer.py bounds its terms and its constant. */
long long hiprt_py_total(const hiprt_py_use *u, Py_ssize_t at) {
  const hiprt_py_sum *s = &u->of->sums[at];
  long long found = s->constant;
  for (Py_ssize_t i = 0; i < s->count; i++) {
    const hiprt_py_term *t = &u->of->terms[s->first + i];
    found += t->times * u->integers[t->slot];
  }
  return found;
}

static int is_true(const hiprt_py_use *u, Py_ssize_t at) {
  const long long found = hiprt_py_total(u, at);
  switch (u->of->sums[at].test) {
    case EQUAL: return found == 0;
    case DIFFERENT: return found != 0;
    case LESS: return found < 0;
    case AT_MOST: return found <= 0;
    case MORE: return found > 0;
    default: return found >= 0;
  }
}

int hiprt_py_fits(hiprt_py_use *u, PyObject *root) { return fit(u, 0, root) == u->of->node_count; }

int hiprt_py_holds(const hiprt_py_use *u) {
  for (Py_ssize_t i = 0; i < u->of->test_count; i++)
    if (!is_true(u, i)) return 0;
  return 1;
}
