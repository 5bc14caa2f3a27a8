/* Buffers of a pool's blocks, made in one call from Python: the extension module hiprt.allocator.native.blocks. */
#include "objects.h" /* first: Python.h says so */

#include "books.h"

static int give(void *books, void *block, hiprt_uses *uses) {
  int status = uses ? hiprt_books_take_back(books, block, uses) : 0;
  if (!status) hiprt_books_give(books, block);
  return status;
}

/* Return a buffer that holds a block; on failure the block is the pool's again. */
static PyObject *hold(PyTypeObject *type, hiprt_books *books, hiprt_block *block, unsigned long long nbytes, int device,
                      PyObject *pool) {
  hiprt_py_buffer *self = hiprt_py_new_buffer(type);
  if (!self) {
    hiprt_books_give(books, block);
    return 0;
  }
  self->address = block->address;
  self->nbytes = nbytes;
  self->device = device;
  self->give = give;
  self->books = books;
  self->block = block;
  const int status = hiprt_books_uses(books, block, &self->uses);
  if (status) {
    Py_DECREF(self); /* it gives the block back */
    hiprt_py_raise(status);
    return 0;
  }
  Py_INCREF(pool);
  self->pool = pool;
  return (PyObject *)self;
}

/* The arguments of both functions: type, books, lane or block, nbytes, device, pool. */
static int parse(PyObject *const *args, Py_ssize_t count, hiprt_books **books, void **second, unsigned long long *nbytes,
                 int *device) {
  if (count != 6 || !PyType_Check(args[0]) || !PyType_IsSubtype((PyTypeObject *)args[0], hiprt_py_buffer_type)) {
    PyErr_Format(PyExc_TypeError, "a type of buffers and 5 more arguments are needed");
    return -1;
  }
  *books = PyLong_AsVoidPtr(args[1]);
  *second = PyLong_AsVoidPtr(args[2]);
  *nbytes = PyLong_AsUnsignedLongLong(args[3]);
  *device = (int)PyLong_AsLong(args[4]);
  return PyErr_Occurred() ? -1 : 0;
}

/* take(type, books, lane, nbytes, device, pool): a buffer in a block of the lane's own; None if none fits. */
static PyObject *take(PyObject *module, PyObject *const *args, Py_ssize_t count) {
  hiprt_books *books;
  void *lane;
  unsigned long long nbytes;
  int device;
  if (parse(args, count, &books, &lane, &nbytes, &device)) return 0;
  hiprt_block *block = hiprt_books_take(books, lane, nbytes);
  if (!block) Py_RETURN_NONE;
  return hold((PyTypeObject *)args[0], books, block, nbytes, device, args[5]);
}

/* of_block(type, books, block, nbytes, device, pool): a buffer in a block that was taken already. */
static PyObject *of_block(PyObject *module, PyObject *const *args, Py_ssize_t count) {
  hiprt_books *books;
  void *block;
  unsigned long long nbytes;
  int device;
  if (parse(args, count, &books, &block, &nbytes, &device)) return 0;
  if (!block) return PyErr_Format(PyExc_ValueError, "of_block: no block");
  return hold((PyTypeObject *)args[0], books, block, nbytes, device, args[5]);
}

PyMODINIT_FUNC PyInit_blocks(void) {
  static PyMethodDef methods[] = {
      {"take", (PyCFunction)(void (*)(void))take, METH_FASTCALL, 0},
      {"of_block", (PyCFunction)(void (*)(void))of_block, METH_FASTCALL, 0},
      {0},
  };
  static struct PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "hiprt.allocator.native.blocks", "Buffers of a pool's blocks.", -1, methods, 0, 0, 0, 0,
  };
  return PyModule_Create(&definition);
}
