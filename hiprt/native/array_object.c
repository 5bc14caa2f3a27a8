/* Arrays as Python objects: an address in a buffer with a shape, strides and a dtype. */
#include "objects.h"

#define MOST 4096 /* forms remembered */

PyTypeObject *hiprt_py_array_type;

static Py_ssize_t number(PyObject *tuple, Py_ssize_t i) {
  return PyNumber_AsSsize_t(PyTuple_GetItem(tuple, i), PyExc_OverflowError);
}

/* Find the size and the bytes that can be touched, from shape and strides; strides that are NULL are in row order. */
static int measure(hiprt_py_array *self) {
  Py_ssize_t ndim = PyTuple_Size(self->shape), row = 1, low = 0, high = 0;
  if (self->strides && PyTuple_Size(self->strides) != ndim) {
    PyErr_SetString(PyExc_ValueError, "shape and strides differ in length");
    return -1;
  }
  int is_row = 1;
  for (Py_ssize_t i = ndim; i-- > 0;) {
    Py_ssize_t n = number(self->shape, i), step = self->strides ? number(self->strides, i) : row;
    is_row = is_row && (n == 1 || step == row);
    if (step < 0)
      low += (n - 1) * step;
    else
      high += (n - 1) * step;
    if (__builtin_mul_overflow(row, n, &row)) PyErr_SetString(PyExc_OverflowError, "the array is too large");
  }
  self->size = row;
  self->is_contiguous = row <= 1 || is_row;
  self->start = self->end = self->address;
  if (row) {
    self->start += (unsigned long long)(low * self->itemsize);
    self->end += (unsigned long long)((high + 1) * self->itemsize);
  }
  return PyErr_Occurred() ? -1 : 0;
}

/* Let a buffer at a provisional address know its arrays, so that they move with it. */
static int show(hiprt_py_array *self) {
  PyObject *views = ((hiprt_py_buffer *)self->buffer)->views;
  if (!views || views == Py_None) return 0;
  PyObject *known = PyWeakref_NewRef((PyObject *)self, 0);
  int status = known ? PyList_Append(views, known) : -1;
  Py_XDECREF(known);
  return status;
}

static Py_ssize_t itemsize_of(PyObject *dtype) {
  static PyObject *name;
  if (!name) name = PyUnicode_InternFromString("itemsize");
  PyObject *found = name ? PyObject_GetAttr(dtype, name) : 0;
  Py_ssize_t itemsize = found ? PyLong_AsSsize_t(found) : -1;
  Py_XDECREF(found);
  return itemsize;
}

static PyObject *new_array(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"buffer", "shape", "dtype", "address", "strides", 0};
  PyObject *buffer, *shape, *dtype, *strides = Py_None;
  unsigned long long address;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!OK|O", names, hiprt_py_buffer_type, &buffer, &PyTuple_Type,
                                   &shape, &dtype, &address, &strides))
    return 0;
  if (strides != Py_None && !PyTuple_Check(strides))
    return PyErr_Format(PyExc_TypeError, "strides must be a tuple or None, not %R", strides);
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  hiprt_py_array *self = (hiprt_py_array *)allocate(type, 0);
  if (!self) return 0;
  Py_INCREF(buffer);
  Py_INCREF(shape);
  Py_INCREF(dtype);
  self->buffer = buffer;
  self->shape = shape;
  self->dtype = dtype;
  self->address = address;
  if (strides != Py_None) {
    Py_INCREF(strides);
    self->strides = strides;
  }
  self->itemsize = itemsize_of(dtype);
  if (self->itemsize >= 0 && !measure(self) && !show(self)) return (PyObject *)self;
  Py_DECREF(self);
  return 0;
}

PyObject *hiprt_py_array_at(PyTypeObject *type, const hiprt_py_array *like, PyObject *buffer,
                            unsigned long long address) {
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  hiprt_py_array *made = (hiprt_py_array *)allocate(type, 0);
  if (!made) return 0;
  const int is_alike = (address - like->address) % 16 == 0 && ((const hiprt_py_buffer *)buffer)->is_readonly ==
                                                               ((const hiprt_py_buffer *)like->buffer)->is_readonly;
  made->buffer = Py_NewRef(buffer);
  made->shape = Py_NewRef(like->shape);
  made->dtype = Py_NewRef(like->dtype);
  made->strides = Py_XNewRef(like->strides);
  made->form = is_alike ? Py_XNewRef(like->form) : 0;
  made->address = address;
  made->start = like->start + (address - like->address);
  made->end = like->end + (address - like->address);
  made->size = like->size;
  made->itemsize = like->itemsize;
  made->is_contiguous = like->is_contiguous;
  if (!show(made)) return (PyObject *)made;
  Py_DECREF(made);
  return 0;
}

static PyObject *get_strides(PyObject *object, void *closure) {
  hiprt_py_array *self = (hiprt_py_array *)object;
  if (!self->strides) {
    Py_ssize_t ndim = PyTuple_Size(self->shape), row = 1;
    PyObject *strides = PyTuple_New(ndim);
    if (!strides) return 0;
    for (Py_ssize_t i = ndim; i-- > 0; row *= number(self->shape, i))
      PyTuple_SetItem(strides, i, PyLong_FromSsize_t(row));
    self->strides = strides;
  }
  Py_INCREF(self->strides);
  return self->strides;
}

