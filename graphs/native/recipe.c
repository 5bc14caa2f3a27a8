/* Recipes: what a call of a Python function has computed, to be computed again without the function.
 *
 * A recipe has a **pattern** of the objects that the function reads, beginning with its arguments: their types, the forms
 * of their arrays, and what is a constant. Integers of the state are slots; **tests** compare sums of them with 0. Where
 * the pattern and the tests fit, the recipe adds the calls of ops that the function made to the lazy graph, leaves in the
 * objects what the function left there, and returns what it returned. See graphs/trace/recipes/record.py, which makes it.
 *
 * This is the extension module hiprt.graphs.native.recipe. */
#include "lazy.h" /* first: Python.h says so */
#include "trace.h"

#include <string.h>

enum { SAME, ARRAY, INTEGER, LIST, TUPLE, DICT, OBJECT, AGAIN, ANY };
enum { CONSTANT, VALUE, A_LIST, A_TUPLE, A_DICT, NEW, GIVEN, FOUND, SUM };
enum { EQUAL, DIFFERENT, LESS, AT_MOST, MORE, AT_LEAST };
/* Of an array: the calls use it; they do, and it is fixed; they do not. */
enum { INPUT, FIXED, UNUSED };
#define MOST_INTEGER (1ll << 40)

/* An object of the pattern; what is in it follows. */
typedef struct {
  int kind;
  PyObject *object;   /* SAME: the object; ARRAY: the form of its value; OBJECT: the type */
  PyObject *own;      /* DICT, OBJECT: the keys of its items, or None */
  PyObject *attributes; /* OBJECT: the names of its attributes */
  Py_ssize_t count;   /* LIST, TUPLE: how many items; AGAIN: the number of the same object; ARRAY: its axis of a prefix */
  int is_grown;       /* ARRAY: its value is a cache of which a part was written */
} node;

/* A sum of integers, each times a constant. */
typedef struct {
  long long constant;
  Py_ssize_t first, count; /* of its terms */
  int test;                /* how it compares with 0, where it is a test */
} sum;

typedef struct {
  Py_ssize_t slot;
  long long times;
} term;

/* A value, which is not held. */
typedef struct {
  const void *value;
  uint64_t number;
} seen;

typedef struct {
  PyObject_HEAD
  node *nodes;
  sum *sums; /* the tests, then those that templates and positions use */
  term *terms;
  Py_ssize_t node_count, sum_count, test_count, array_count, integer_count, value_count;
  PyObject *keep;                           /* a tuple that holds what nodes point to */
  PyObject *position;                       /* position(n): the value that holds a number */
  PyObject *constants, *positions;          /* tuples: of values; of numbers of sums */
  PyObject *calls;                          /* a tuple: (op, rule, hash, template of the arguments, places of the inputs) */
  PyObject *fresh, *changed, *writes, *result; /* see `take` */
  /* Where all calls are added to the graph as one: its rule, else None; the places of what it returns; and the roles of the
   * arrays. */
  PyObject *joint, *outputs;
  char *roles;
  seen *last;     /* the fixed arrays' values at the last use */
  uint64_t stamp; /* of these values; every other set of them has another one */
} recipe;

/* One use of a recipe. */
typedef struct {
  const recipe *of;
  PyObject **objects;  /* of the nodes; new references */
  PyObject **arrays;   /* borrowed from objects */
  PyObject **values;   /* new references */
  PyObject **fresh;    /* new references */
  long long *integers;
  Py_ssize_t array_count, integer_count, value_count;
  int is_lazy; /* whether the value of a fixed array is not computed yet */
  int fits_all; /* whether arrays of other forms fit */
} use;

static uint64_t stamps; /* so far */

static int is_same(PyObject *object, PyObject *expected) {
  if (object == expected) return 1;
  if (Py_TYPE(object) != Py_TYPE(expected)) return 0;
  if (PyUnicode_CheckExact(object) || PyLong_CheckExact(object)) return PyObject_RichCompareBool(object, expected, Py_EQ);
  if (!PyFloat_CheckExact(object)) return 0;
  const double a = PyFloat_AsDouble(object), b = PyFloat_AsDouble(expected);
  return !memcmp(&a, &b, sizeof a);
}

