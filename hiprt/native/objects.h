/* Objects: Python types of the per-launch path, so that what an op makes and reads for each launch costs no Python
 * code.
 *
 * They live in the core's shared library as extension modules of their own (see hiprt/objects.py); everything else goes
 * through cffi. The GIL is held, except around calls that reach HIP. */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <structmember.h>

/* Base of hiprt.buffer.Buffer. */
typedef struct {
  PyObject_HEAD
  unsigned long long address, nbytes;
  int device;
  PyObject *free, *owner, *pool, *views; /* NULL stands for None */
  void (*give)(void *books, void *block); /* called once at the end; NULL: `free` is called */
  void *books, *block;                    /* with these */
  uint64_t kept_by;                       /* the last recording that was told to keep the buffer */
} hiprt_py_buffer;

/* Base of hiprt.array.Array. */
typedef struct {
  PyObject_HEAD
  PyObject *buffer, *shape, *dtype;
  PyObject *strides, *form; /* NULL until somebody asks */
  unsigned long long address, start, end;
  Py_ssize_t size, itemsize;
  char is_contiguous;
} hiprt_py_array;

/* Base of hiprt.stream.Stream. */
typedef struct {
  PyObject_HEAD
  unsigned long long address; /* of the hiprt_stream */
  PyObject *memory, *keep;    /* while a step records: its memory, and the list of what it must keep alive */
} hiprt_py_stream;

extern PyTypeObject *hiprt_py_buffer_type, *hiprt_py_array_type, *hiprt_py_stream_type;
PyTypeObject *hiprt_py_make_buffer(void);
PyTypeObject *hiprt_py_make_array(void);
PyTypeObject *hiprt_py_make_stream(void);
PyTypeObject *hiprt_py_make_launcher(void);
PyTypeObject *hiprt_py_make_planned(void);
PyTypeObject *hiprt_py_make_launch(void);
PyTypeObject *hiprt_py_make_plan(void);

/* Return a new object of a subclass of hiprt_py_buffer_type, all zeros. */
hiprt_py_buffer *hiprt_py_new_buffer(PyTypeObject *type);
/* Return a new reference to what `Array.form` gives. */
PyObject *hiprt_py_form(hiprt_py_array *array);
/* Do what tp_dealloc of a type made from a spec does in the end. */
void hiprt_py_free(PyObject *self);
