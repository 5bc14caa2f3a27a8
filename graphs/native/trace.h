/* Traces: what other extension modules use of them. */
#pragma once
#include "objects.h" /* first: Python.h says so */

/* Read a tree of arrays and constants: all of it but the contents of its arrays, as a tuple, and the arrays, as one.
 * -1 with an exception. */
int hiprt_py_signature(PyObject *tree, PyObject **out_key, PyObject **out_arrays);

/* Read the arguments of an older program's primitive with what stands for their values (`found`, by number) and for sizes
 * (moved(size)): the arguments, the key by which calls are alike, and the arrays among them, new references. Without
 * `out_key`, only the arguments, among which there may be values of another trace. -1 with an exception. */
int hiprt_py_placed(PyObject *arguments, PyObject *found, PyObject *moved, PyTypeObject *size, PyObject **out_arguments,
                    PyObject **out_key, PyObject **out_arrays);

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

/* A call of which all is known but the operands. */
typedef struct {
  PyObject *op, *rule;
  uint64_t hash; /* the same for calls that make the same values */
} hiprt_py_application;

/* Add such a call to a lazy graph, with the number of its first result, and return what it returns. A call with a stamp
 * stands for others. */
PyObject *hiprt_py_again(hiprt_py_trace *trace, const hiprt_py_application *call, PyObject *arguments, PyObject *inputs,
                         uint64_t number, uint64_t stamp);
/* Return a number that is larger than those of all values, and reserve some from it on. */
uint64_t hiprt_py_numbered(uint64_t count);
/* Whether a value, which a primitive makes, is a cache of which a part was written, so that views of it may be prefixes. */
int hiprt_py_is_grown(const hiprt_py_trace *trace, const hiprt_py_array *value);

/* Base of the arrays of a module of lazy arrays. */
typedef struct {
  PyObject_HEAD
  PyObject *value;
} hiprt_py_lazy;

extern hiprt_py_trace *hiprt_py_lazy_trace; /* with which their ops are recorded; NULL: none is declared */
extern PyTypeObject *hiprt_py_lazy_type;    /* the class of what ops return */
/* Return such an array with a value. */
PyObject *hiprt_py_around(PyObject *value);

/* Return a primitive that makes nothing but holds the array that a value shows, which is a leaf of its graph then. */
PyObject *hiprt_py_leaf(const hiprt_py_array *value, PyObject *array);
