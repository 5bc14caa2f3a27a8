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

#include "order.h"

/* The last argument of these is a null pointer. A plain 0 may be half as wide as what they read, which this makes a compiler
 * say. */
PyAPI_FUNC(PyObject *) PyObject_CallFunctionObjArgs(PyObject *callable, ...) __attribute__((sentinel));
PyAPI_FUNC(PyObject *) PyObject_CallMethodObjArgs(PyObject *self, PyObject *name, ...) __attribute__((sentinel));

/* Base of hiprt.buffer.Buffer. */
typedef struct {
  PyObject_HEAD
  unsigned long long address, nbytes;
  int device;
  PyObject *free, *owner, *pool, *views; /* NULL stands for None */
  int (*give)(void *books, void *block, hiprt_uses *uses); /* called at the end until it gives 0; NULL: `free` is called */
  void *books, *block;  /* with these */
  uint64_t kept_by;     /* the last recording that was told to keep the buffer */
  uint32_t kept_access; /* and what it does with it */
  hiprt_uses *uses;     /* NULL until somebody asks */
  char is_new;          /* it was made when uses were noted, of memory that nobody had used */
  char is_readonly;     /* kernels and copies must not write */
  uint32_t leaves;      /* how many values of lazy graphs hold an array that shows it; HIPRT_PINNED: others may write it */
  hiprt_stream *home;   /* the stream that `free` is ordered behind; NULL: the pool knows, or `free` waits for all */
} hiprt_py_buffer;
#define HIPRT_PINNED 0x100000u

/* Base of hiprt.array.Array. */
typedef struct {
  PyObject_HEAD
  PyObject *buffer, *shape, *dtype;
  PyObject *strides, *form; /* NULL until somebody asks */
  PyObject *primitive;      /* what makes a traced value, which has no memory; NULL for an array in memory */
  unsigned long long address, start, end;
  Py_ssize_t size, itemsize;
  uint64_t number; /* of a traced value: that of its primitive, and which of the results it is */
  char is_contiguous;
  int64_t *sizes; /* shape and strides for DLPack; NULL until somebody asks */
} hiprt_py_array;

/* Base of hiprt.stream.Stream. */
typedef struct {
  PyObject_HEAD
  unsigned long long address; /* of the hiprt_stream */
  PyObject *memory, *keep;    /* while a step records: its memory, and the list of what it must keep alive */
  PyObject *written;          /* of a rehearsal, where launches only append here the arrays that they write; else NULL */
  int default_of;             /* the device, counted from 1, whose default stream it is; 0: of none */
} hiprt_py_stream;

#define HIPRT_RECENT_RULES 4
/* What a trace has learnt of calls with such operands. */
typedef struct {
  PyObject *key, *rule;
  Py_hash_t hash;
} hiprt_py_rule;

/* Base of hiprt.op.Op. */
typedef struct {
  PyObject_HEAD
  PyObject *function;    /* what a call does */
  PyObject *name;
  PyObject *names;       /* a tuple: its parameters, those given by position first, without `stream` */
  PyObject *defaults;    /* a tuple: their values where a call gives none; Ellipsis where one must be given */
  PyObject *rules;       /* a dict: what a trace has learnt of the op's results */
  hiprt_py_rule recent[HIPRT_RECENT_RULES]; /* that were asked for lately, the last in front */
  PyObject **parameters; /* borrowed from both: names, then defaults */
  Py_ssize_t count;      /* of the parameters */
  Py_ssize_t positional; /* how many of them may be given by position */
} hiprt_py_op;

/* Base of what records the ops that a thread calls instead of letting them launch. */
typedef struct hiprt_py_trace {
  PyObject_HEAD
  PyObject *(*add)(struct hiprt_py_trace *self, hiprt_py_op *op, PyObject *args, PyObject *kwargs);
} hiprt_py_trace;

extern _Thread_local hiprt_py_trace *hiprt_py_current_trace; /* borrowed; NULL: ops launch */

extern PyTypeObject *hiprt_py_buffer_type, *hiprt_py_array_type, *hiprt_py_stream_type, *hiprt_py_op_type;
PyTypeObject *hiprt_py_make_buffer(void);
PyTypeObject *hiprt_py_make_array(void);
PyTypeObject *hiprt_py_make_stream(void);
PyTypeObject *hiprt_py_make_launcher(void);
PyTypeObject *hiprt_py_make_planned(void);
PyTypeObject *hiprt_py_make_launch(void);
PyTypeObject *hiprt_py_make_plan(void);
PyTypeObject *hiprt_py_make_op(void);

/* Raise what a status of the core, which is not 0, stands for: hiprt.core.call. */
void hiprt_py_raise(int status);
/* Return a new object of a subclass of hiprt_py_buffer_type, all zeros. */
hiprt_py_buffer *hiprt_py_new_buffer(PyTypeObject *type);
/* Return who works with a buffer's memory, borrowed; NULL with an exception. */
hiprt_uses *hiprt_py_uses(hiprt_py_buffer *buffer);
static inline hiprt_stream *hiprt_py_core(const hiprt_py_stream *stream) {
  return (hiprt_stream *)(uintptr_t)stream->address;
}
/* Return what this thread allocates from on a stream while it records there, borrowed; else NULL. */
PyObject *hiprt_py_memory(const hiprt_py_stream *stream);
/* Keep a buffer alive with what records on a stream, and order the recording's launches with other work on it. It comes
 * before the work is recorded, so that no node has a buffer that is not kept. */
int hiprt_py_keep(const hiprt_py_stream *stream, PyObject *buffer, uint32_t access);
/* Whether a buffer has its memory; 0 with an exception where another thread still records the step that it belongs
 * to. */
int hiprt_py_is_settled(const hiprt_py_buffer *buffer);
/* If this thread records on another stream, launch that part before it goes on eagerly here. -1 with an exception. */
int hiprt_py_step_aside(hiprt_py_stream *stream);
/* Whether this thread launches on a stream, where one that chose neither stream nor device uses this device, counted
 * from 1. */
int hiprt_py_is_current(const hiprt_py_stream *stream, int device);
/* Return a new reference to what `Array.form` gives. */
PyObject *hiprt_py_form(hiprt_py_array *array);
/* Return a new array of this type and of the form of another one, at an address in a buffer. */
PyObject *hiprt_py_array_at(PyTypeObject *type, const hiprt_py_array *like, PyObject *buffer,
                            unsigned long long address);
/* Copy a whole buffer to another one in stream order, outside of recordings; return a status, or -1 with an
 * exception. */
int hiprt_py_copy(hiprt_py_stream *stream, PyObject *to, PyObject *from);
/* lend(owner, address, shape, strides, (type, index), (code, bits), flags, is_versioned): return a capsule of DLPack's. */
PyObject *hiprt_py_lend(PyObject *module, PyObject *args);
/* Return a capsule with the functions that extension modules call: DLPack's C exchange API. */
PyObject *hiprt_py_exchange_api(void);
/* Return what a weak reference refers to, borrowed; None where that is gone. PyWeakref_GetRef, which is not deprecated,
 * exists from Python 3.13 on only. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static inline PyObject *hiprt_py_referred(PyObject *reference) { return PyWeakref_GetObject(reference); }
#pragma GCC diagnostic pop
/* Do what tp_dealloc of a type made from a spec does in the end. */
void hiprt_py_free(PyObject *self);
