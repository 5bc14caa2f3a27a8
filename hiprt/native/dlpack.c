/* DLPack for arrays: capsules that another library takes, and the table of functions that extension modules call.
 *
 * What is decided once for each exchange (devices, dtypes, streams) is decided in hiprt/interop.py. */
#include "objects.h" /* first: Python.h says so */

#include <stdlib.h>
#include <string.h>

#include "dlpack.h"

#define LEGACY "dltensor"
#define VERSIONED "dltensor_versioned"

/* A tensor that another library holds, in the form it asked for, with what keeps its memory. */
typedef struct {
  union {
    DLManagedTensor legacy;
    DLManagedTensorVersioned versioned;
  } as;
  PyObject *owner;
  int64_t sizes[]; /* the shape, then the strides */
} lent;

/* The consumer is done, in whatever thread, with or without the GIL, and maybe while an error is on its way. */
static void let_go(lent *self) {
  if (!self) return;
  if (Py_IsInitialized()) {
    const PyGILState_STATE state = PyGILState_Ensure();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    Py_CLEAR(self->owner);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(state);
  }
  free(self);
}

static void delete_legacy(DLManagedTensor *tensor) { let_go(tensor ? tensor->manager_ctx : 0); }

static void delete_versioned(DLManagedTensorVersioned *tensor) { let_go(tensor ? tensor->manager_ctx : 0); }

/* Nobody has taken the tensor out of its capsule. */
static void end_of_capsule(PyObject *capsule) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (PyCapsule_IsValid(capsule, VERSIONED))
    delete_versioned(PyCapsule_GetPointer(capsule, VERSIONED));
  else if (PyCapsule_IsValid(capsule, LEGACY))
    delete_legacy(PyCapsule_GetPointer(capsule, LEGACY));
  PyErr_Restore(type, value, trace);
}

/* Copy a tuple of numbers. */
static int copy_sizes(PyObject *tuple, int64_t *out) {
  const Py_ssize_t count = PyTuple_Size(tuple);
  for (Py_ssize_t i = 0; i < count; i++) out[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
  return PyErr_Occurred() ? -1 : 0;
}

static lent *lend(PyObject *owner, unsigned long long address, PyObject *shape, PyObject *strides, DLDevice device,
                  DLDataType dtype, unsigned long long flags, int is_versioned) {
  const Py_ssize_t ndim = PyTuple_Size(shape);
  if (ndim < 0 || PyTuple_Size(strides) != ndim) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "shape and strides differ in length");
    return 0;
  }
  lent *self = calloc(1, sizeof(lent) + 2 * (size_t)ndim * sizeof(int64_t));
  if (!self) {
    PyErr_NoMemory();
    return 0;
  }
  if (copy_sizes(shape, self->sizes) || copy_sizes(strides, self->sizes + ndim)) {
    free(self);
    return 0;
  }
  const DLTensor tensor = {(void *)(uintptr_t)address, device, (int32_t)ndim, dtype, self->sizes, self->sizes + ndim, 0};
  if (is_versioned)
    self->as.versioned = (DLManagedTensorVersioned){{DLPACK_MAJOR, DLPACK_MINOR}, self, delete_versioned, flags, tensor};
  else
    self->as.legacy = (DLManagedTensor){tensor, self, delete_legacy};
  self->owner = Py_NewRef(owner);
  return self;
}

PyObject *hiprt_py_lend(PyObject *module, PyObject *args) {
  PyObject *owner, *shape, *strides;
  unsigned long long address, flags;
  int type, index, code, bits, is_versioned;
  if (!PyArg_ParseTuple(args, "OKO!O!(ii)(ii)Kp", &owner, &address, &PyTuple_Type, &shape, &PyTuple_Type, &strides,
                        &type, &index, &code, &bits, &flags, &is_versioned))
    return 0;
  const DLDataType dtype = {(uint8_t)code, (uint8_t)bits, 1};
  lent *self = lend(owner, address, shape, strides, (DLDevice){type, index}, dtype, flags, is_versioned);
  if (!self) return 0;
  PyObject *capsule = PyCapsule_New(&self->as, is_versioned ? VERSIONED : LEGACY, end_of_capsule);
  if (!capsule) let_go(self);
  return capsule;
}

/* Call a function of hiprt.interop. */
static PyObject *ask(const char *name, const char *format, ...) {
  PyObject *module = PyImport_ImportModule("hiprt.interop");
  PyObject *function = module ? PyObject_GetAttrString(module, name) : 0;
  va_list values;
  va_start(values, format);
  PyObject *args = function ? Py_VaBuildValue(format, values) : 0;
  va_end(values);
  PyObject *answer = args ? PyObject_CallObject(function, args) : 0;
  Py_XDECREF(args);
  Py_XDECREF(function);
  Py_XDECREF(module);
  return answer;
}

