/* Launchers: a kernel of the core as a Python object; what other types of the per-launch path use of it.
 *
 * Called with the GIL held. */
#pragma once
#include "objects.h" /* first: Python.h says so */

#include "kernel.h"
#include "stream.h"

#define HIPRT_PY_PAYLOAD 4096 /* the most bytes of a payload */

/* Base of hiprt.module.Function. */
typedef struct {
  PyObject_HEAD
  hiprt_kernel *kernel; /* borrowed: the subclass holds it */
  uint32_t shared;      /* bytes of dynamic shared memory of a launch that says none */
  char formats[HIPRT_MAX_ARGS + 1]; /* of each argument, as module struct names it; P: a buffer, s: bytes */
  PyObject *sizes[2];   /* the tuples of grid and block that came last, which never change; NULL: none */
  uint32_t known[2][3]; /* what is in them */
} hiprt_py_launcher;

extern PyTypeObject *hiprt_py_launcher_type;

/* Read three sizes from a tuple; -1, perhaps with an exception, where they are no sizes of at least `least`. */
int hiprt_py_three(PyObject *sizes, uint32_t least, uint32_t *out);
/* Write one argument of a payload; -1 with an exception. `buffer` counts the buffers before the argument. */
int hiprt_py_pack_array(const hiprt_py_launcher *self, uint32_t argument, uint32_t buffer, PyObject *value,
                        char *payload);
int hiprt_py_pack_value(const hiprt_py_launcher *self, uint32_t argument, PyObject *value, char *payload);
/* Launch a payload on a stream, or record it and keep the buffers of its arrays. `values` has one entry an argument, of
 * which those of buffers are read. -1 with an exception. */
int hiprt_py_submit(const hiprt_py_launcher *self, hiprt_py_stream *stream, const char *payload,
                    PyObject *const *values);
/* While this thread has a list here, each launch is appended to it: the launcher, the payload, and a tuple of the arrays
 * (None for other arguments). */
extern _Thread_local PyObject *hiprt_py_noted __attribute__((tls_model("initial-exec")));
/* Whether a watcher is told of each call of a `Launch`: a debugging aid. */
int hiprt_py_is_watched(void);
