/* Readings: the arguments of a call while they are read, and the key by which calls are alike.
 *
 * A reading lives on the stack of a call, and owns the parts of its key. Called with the GIL held. */
#pragma once
#include "primitive.h" /* first: Python.h says so */

#define HIPRT_FEW_PARTS 64 /* of a call's key: operands, numbers, and the elements of lists; more are allocated */

/* What a trace reads the arguments of its calls with. */
typedef struct {
  uint64_t trace;          /* its number */
  PyObject *places;        /* a dict: the numbers of the arrays in memory that calls use, by id */
  PyTypeObject *value;     /* the class of values */
  PyTypeObject *size;      /* the class of sizes that stand for an axis of a value */
  PyTypeObject *integer;   /* of numbers that are recorded; NULL: there are none */
  int keeps;               /* whether primitives are kept in a list; else they live as long as what uses them */
} hiprt_py_reader;

/* What stands for the values and sizes of an older program: arrays by the number of a value, and a function of sizes. */
typedef struct {
  PyObject *found, *moved;
  PyTypeObject *size;
} hiprt_py_replacement;

/* One call while its arguments are read, and its key made. */
typedef struct {
  const hiprt_py_reader *reader;    /* NULL: of no trace */
  const hiprt_py_replacement *with; /* NULL: values stand for themselves */
  int has_key;
  int tells_same; /* whether the key says which operands are one array */
  PyObject **key;    /* new references */
  PyObject **inputs; /* borrowed; behind the key */
  Py_ssize_t parts, operands, room;
  uint64_t hash;
  PyObject *few[2 * HIPRT_FEW_PARTS];
} hiprt_py_reading;

/* Begin to read with a trace's `reader` or none, and `with` what stands for values, or NULL. */
void hiprt_py_begin_reading(hiprt_py_reading *r, const hiprt_py_reader *reader, const hiprt_py_replacement *with,
                            int has_key);
void hiprt_py_end_reading(hiprt_py_reading *r);
/* Read one argument: append it to the key, and return it with what stands for its parts and its containers copied. A
 * container of a class of its own becomes a plain one if it has arrays in it, and stays itself without. */
PyObject *hiprt_py_read_argument(hiprt_py_reading *r, PyObject *value);
/* Whether a call has this key; numbers of one value may be other objects. */
int hiprt_py_has_key(const hiprt_py_reading *r, PyObject *key);
/* Return objects, of a reading's key or its operands, as a tuple. */
PyObject *hiprt_py_tuple_of(PyObject *const *items, Py_ssize_t count);

/* Read a tree of arrays and constants: all of it but the contents of its arrays, as a tuple, and the arrays, as one.
 * -1 with an exception. */
int hiprt_py_signature(PyObject *tree, PyObject **out_key, PyObject **out_arrays);

/* Read the arguments of an older program's primitive with what stands for their values (`found`, by number) and for sizes
 * (moved(size)): the arguments, the key by which calls are alike, and the arrays among them, new references. Without
 * `out_key`, only the arguments, among which there may be values of another trace. -1 with an exception. */
int hiprt_py_placed(PyObject *arguments, PyObject *found, PyObject *moved, PyTypeObject *size, PyObject **out_arguments,
                    PyObject **out_key, PyObject **out_arrays);
