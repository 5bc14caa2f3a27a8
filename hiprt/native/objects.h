/* Python types of the per-launch path: what an op makes and reads for each launch costs no Python code.
 *
 * They live in the core's shared library as a module of their own, hiprt.objects: everything else goes through cffi.
 * The GIL is held but for launches that reach HIP. */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "hiprt_core.h"

/* Base of hiprt.buffer.Buffer. */
typedef struct {
  PyObject_HEAD
  unsigned long long address, nbytes;
  int device;
  PyObject *free, *owner, *pool, *views; /* NULL is None */
  hiprt_pool *books; /* given the block back at the end; NULL: `free` is called */
  hiprt_block *block;
  uint64_t kept_by; /* serial of the last recording that was told to keep it */
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
  unsigned long long address; /* the hiprt_stream */
  PyObject *memory, *keep;    /* of the step that is being recorded: its memory, and what it must keep alive */
} hiprt_py_stream;

extern PyTypeObject *hiprt_py_buffer_type, *hiprt_py_array_type, *hiprt_py_stream_type;
PyTypeObject *hiprt_py_make_buffer(void);
PyTypeObject *hiprt_py_make_array(void);
PyTypeObject *hiprt_py_make_stream(void);
PyTypeObject *hiprt_py_make_launcher(void);
PyTypeObject *hiprt_py_make_planned(void);
PyTypeObject *hiprt_py_make_step(void);

/* A new reference to what `Array.form` gives. */
PyObject *hiprt_py_form(hiprt_py_array *array);
/* What tp_dealloc of a type made from a spec does in the end. */
void hiprt_py_free(PyObject *self);