static Py_ssize_t fit(use *u, Py_ssize_t at, PyObject *object);

/* Fit what a dictionary holds to the nodes from one on: return the number behind the last, 0 where it does not fit. */
static Py_ssize_t fit_items(use *u, Py_ssize_t at, PyObject *dict, PyObject *keys) {
  PyObject *key, *each;
  Py_ssize_t place = 0, i = 0;
  if (PyDict_Size(dict) != PyTuple_Size(keys)) return 0;
  while (at && PyDict_Next(dict, &place, &key, &each))
    at = is_same(key, PyTuple_GetItem(keys, i++)) == 1 ? fit(u, at, each) : 0;
  return at;
}

static int fit_array(use *u, const node *n, PyObject *object) {
  if (Py_TYPE(object) != hiprt_py_lazy_type) return 0;
  PyObject *value = ((hiprt_py_lazy *)object)->value;
  if (!value || !PyObject_TypeCheck(value, hiprt_py_array_type)) return 0;
  PyObject *form = hiprt_py_form((hiprt_py_array *)value);
  Py_XDECREF(form); /* the value holds it */
  const hiprt_py_primitive *maker = (const hiprt_py_primitive *)((hiprt_py_array *)value)->primitive;
  if ((form != n->object && !u->fits_all) || !maker || maker->prefix != n->count ||
      hiprt_py_is_grown(hiprt_py_lazy_trace, (hiprt_py_array *)value) != n->is_grown)
    return 0;
  u->is_lazy |= u->of->roles[u->array_count] == FIXED && maker->op != Py_None;
  u->values[u->array_count] = Py_NewRef(value);
  u->value_count++;
  u->arrays[u->array_count++] = object;
  return 1;
}

/* Fit an object to a node: return the number of the node behind it and what is in it, 0 where it does not fit. */
static Py_ssize_t fit(use *u, Py_ssize_t at, PyObject *object) {
  const node *n = &u->of->nodes[at];
  u->objects[at++] = Py_NewRef(object);
  switch (n->kind) {
    case SAME: return is_same(object, n->object) == 1 ? at : 0;
    case ARRAY: return fit_array(u, n, object) ? at : 0;
    case INTEGER: {
      int overflow = 0;
      const long long number = PyLong_CheckExact(object) ? PyLong_AsLongLongAndOverflow(object, &overflow) : MOST_INTEGER;
      u->integers[u->integer_count++] = number;
      return !overflow && number > -MOST_INTEGER && number < MOST_INTEGER ? at : 0;
    }
    case LIST:
    case TUPLE: {
      const int is_list = n->kind == LIST;
      if (is_list ? !PyList_CheckExact(object) : !PyTuple_CheckExact(object)) return 0;
      if ((is_list ? PyList_Size(object) : PyTuple_Size(object)) != n->count) return 0;
      for (Py_ssize_t i = 0; at && i < n->count; i++)
        at = fit(u, at, is_list ? PyList_GetItem(object, i) : PyTuple_GetItem(object, i));
      return at;
    }
    case DICT: return PyDict_CheckExact(object) ? fit_items(u, at, object, n->own) : 0;
    case OBJECT: {
      if ((PyObject *)Py_TYPE(object) != n->object) return 0;
      if (n->own != Py_None && !(at = fit_items(u, at, object, n->own))) return 0;
      PyObject *attributes = PyObject_GenericGetDict(object, 0);
      if (!attributes) return PyErr_Clear(), 0;
      at = fit_items(u, at, attributes, n->attributes);
      Py_DECREF(attributes); /* the object holds it */
      return at;
    }
    case AGAIN: return object == u->objects[n->count] ? at : 0;
    default: return at;
  }
}

