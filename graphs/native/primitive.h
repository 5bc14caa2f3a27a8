/* Primitives: calls of ops that a trace has, and lazy arrays came from.
 *
 * A primitive is a Python object, which holds its inputs and does not change once it is made, but for its results and marks.
 * Called with the GIL held. */
#pragma once
#include "objects.h" /* first: Python.h says so */

/* One call of an op. */
typedef struct {
  PyObject_HEAD
  PyObject *op;        /* None for a value that is given from outside */
  PyObject *arguments; /* a tuple: one for each of the op's parameters, lists copied */
  PyObject *inputs;    /* a tuple: the arrays among the arguments, in order */
  PyObject *rule;      /* what the op does with arrays of these forms */
  uint64_t trace;      /* the number of the trace that it belongs to */
  uint64_t number;     /* of its first output; later primitives have larger ones */
  uint64_t hash;       /* of the op, its arguments, and those of all primitives that it depends on */
  PyObject *results;   /* of several in a lazy graph: a tuple of weak references to them; else NULL */
  hiprt_py_buffer *holds; /* of a leaf: the memory of the array that it holds, which is among its arguments */
  PyObject *mark;         /* of a leaf that was computed: the point behind its computation; else NULL */
  uint64_t stamp; /* of a call that stands for the calls of a recipe: which fixed arrays it is given; else 0 */
  int prefix; /* of a view of the first elements along an axis, whose number grows: the axis, from 1; else 0 */
} hiprt_py_primitive;

extern PyTypeObject *hiprt_py_primitive_type;

/* Make the class of primitives. */
PyTypeObject *hiprt_py_make_primitive(void);

/* Return a primitive of the trace with this number, whose first output has `number`. It takes over the reference to
 * `inputs`; NULL where that is NULL. */
hiprt_py_primitive *hiprt_py_new_primitive(uint64_t trace, PyObject *op, PyObject *arguments, PyObject *inputs,
                                           PyObject *rule, uint64_t hash, uint64_t number);
/* Return a primitive that makes nothing but holds the array that a value shows, which is a leaf of its graph then. */
PyObject *hiprt_py_leaf(const hiprt_py_array *value, PyObject *array);

/* Return a number that is larger than those of all values, and reserve some from it on. */
uint64_t hiprt_py_numbered(uint64_t count);

/* Return a hash of what another one stands for, with one more part. */
static inline uint64_t hiprt_py_mixed(uint64_t hash, uint64_t with) {
  hash = (hash ^ with) * 0x9e3779b97f4a7c15ull;
  return hash ^ hash >> 29;
}