/* Return the form that all equal arrays have. When there are too many all are forgotten, and plans are made again. */
static PyObject *find_form(hiprt_py_array *self) {
  static PyObject *forms;
  if (!forms && !(forms = PyDict_New())) return 0;
  PyObject *strides = self->is_contiguous ? Py_None : self->strides;
  PyObject *is_aligned = self->address % 16 ? Py_False : Py_True;
  PyObject *is_readonly = ((const hiprt_py_buffer *)self->buffer)->is_readonly ? Py_True : Py_False;
  PyObject *key = PyTuple_Pack(5, self->shape, strides, self->dtype, is_aligned, is_readonly);
  PyObject *form = key ? PyDict_GetItemWithError(forms, key) : 0;
  Py_XINCREF(form);
  if (!form && !PyErr_Occurred()) {
    form = PyObject_CallMethod((PyObject *)self, "make_form", "OOOOO", self->shape, strides, self->dtype, is_aligned,
                               is_readonly);
    if (form && PyDict_Size(forms) >= MOST) PyDict_Clear(forms);
    if (form && PyDict_SetItem(forms, key, form)) Py_CLEAR(form);
  }
  Py_XDECREF(key);
  return form;
}

PyObject *hiprt_py_form(hiprt_py_array *self) {
  if (!self->form) self->form = find_form(self);
  Py_XINCREF(self->form);
  return self->form;
}

static PyObject *get_form(PyObject *object, void *closure) { return hiprt_py_form((hiprt_py_array *)object); }

static PyObject *get_extent(PyObject *object, void *closure) {
  const hiprt_py_array *self = (hiprt_py_array *)object;
  return Py_BuildValue("KK", self->start, self->end);
}

static PyObject *get_ndim(PyObject *object, void *closure) {
  return PyLong_FromSsize_t(PyTuple_Size(((hiprt_py_array *)object)->shape));
}

static PyObject *get_nbytes(PyObject *object, void *closure) {
  const hiprt_py_array *self = (hiprt_py_array *)object;
  return PyLong_FromSsize_t(self->size * self->itemsize);
}

static PyObject *rebase(PyObject *object, PyObject *delta) {
  hiprt_py_array *self = (hiprt_py_array *)object;
  unsigned long long by = PyLong_AsUnsignedLongLongMask(delta);
  if (PyErr_Occurred()) return 0;
  self->address += by;
  self->start += by;
  self->end += by;
  Py_CLEAR(self->form);
  Py_RETURN_NONE;
}

static int traverse(PyObject *object, visitproc visit, void *arg) {
  hiprt_py_array *self = (hiprt_py_array *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->buffer);
  Py_VISIT(self->shape);
  Py_VISIT(self->dtype);
  Py_VISIT(self->strides);
  Py_VISIT(self->form);
  Py_VISIT(self->primitive);
  return 0;
}

static int clear(PyObject *object) {
  hiprt_py_array *self = (hiprt_py_array *)object;
  Py_CLEAR(self->buffer);
  Py_CLEAR(self->shape);
  Py_CLEAR(self->dtype);
  Py_CLEAR(self->strides);
  Py_CLEAR(self->form);
  Py_CLEAR(self->primitive);
  return 0;
}

static void dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  clear(object);
  PyMem_Free(((hiprt_py_array *)object)->sizes);
  hiprt_py_free(object);
}

PyTypeObject *hiprt_py_make_array(void) {
  static PyMemberDef members[] = {
      {"buffer", T_OBJECT_EX, offsetof(hiprt_py_array, buffer), READONLY, 0},
      {"shape", T_OBJECT_EX, offsetof(hiprt_py_array, shape), READONLY, 0},
      {"dtype", T_OBJECT_EX, offsetof(hiprt_py_array, dtype), READONLY, 0},
      {"address", T_ULONGLONG, offsetof(hiprt_py_array, address), READONLY, 0},
      {"size", T_PYSSIZET, offsetof(hiprt_py_array, size), READONLY, 0},
      {"is_contiguous", T_BOOL, offsetof(hiprt_py_array, is_contiguous), READONLY, 0},
      {"primitive", T_OBJECT, offsetof(hiprt_py_array, primitive), READONLY, 0},
      {"number", T_ULONGLONG, offsetof(hiprt_py_array, number), READONLY, 0},
      {0},
  };
  static PyGetSetDef getters[] = {
      {"strides", get_strides, 0, 0, 0}, {"form", get_form, 0, 0, 0},     {"extent", get_extent, 0, 0, 0},
      {"ndim", get_ndim, 0, 0, 0},       {"nbytes", get_nbytes, 0, 0, 0}, {0},
  };
  static PyMethodDef methods[] = {{"rebase", rebase, METH_O, 0}, {0}};
  static PyType_Slot slots[] = {
      {Py_tp_new, (void *)new_array}, {Py_tp_dealloc, (void *)dealloc}, {Py_tp_traverse, (void *)traverse},
      {Py_tp_clear, (void *)clear},   {Py_tp_members, members},         {Py_tp_getset, getters},
      {Py_tp_methods, methods},       {0, 0},
  };
  static PyType_Spec spec = {"hiprt.objects.Array", sizeof(hiprt_py_array), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  return hiprt_py_array_type = (PyTypeObject *)PyType_FromSpec(&spec);
}