/* Get an array ready for another library, and find how DLPack calls its device and dtype. */
static int make_ready(void *object, DLDevice *device, DLDataType *dtype) {
  if (!PyObject_TypeCheck((PyObject *)object, hiprt_py_array_type)) {
    PyErr_Format(PyExc_TypeError, "%R is not a hiprt.Array", object);
    return -1;
  }
  int code, bits;
  PyObject *answer = ask("make_ready", "(O)", object);
  const int is_right =
      answer && PyArg_ParseTuple(answer, "(ii)(ii)", &device->device_type, &device->device_id, &code, &bits);
  Py_XDECREF(answer);
  if (!is_right) return -1;
  *dtype = (DLDataType){(uint8_t)code, (uint8_t)bits, 1};
  return 0;
}

static uint64_t flags_of(const hiprt_py_array *array) {
  return ((const hiprt_py_buffer *)array->buffer)->is_readonly ? DLPACK_READ_ONLY : 0;
}

static int from_object(void *object, DLManagedTensorVersioned **out) {
  const PyGILState_STATE state = PyGILState_Ensure();
  DLDevice device;
  DLDataType dtype;
  lent *self = 0;
  if (!make_ready(object, &device, &dtype)) {
    hiprt_py_array *array = object;
    PyObject *strides = PyObject_GetAttrString(object, "strides");
    if (strides) self = lend(object, array->address, array->shape, strides, device, dtype, flags_of(array), 1);
    Py_XDECREF(strides);
  }
  *out = self ? &self->as.versioned : 0;
  PyGILState_Release(state);
  return self ? 0 : -1;
}

/* Describe an array for the time of a call. The shape and the strides are kept with the array. */
static int describe(void *object, DLTensor *out) {
  const PyGILState_STATE state = PyGILState_Ensure();
  DLDevice device;
  DLDataType dtype;
  int status = make_ready(object, &device, &dtype);
  if (!status) {
    hiprt_py_array *array = object;
    const Py_ssize_t ndim = PyTuple_Size(array->shape);
    if (!array->sizes) {
      PyObject *strides = PyObject_GetAttrString(object, "strides");
      int64_t *sizes = strides ? PyMem_Calloc(2 * (size_t)ndim + 1, sizeof(int64_t)) : 0;
      if (strides && !sizes) PyErr_NoMemory();
      status = !sizes || copy_sizes(array->shape, sizes) || copy_sizes(strides, sizes + ndim) ? -1 : 0;
      Py_XDECREF(strides);
      if (status)
        PyMem_Free(sizes);
      else
        array->sizes = sizes;
    }
    if (!status)
      *out = (DLTensor){(void *)(uintptr_t)array->address, device,      (int32_t)ndim, dtype,
                        array->sizes,                      array->sizes + ndim, 0};
  }
  PyGILState_Release(state);
  return status;
}

static int to_object(DLManagedTensorVersioned *tensor, void **out) {
  const PyGILState_STATE state = PyGILState_Ensure();
  *out = ask("take_tensor", "(K)", (unsigned long long)(uintptr_t)tensor);
  PyGILState_Release(state);
  return *out ? 0 : -1;
}

static int allocate(DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx,
                    void (*set_error)(void *error_ctx, const char *kind, const char *message)) {
  const PyGILState_STATE state = PyGILState_Ensure();
  PyObject *shape = PyTuple_New(prototype->ndim), *made = 0;
  for (int32_t i = 0; shape && i < prototype->ndim; i++)
    PyTuple_SetItem(shape, i, PyLong_FromLongLong(prototype->shape[i]));
  if (shape)
    made = ask("allocate_tensor", "(O(ii)(iii))", shape, prototype->device.device_type, prototype->device.device_id,
               prototype->dtype.code, prototype->dtype.bits, prototype->dtype.lanes);
  Py_XDECREF(shape);
  int status = made ? from_object(made, out) : -1;
  Py_XDECREF(made);
  if (status && set_error) {
    /* This function reports in a way that needs no Python. */
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *name = type ? PyObject_GetAttrString(type, "__name__") : 0, *text = value ? PyObject_Str(value) : 0;
    const char *kind = name ? PyUnicode_AsUTF8AndSize(name, 0) : 0, *message = text ? PyUnicode_AsUTF8AndSize(text, 0) : 0;
    set_error(error_ctx, kind ? kind : "RuntimeError", message ? message : "the array was not allocated");
    PyErr_Clear();
    Py_XDECREF(name);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
  }
  PyGILState_Release(state);
  return status;
}

static int work_stream(int32_t type, int32_t index, void **out) {
  const PyGILState_STATE state = PyGILState_Ensure();
  PyObject *handle = ask("work_stream", "((ii))", type, index);
  *out = handle ? PyLong_AsVoidPtr(handle) : 0;
  Py_XDECREF(handle);
  const int status = PyErr_Occurred() ? -1 : 0;
  PyGILState_Release(state);
  return status;
}

PyObject *hiprt_py_exchange_api(void) {
  static DLPackExchangeAPI api = {
      {DLPACK_MAJOR, DLPACK_MINOR}, 0, allocate, from_object, to_object, describe, work_stream,
  };
  return PyCapsule_New(&api, "dlpack_exchange_api", 0);
}
