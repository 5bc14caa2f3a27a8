/* Handles of torch's tensors, by which its stable C functions (AOTInductor's) take them.
 *
 * A handle is the address of a C++ object with one word, which the tensor's Python object has in it too. Where it lies
 * there is learnt from handles that torch makes of tensors.
 *
 * Called with the GIL held. */
#pragma once
#include "objects.h" /* first: Python.h says so */

#include <string.h>

typedef struct {
  int (*data_ptr)(void *handle, void **out); /* NULL: there is no such function, or it is not known where handles lie */
  Py_ssize_t offset;                         /* of a handle in a tensor's Python object */
} hiprt_tensor_handles;

/* Learn where handles lie from pairs of a tensor and a capsule with a handle of it, which ends here. The answer has no
 * function where fewer than two pairs agree. -1 with an exception where these are no such pairs. */
int hiprt_tensor_handles_learn(hiprt_tensor_handles *handles, PyObject *pairs);

/* Whether a tensor of torch's is known to begin at an address. */
static inline int hiprt_tensor_is_at(const hiprt_tensor_handles *handles, PyObject *tensor, uint64_t address) {
  void *found;
  return handles->data_ptr && !handles->data_ptr((char *)tensor + handles->offset, &found) &&
         (uint64_t)(uintptr_t)found == address;
}

/* Fetch into the caches what will be read of a tensor, and of a near one, whose object is there, what that leads to. Either
 * may be NULL. */
static inline void hiprt_tensor_foresee(const hiprt_tensor_handles *handles, PyObject *tensor, PyObject *near) {
  if (!handles->data_ptr) return;
  if (tensor) __builtin_prefetch((char *)tensor + handles->offset);
  if (!near) return;
  const char *object;
  memcpy(&object, (char *)near + handles->offset, sizeof object);
  for (int line = 0; line < 3; line++) __builtin_prefetch(object + 64 * line);
}
