#define _GNU_SOURCE
#include "tensor_handles.h"

#include <dlfcn.h>

/* Return one of torch's stable C functions; NULL where there is none. */
static void *function_of_torch(const char *name) {
  void *library = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
  return library ? dlsym(library, name) : 0;
}

/* Return where an object has the word that a handle of it has; -1 where it has none, or several. */
static Py_ssize_t offset_in(const char *object, Py_ssize_t size, const void *handle) {
  const Py_ssize_t word = sizeof(void *);
  Py_ssize_t found = -1;
  for (Py_ssize_t at = sizeof(PyObject); at + word <= size; at += word) {
    if (memcmp(object + at, handle, (size_t)word)) continue;
    if (found >= 0) return -1;
    found = at;
  }
  return found;
}

/* Return the size of an object without what its subclasses have besides; -1 with an exception. */
static Py_ssize_t size_of(PyObject *object) {
  PyObject *number = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__basicsize__");
  const Py_ssize_t size = number ? PyLong_AsSsize_t(number) : -1;
  Py_XDECREF(number);
  return size;
}

int hiprt_tensor_handles_learn(hiprt_tensor_handles *handles, PyObject *pairs) {
  int (*data_ptr)(void *, void **), (*drop)(void *);
  *(void **)&data_ptr = function_of_torch("aoti_torch_get_data_ptr");
  *(void **)&drop = function_of_torch("aoti_torch_delete_tensor_object");
  const Py_ssize_t count = PyList_Size(pairs);
  *handles = (hiprt_tensor_handles){0, -1};
  int agree = data_ptr && drop && count >= 2;
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *tensor, *capsule;
    if (!PyArg_ParseTuple(PyList_GetItem(pairs, i), "OO", &tensor, &capsule)) return -1;
    void *handle = PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule));
    const Py_ssize_t size = handle ? size_of(tensor) : -1, at = size < 0 ? -1 : offset_in((char *)tensor, size, handle);
    if (size < 0) return -1;
    agree = agree && at >= 0 && (i == 0 || at == handles->offset);
    handles->offset = at;
    if (drop) drop(handle);
  }
  if (agree) handles->data_ptr = data_ptr;
  return 0;
}