/* No sum overflows: graphs/trace/integer.py bounds its terms and its constant. */
static long long total(const use *u, Py_ssize_t at) {
  const sum *s = &u->of->sums[at];
  long long found = s->constant;
  for (Py_ssize_t i = 0; i < s->count; i++) {
    const term *t = &u->of->terms[s->first + i];
    found += t->times * u->integers[t->slot];
  }
  return found;
}

static int holds(const use *u, Py_ssize_t at) {
  const long long found = total(u, at);
  switch (u->of->sums[at].test) {
    case EQUAL: return found == 0;
    case DIFFERENT: return found != 0;
    case LESS: return found < 0;
    case AT_MOST: return found <= 0;
    case MORE: return found > 0;
    default: return found >= 0;
  }
}

static Py_ssize_t number_at(PyObject *tuple, Py_ssize_t at) { return PyLong_AsSsize_t(PyTuple_GetItem(tuple, at)); }

static PyObject *made_of(use *u, PyObject *template);

static PyObject *made_items(use *u, PyObject *templates, int is_list) {
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
static PyObject *made_of(use *u, PyObject *template) {
  PyObject *what = PyTuple_GetItem(template, 1);
  switch (number_at(template, 0)) {
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
      if (!u->fresh[at]) u->fresh[at] = hiprt_py_around(u->values[number_at(u->of->fresh, at)]);
      return Py_XNewRef(u->fresh[at]);
    }
    case GIVEN: return Py_NewRef(u->arrays[PyLong_AsSsize_t(what)]);
    case FOUND: return Py_NewRef(u->objects[PyLong_AsSsize_t(what)]);
    default: return PyLong_FromLongLong(total(u, PyLong_AsSsize_t(what)));
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
static int keep_results(use *u, PyObject *made, PyObject **there) {
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
static int begin(use *u) {
  const recipe *self = u->of;
  for (Py_ssize_t i = 0; i < PyTuple_Size(self->constants); i++)
    u->values[u->value_count++] = Py_NewRef(PyTuple_GetItem(self->constants, i));
  for (Py_ssize_t i = 0; i < PyTuple_Size(self->positions); i++) {
    PyObject *number = PyLong_FromLongLong(total(u, number_at(self->positions, i)));
    PyObject *value = number ? PyObject_CallFunctionObjArgs(self->position, number, 0) : 0;
    Py_XDECREF(number);
    if (!value) return -1;
    u->values[u->value_count++] = value;
  }
  return 0;
}

/* Make the values of all calls, with numbers from one on. */
static int compute(use *u, uint64_t number, PyObject **there) {
  const recipe *self = u->of;
  const uint64_t salt = (2 * number + 1) * 0x9e3779b97f4a7c15ull; /* odd */
  for (Py_ssize_t i = 0; i < PyTuple_Size(self->calls); i++) {
    PyObject *call = PyTuple_GetItem(self->calls, i), *places = PyTuple_GetItem(call, 4);
    const hiprt_py_application known = {PyTuple_GetItem(call, 0), PyTuple_GetItem(call, 1),
                                        (PyLong_AsUnsignedLongLongMask(PyTuple_GetItem(call, 2)) + 1) * salt};
    PyObject *arguments = made_items(u, PyTuple_GetItem(call, 3), 0), *inputs = PyTuple_New(PyTuple_Size(places));
    for (Py_ssize_t j = 0; inputs && j < PyTuple_Size(places); j++)
      PyTuple_SetItem(inputs, j, Py_NewRef(u->values[number_at(places, j)]));
    PyObject *made = arguments && inputs ? hiprt_py_again(hiprt_py_lazy_trace, &known, arguments, inputs, number, 0) : 0;
    Py_XDECREF(arguments);
    Py_XDECREF(inputs);
    if (!made || keep_results(u, made, there)) return -1;
    number += (uint64_t)PyTuple_Size(PyTuple_GetItem(known.rule, 1)) + 1;
  }
  return 0;
}

/* Return how many numbers the calls take. */
static uint64_t numbers_of(const recipe *self) {
  const Py_ssize_t given = self->array_count + PyTuple_Size(self->constants) + PyTuple_Size(self->positions);
  return (uint64_t)(self->value_count - given + PyTuple_Size(self->calls));
}

/* Return the stamp of the fixed arrays' values: the last one, where they are the same. */
static uint64_t stamp_of(recipe *self, const use *u) {
  int is_same = self->stamp != 0;
  for (Py_ssize_t i = 0; i < u->array_count; i++) {
    if (self->roles[i] != FIXED) continue;
    const seen now = {u->values[i], ((hiprt_py_array *)u->values[i])->number};
    is_same = is_same && self->last[i].value == now.value && self->last[i].number == now.number;
    self->last[i] = now;
  }
  return is_same ? self->stamp : (self->stamp = ++stamps);
}

/* Add one call that stands for all of them. Its arguments are the arrays, constants and positions; arrays that are fixed are no
 * inputs, so that nothing looks at them again where the structure is known. Constants are: one may be a position as well. */
static int join(recipe *self, use *u) {
  const Py_ssize_t others = PyTuple_Size(self->constants) + PyTuple_Size(self->positions);
  Py_ssize_t count = others, at = 0;
  for (Py_ssize_t i = 0; i < u->array_count; i++) count += self->roles[i] == INPUT;
  PyObject *arguments = PyTuple_New(u->array_count + others), *inputs = PyTuple_New(count);
  for (Py_ssize_t i = 0; arguments && inputs && i < u->array_count + others; i++) {
    const int role = i < u->array_count ? self->roles[i] : INPUT;
    PyTuple_SetItem(arguments, i, Py_NewRef(role == UNUSED ? Py_None : u->values[i]));
    if (role == INPUT) PyTuple_SetItem(inputs, at++, Py_NewRef(u->values[i]));
  }
  const uint64_t number = hiprt_py_numbered(numbers_of(self));
  const hiprt_py_application known = {(PyObject *)self, self->joint, (2 * number + 1) * 0x9e3779b97f4a7c15ull};
  PyObject *made = arguments && inputs ? hiprt_py_again(hiprt_py_lazy_trace, &known, arguments, inputs, number, stamp_of(self, u)) : 0;
  for (Py_ssize_t i = 0; made && i < PyTuple_Size(self->outputs); i++)
    u->values[number_at(self->outputs, i)] = Py_NewRef(PyTuple_GetItem(made, i));
  Py_XDECREF(arguments);
  Py_XDECREF(inputs);
  Py_XDECREF(made);
  return made ? 0 : -1;
}

/* Put what was made where the function put it. `writes` has (number of the object, kind, key, template): kind 0 sets an item
 * of a list, 1 one of a dictionary, 2 an attribute. */
static int leave(use *u, PyObject *made) {
  const recipe *self = u->of;
  for (Py_ssize_t i = 0; i < PyTuple_Size(self->writes); i++) {
    PyObject *write = PyTuple_GetItem(self->writes, i), *key = PyTuple_GetItem(write, 2), *each = PyTuple_GetItem(made, i);
    PyObject *object = u->objects[number_at(write, 0)];
    const Py_ssize_t kind = number_at(write, 1);
    PyObject *attributes = kind == 2 ? PyObject_GenericGetDict(object, 0) : Py_NewRef(object);
    if (!attributes) return -1;
    const int status = kind ? PyDict_SetItem(attributes, key, each)
                            : PyList_SetItem(attributes, PyLong_AsSsize_t(key), Py_NewRef(each));
    Py_DECREF(attributes);
    if (status) return -1;
  }
  for (Py_ssize_t i = 0; i < PyTuple_Size(self->changed); i++) {
    PyObject *each = PyTuple_GetItem(self->changed, i);
    hiprt_py_lazy *array = (hiprt_py_lazy *)u->arrays[number_at(each, 0)];
    PyObject *before = array->value;
    array->value = Py_NewRef(u->values[number_at(each, 1)]);
    Py_XDECREF(before);
  }
  return 0;
}

static void drop(PyObject **items, Py_ssize_t count) {
  for (Py_ssize_t i = 0; items && i < count; i++) Py_XDECREF(items[i]);
  PyMem_Free(items);
}

/* Whether one call can stand for all: fixed arrays are read where they are, without another evaluation. */
static int is_joint(const recipe *self, const use *u) { return self->joint != Py_None && !u->is_lazy; }

/* take(root): what the function returns for arguments, of which the root is a tuple; NotImplemented where the recipe is not
 * for them. */
static PyObject *take(PyObject *object, PyObject *root) {
  recipe *self = (recipe *)object;
  if (!self->nodes) return PyErr_Format(PyExc_TypeError, "the recipe was not made");
  const Py_ssize_t fresh = PyTuple_Size(self->fresh);
  use u = {.of = self,
           .objects = PyMem_Calloc((size_t)self->node_count + 1, sizeof(PyObject *)),
           .arrays = PyMem_Calloc((size_t)self->array_count + 1, sizeof(PyObject *)),
           .values = PyMem_Calloc((size_t)self->value_count + 1, sizeof(PyObject *)),
           .fresh = PyMem_Calloc((size_t)fresh + 1, sizeof(PyObject *)),
           .integers = PyMem_Calloc((size_t)self->integer_count + 1, sizeof(long long))};
  PyObject *result = 0, *made = 0;
  if (!u.objects || !u.arrays || !u.values || !u.fresh || !u.integers) {
    PyErr_NoMemory();
  } else {
    int is_fit = fit(&u, 0, root) == self->node_count;
    for (Py_ssize_t i = 0; is_fit && i < self->test_count; i++) is_fit = holds(&u, i);
    if (!is_fit) {
      if (!PyErr_Occurred()) result = Py_NewRef(Py_NotImplemented);
    } else if (!begin(&u) && !(is_joint(self, &u) ? join(self, &u) : compute(&u, hiprt_py_numbered(numbers_of(self)), 0))) {
      made = PyTuple_New(PyTuple_Size(self->writes));
      for (Py_ssize_t i = 0; made && i < PyTuple_Size(made); i++) {
        PyObject *each = made_of(&u, PyTuple_GetItem(PyTuple_GetItem(self->writes, i), 3));
        if (!each || PyTuple_SetItem(made, i, each)) Py_CLEAR(made);
      }
      result = made ? made_of(&u, self->result) : 0;
      if (result && leave(&u, made)) Py_CLEAR(result);
    }
  }
  Py_XDECREF(made);
  drop(u.fresh, fresh);
  drop(u.values, self->value_count);
  drop(u.objects, self->node_count);
  PyMem_Free(u.arrays);
  PyMem_Free(u.integers);
  return result;
}

/* values(root): the values of the pattern's arrays, in a list, where the root fits but for their forms; None elsewhere. */
static PyObject *values(PyObject *object, PyObject *root) {
  const recipe *self = (const recipe *)object;
  if (!self->nodes) return PyErr_Format(PyExc_TypeError, "the recipe was not made");
  use u = {.of = self,
           .objects = PyMem_Calloc((size_t)self->node_count + 1, sizeof(PyObject *)),
           .arrays = PyMem_Calloc((size_t)self->array_count + 1, sizeof(PyObject *)),
           .values = PyMem_Calloc((size_t)self->array_count + 1, sizeof(PyObject *)),
           .integers = PyMem_Calloc((size_t)self->integer_count + 1, sizeof(long long)),
           .fits_all = 1};
  PyObject *found = 0;
  if (!u.objects || !u.arrays || !u.values || !u.integers) {
    PyErr_NoMemory();
  } else if (fit(&u, 0, root) == self->node_count) {
    found = PyList_New(u.array_count);
    for (Py_ssize_t i = 0; found && i < u.array_count; i++) PyList_SetItem(found, i, Py_NewRef(u.values[i]));
  } else if (!PyErr_Occurred()) {
    found = Py_NewRef(Py_None);
  }
  drop(u.values, self->array_count);
  drop(u.objects, self->node_count);
  PyMem_Free(u.arrays);
  PyMem_Free(u.integers);
  return found;
}

/* expand(primitive): put the calls in the place of one that stands for them, in the graph. */
static PyObject *expand(PyObject *object, PyObject *joint) {
  const recipe *self = (const recipe *)object;
  hiprt_py_primitive *primitive = (hiprt_py_primitive *)joint;
  if (Py_TYPE(joint) != hiprt_py_primitive_type || primitive->op != object || !self->nodes)
    return PyErr_Format(PyExc_TypeError, "expand: a call that stands for this recipe's is needed");
  use u = {.of = self,
           .values = PyMem_Calloc((size_t)self->value_count + 1, sizeof(PyObject *)),
           .array_count = self->array_count,
           .value_count = PyTuple_Size(primitive->arguments)};
  PyObject **there = PyMem_Calloc((size_t)self->value_count + 1, sizeof(PyObject *));
  PyObject *arguments = Py_NewRef(primitive->arguments), *results = Py_XNewRef(primitive->results), *done = 0;
  Py_INCREF(joint);
  if (!u.values || !there) {
    PyErr_NoMemory();
  } else {
    for (Py_ssize_t i = 0; i < u.value_count; i++) u.values[i] = Py_NewRef(PyTuple_GetItem(arguments, i));
    for (Py_ssize_t i = 0; results && i < PyTuple_Size(self->outputs); i++) {
      PyObject *value = hiprt_py_referred(PyTuple_GetItem(results, i));
      if (value != Py_None && ((hiprt_py_array *)value)->primitive == joint) there[number_at(self->outputs, i)] = Py_NewRef(value);
    }
    if (!compute(&u, primitive->number, there)) done = Py_NewRef(Py_None);
  }
  drop(there, self->value_count);
  drop(u.values, self->value_count);
  Py_DECREF(arguments);
  Py_XDECREF(results);
  Py_DECREF(joint);
  return done;
}

/* Read the nodes: tuples of the kind, the object, and two more; see `node`. */
static int read_nodes(recipe *self, PyObject *nodes) {
  self->node_count = PyTuple_Size(nodes);
  if (!(self->nodes = PyMem_Calloc((size_t)self->node_count + 1, sizeof *self->nodes))) return PyErr_NoMemory(), -1;
  for (Py_ssize_t i = 0; i < self->node_count; i++) {
    node *n = &self->nodes[i];
    PyObject *first, *second;
    if (!PyArg_ParseTuple(PyTuple_GetItem(nodes, i), "iOOO", &n->kind, &n->object, &first, &second)) return -1;
    if (n->kind == DICT || n->kind == OBJECT) n->own = first;
    if (n->kind == OBJECT) n->attributes = second;
    if (n->kind == LIST || n->kind == TUPLE || n->kind == AGAIN || n->kind == ARRAY) n->count = PyLong_AsSsize_t(first);
    if (n->kind == ARRAY) n->is_grown = PyObject_IsTrue(second);
    self->array_count += n->kind == ARRAY;
    self->integer_count += n->kind == INTEGER;
  }
  return PyErr_Occurred() ? -1 : 0;
}

/* Read the sums: tuples of the constant, the test, and pairs of a slot and its factor. */
static int read_sums(recipe *self, PyObject *sums) {
  Py_ssize_t terms = 0;
  self->sum_count = PyTuple_Size(sums);
  for (Py_ssize_t i = 0; i < self->sum_count; i++) terms += PyTuple_Size(PyTuple_GetItem(PyTuple_GetItem(sums, i), 2));
  self->sums = PyMem_Calloc((size_t)self->sum_count + 1, sizeof *self->sums);
  self->terms = PyMem_Calloc((size_t)terms + 1, sizeof *self->terms);
  if (!self->sums || !self->terms) return PyErr_NoMemory(), -1;
  terms = 0;
  for (Py_ssize_t i = 0; i < self->sum_count; i++) {
    sum *s = &self->sums[i];
    PyObject *parts;
    if (!PyArg_ParseTuple(PyTuple_GetItem(sums, i), "LiO!", &s->constant, &s->test, &PyTuple_Type, &parts)) return -1;
    s->first = terms;
    s->count = PyTuple_Size(parts);
    for (Py_ssize_t j = 0; j < s->count; j++) {
      term *t = &self->terms[terms++];
      if (!PyArg_ParseTuple(PyTuple_GetItem(parts, j), "nL", &t->slot, &t->times)) return -1;
      if (t->slot < 0 || t->slot >= self->integer_count) return PyErr_Format(PyExc_IndexError, "there is no such integer"), -1;
    }
  }
  return 0;
}

/* Read the roles of the arrays. */
static int read_roles(recipe *self, PyObject *roles) {
  self->roles = PyMem_Calloc((size_t)self->array_count + 1, 1);
  self->last = PyMem_Calloc((size_t)self->array_count + 1, sizeof *self->last);
  if (!self->roles || !self->last) return PyErr_NoMemory(), -1;
  if (PyTuple_Size(roles) != self->array_count) return PyErr_Format(PyExc_ValueError, "each array has a role"), -1;
  for (Py_ssize_t i = 0; i < self->array_count; i++) self->roles[i] = (char)number_at(roles, i);
  return 0;
}

/* Recipe(nodes, sums, how many of them are tests, position, constants, positions, calls, fresh, changed, writes, result,
 * roles, joint, outputs): `fresh` has the places of the values of new arrays, `changed` pairs of an array's number and its
 * new value's place, `roles` a number for each array. `joint` is the rule of a call that stands for all, with a fourth part that
 * says which results are caches of which a part was written, or None; `outputs` has the places of its results. */
static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  PyObject *nodes, *sums, *position, *roles, *joint, *t[8];
  Py_ssize_t tests;
  if (!PyArg_ParseTuple(args, "O!O!nOO!O!O!O!O!O!O!O!OO!", &PyTuple_Type, &nodes, &PyTuple_Type, &sums, &tests, &position,
                        &PyTuple_Type, &t[0], &PyTuple_Type, &t[1], &PyTuple_Type, &t[2], &PyTuple_Type, &t[3],
                        &PyTuple_Type, &t[4], &PyTuple_Type, &t[5], &PyTuple_Type, &t[6], &PyTuple_Type, &roles, &joint,
                        &PyTuple_Type, &t[7]))
    return 0;
  recipe *self = (recipe *)allocate(type, 0);
  if (!self) return 0;
  self->keep = Py_NewRef(nodes);
  self->position = Py_NewRef(position);
  PyObject **parts[] = {&self->constants, &self->positions, &self->calls, &self->fresh,
                        &self->changed,   &self->writes,    &self->result, &self->outputs};
  for (int i = 0; i < 8; i++) *parts[i] = Py_NewRef(t[i]);
  self->joint = Py_NewRef(joint);
  self->test_count = tests;
  int status = read_nodes(self, nodes) || read_sums(self, sums) || tests > self->sum_count || read_roles(self, roles);
  self->value_count = self->array_count + PyTuple_Size(self->constants) + PyTuple_Size(self->positions);
  for (Py_ssize_t i = 0; !status && i < PyTuple_Size(self->calls); i++)
    self->value_count += PyTuple_Size(PyTuple_GetItem(PyTuple_GetItem(PyTuple_GetItem(self->calls, i), 1), 1));
  if (!status) return (PyObject *)self;
  Py_DECREF((PyObject *)self);
  return 0;
}

static int traverse(PyObject *object, visitproc visit, void *arg) {
  recipe *self = (recipe *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->keep);
  Py_VISIT(self->position);
  Py_VISIT(self->constants);
  Py_VISIT(self->positions);
  Py_VISIT(self->calls);
  Py_VISIT(self->fresh);
  Py_VISIT(self->changed);
  Py_VISIT(self->writes);
  Py_VISIT(self->result);
  Py_VISIT(self->joint);
  Py_VISIT(self->outputs);
  return 0;
}

static int clear(PyObject *object) {
  recipe *self = (recipe *)object;
  PyMem_Free(self->nodes);
  self->nodes = 0; /* they point to what is let go of */
  Py_CLEAR(self->keep);
  Py_CLEAR(self->position);
  Py_CLEAR(self->constants);
  Py_CLEAR(self->positions);
  Py_CLEAR(self->calls);
  Py_CLEAR(self->fresh);
  Py_CLEAR(self->changed);
  Py_CLEAR(self->writes);
  Py_CLEAR(self->result);
  Py_CLEAR(self->joint);
  Py_CLEAR(self->outputs);
  return 0;
}

static void dealloc(PyObject *object) {
  recipe *self = (recipe *)object;
  PyObject_GC_UnTrack(object);
  clear(object);
  PyMem_Free(self->sums);
  PyMem_Free(self->terms);
  PyMem_Free(self->roles);
  PyMem_Free(self->last);
  hiprt_py_free(object);
}

/* numbered(): a number that is larger than those of all values. */
static PyObject *numbered(PyObject *module, PyObject *unused) { return PyLong_FromUnsignedLongLong(hiprt_py_numbered(0)); }

/* Whether two trees of tuples are alike: leaves that are neither one object nor the same number or text must satisfy
 * is_alike(one, other). -1 with an exception. */
static int alike(PyObject *a, PyObject *b, PyObject *is_alike) {
  if (a == b) return 1;
  if (Py_TYPE(a) != Py_TYPE(b)) return 0;
  if (!PyTuple_CheckExact(a)) {
    if (is_same(a, b) == 1) return 1;
    PyObject *answer = PyObject_CallFunctionObjArgs(is_alike, a, b, NULL);
    const int found = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    return found;
  }
  if (PyTuple_Size(a) != PyTuple_Size(b)) return 0;
  if (Py_EnterRecursiveCall(" in a comparison of recordings")) return -1;
  int found = 1;
  for (Py_ssize_t i = 0; found == 1 && i < PyTuple_Size(a); i++)
    found = alike(PyTuple_GetItem(a, i), PyTuple_GetItem(b, i), is_alike);
  Py_LeaveRecursiveCall();
  return found;
}

/* alike(a, b, is_alike): whether two trees of tuples have leaves that are alike. */
static PyObject *are_alike(PyObject *module, PyObject *args) {
  PyObject *a, *b, *is_alike;
  if (!PyArg_ParseTuple(args, "OOO", &a, &b, &is_alike)) return 0;
  const int found = alike(a, b, is_alike);
  return found < 0 ? 0 : PyBool_FromLong(found);
}

PyMODINIT_FUNC PyInit_recipe(void) {
  static PyMethodDef functions[] = {{"numbered", numbered, METH_NOARGS, 0}, {"alike", are_alike, METH_VARARGS, 0}, {0}};
  static PyMethodDef methods[] = {{"take", take, METH_O, 0}, {"values", values, METH_O, 0}, {"expand", expand, METH_O, 0}, {0}};
  static PyType_Slot slots[] = {
      {Py_tp_new, (void *)make},          {Py_tp_dealloc, (void *)dealloc}, {Py_tp_traverse, (void *)traverse},
      {Py_tp_clear, (void *)clear},       {Py_tp_methods, methods},         {0, 0},
  };
  static PyType_Spec spec = {"hiprt.graphs.native.recipe.Recipe", sizeof(recipe), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
  static struct PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "hiprt.graphs.native.recipe", "Recipes.", -1, functions, 0, 0, 0, 0,
  };
  PyObject *module = PyModule_Create(&definition);
  PyObject *type = module ? PyType_FromSpec(&spec) : 0;
  if (!type || PyModule_AddObject(module, "Recipe", type)) Py_CLEAR(module);
  return module;
}
