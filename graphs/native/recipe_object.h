/* Recipes: what a call of a Python function has computed, to be computed again without the function.
 *
 * A recipe has a **pattern** of the objects that the function reads, beginning with its arguments: their types, the forms
 * of their arrays, and what is a constant. Integers of the state are slots; **tests** compare sums of them with 0. Where
 * the pattern and the tests fit, the recipe adds the calls of ops that the function made to the lazy graph, leaves in the
 * objects what the function left there, and returns what it returned.
 *
 * recipe.c makes a recipe of what graphs/trace/recipes/record.py says, recipe_pattern.c fits objects to it, and recipe_use.c does
 * what it says. A recipe is a Python object, and all of this is called with the GIL held. */
#pragma once
#include "lazy.h" /* first: Python.h says so */

/* The kinds of a pattern's objects. */
enum { HIPRT_PY_SAME, HIPRT_PY_ARRAY, HIPRT_PY_INTEGER, HIPRT_PY_LIST, HIPRT_PY_TUPLE, HIPRT_PY_DICT, HIPRT_PY_OBJECT,
       HIPRT_PY_AGAIN, HIPRT_PY_ANY };
/* What the calls do with an array: they use it; they do, and it is fixed; they do not. */
enum { HIPRT_PY_INPUT, HIPRT_PY_FIXED, HIPRT_PY_UNUSED };

/* An object of the pattern; what is in it follows. */
typedef struct {
  int kind;
  PyObject *object;     /* SAME: the object; ARRAY: the form of its value; OBJECT: the type */
  PyObject *own;        /* DICT, OBJECT: the keys of its items, or None */
  PyObject *attributes; /* OBJECT: the names of its attributes */
  Py_ssize_t count; /* LIST, TUPLE: how many items; AGAIN: the number of the same object; ARRAY: its axis of a prefix */
  int is_grown;     /* ARRAY: its value is a cache of which a part was written */
} hiprt_py_pattern;

/* A sum of integers, each times a constant. */
typedef struct {
  long long constant;
  Py_ssize_t first, count; /* of its terms */
  int test;                /* how it compares with 0, where it is a test */
} hiprt_py_sum;

typedef struct {
  Py_ssize_t slot;
  long long times;
} hiprt_py_term;

/* A value, which is not held. */
typedef struct {
  const void *value;
  uint64_t number;
} hiprt_py_seen;

typedef struct {
  PyObject_HEAD
  hiprt_py_pattern *nodes;
  hiprt_py_sum *sums; /* the tests, then those that templates and positions use */
  hiprt_py_term *terms;
  Py_ssize_t node_count, sum_count, test_count, array_count, integer_count, value_count;
  PyObject *keep;                  /* a tuple that holds what nodes point to */
  PyObject *position;              /* position(n): the value that holds a number */
  PyObject *constants, *positions; /* tuples: of values; of numbers of sums */
  PyObject *calls;  /* a tuple: (op, rule, hash, template of the arguments, places of the inputs) */
  PyObject *fresh;  /* a tuple: the places of the values of new arrays */
  PyObject *changed; /* a tuple: pairs of an array's number and its new value's place */
  PyObject *writes; /* a tuple: (number of the object, kind, key, template); see recipe_use.c */
  PyObject *result; /* a template */
  /* Where all calls are added to the graph as one: its rule, else None; the places of what it returns; and the roles of the
   * arrays. */
  PyObject *joint, *outputs;
  char *roles;
  hiprt_py_seen *last; /* the fixed arrays' values at the last use */
  uint64_t stamp;      /* of these values; every other set of them has another one */
} hiprt_py_recipe;

/* One use of a recipe. */
typedef struct {
  const hiprt_py_recipe *of;
  PyObject **objects; /* of the nodes; new references */
  PyObject **arrays;  /* borrowed from objects */
  PyObject **values;  /* new references */
  PyObject **fresh;   /* new references */
  long long *integers;
  Py_ssize_t array_count, integer_count, value_count;
  int is_lazy;  /* whether the value of a fixed array is not computed yet */
  int fits_all; /* whether arrays of other forms fit */
} hiprt_py_use;

static inline Py_ssize_t hiprt_py_number_at(PyObject *tuple, Py_ssize_t at) {
  return PyLong_AsSsize_t(PyTuple_GetItem(tuple, at));
}
