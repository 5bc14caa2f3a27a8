/* Tensors of torch's in the arguments of a call: the extension module hiprt.graphs.native.tensors.
 *
 * torch is not linked: a tensor is asked by the methods of its class. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* What a tensor is, but for its address, in the order of the fields of hiprt.torch's Form. */
enum { SHAPE, STRIDES, DTYPE, DEVICE, ALIGNMENT, IS_CONJUGATED, IS_NEGATED, FIELDS };

static PyObject *attributes[FIELDS]; /* the names of the fields that are attributes of a tensor */

typedef struct {
  PyObject_HEAD
  PyObject *tensor, *form, *plain; /* torch's class, the class of forms, and what describes a value that is no container */
  PyObject *data_ptr, *stride, *is_conj, *is_neg; /* methods of torch's class */
  unsigned long long alignment;    /* the bytes up to which addresses are told apart */
} reader;

/* One call of describe(). */
typedef struct {
  const reader *by;
  PyObject *tensors;   /* a list */
  PyObject *addresses; /* a bytearray of uint64_t, which C reads as it is */
} reading;

static int address_of(const reader *r, PyObject *tensor, uint64_t *out_address) {
  PyObject *number = PyObject_CallFunctionObjArgs(r->data_ptr, tensor, 0);
  *out_address = number ? PyLong_AsUnsignedLongLong(number) : 0;
  Py_XDECREF(number);
  return PyErr_Occurred() ? -1 : 0;
}

/* Return word i of a bytearray; NULL with an exception where it is shorter. */
static char *word_of(PyObject *words, Py_ssize_t i) {
  const Py_ssize_t size = sizeof(uint64_t);
  if (PyByteArray_Size(words) / size > i) return PyByteArray_AsString(words) + i * size;
  PyErr_SetString(PyExc_ValueError, "there are fewer addresses than tensors");
  return 0;
}

static int append_word(PyObject *words, uint64_t word) {
  const Py_ssize_t size = PyByteArray_Size(words);
  if (PyByteArray_Resize(words, size + (Py_ssize_t)sizeof word)) return -1;
  memcpy(PyByteArray_AsString(words) + size, &word, sizeof word);
  return 0;
}

static int fields_of(const reader *r, PyObject *tensor, uint64_t address, PyObject **out) {
  PyObject *const methods[FIELDS] = {[STRIDES] = r->stride, [IS_CONJUGATED] = r->is_conj, [IS_NEGATED] = r->is_neg};
  for (int i = 0; i < FIELDS; i++) {
    out[i] = attributes[i] ? PyObject_GetAttr(tensor, attributes[i])
             : methods[i]  ? PyObject_CallFunctionObjArgs(methods[i], tensor, 0)
                           : PyLong_FromUnsignedLongLong(address & (0 - address) & (r->alignment - 1));
    if (!out[i]) return -1;
  }
  return 0;
}

/* Return `like` where its items are these, else what `make` makes of them; NULL with an exception. */
static PyObject *same_or_new(PyObject *like, PyObject *type, PyObject *const *items, Py_ssize_t count) {
  int is_same = like && (PyObject *)Py_TYPE(like) == type && PyTuple_Size(like) == count;
  for (Py_ssize_t i = 0; is_same == 1 && i < count; i++) {
    PyObject *was = PyTuple_GetItem(like, i);
    is_same = was == items[i] ? 1 : PyObject_RichCompareBool(was, items[i], Py_EQ);
  }
  if (is_same) return is_same < 0 ? 0 : Py_NewRef(like);
  PyObject *tuple = PyTuple_New(count);
  for (Py_ssize_t i = 0; tuple && i < count; i++) PyTuple_SetItem(tuple, i, Py_NewRef(items[i]));
  if (!tuple || type == (PyObject *)&PyTuple_Type) return tuple;
  PyObject *made = PyObject_CallObject(type, tuple);
  Py_DECREF(tuple);
  return made;
}

static PyObject *form_of(const reader *r, PyObject *tensor, uint64_t address, PyObject *like) {
  PyObject *fields[FIELDS] = {0};
  PyObject *made = fields_of(r, tensor, address, fields) ? 0 : same_or_new(like, r->form, fields, FIELDS);
  for (int i = 0; i < FIELDS; i++) Py_XDECREF(fields[i]);
  return made;
}

static PyObject *describe_tensor(reading *r, PyObject *value, PyObject *like) {
  uint64_t address;
  if (address_of(r->by, value, &address)) return 0;
  if (append_word(r->addresses, address) || PyList_Append(r->tensors, value)) return 0;
  return form_of(r->by, value, address, like);
}

static PyObject *describe(reading *r, PyObject *value, PyObject *like);

/* Describe the items of a container behind its class; of a dictionary's items, which are pairs, the values. */
static PyObject *describe_items(reading *r, PyObject *type, PyObject *items, PyObject *like) {
  const int is_tuple = PyTuple_Check(items);
  const Py_ssize_t count = is_tuple ? PyTuple_Size(items) : PyList_Size(items);
  const int has_like = like && PyTuple_CheckExact(like) && PyTuple_Size(like) == count + 1;
  PyObject *few[16] = {0}, **parts = count < 16 ? few : PyMem_Calloc((size_t)count + 1, sizeof *parts);
  if (!parts) return PyErr_NoMemory();
  parts[0] = Py_NewRef(type);
  Py_ssize_t made = 1;
  while (made <= count) {
    PyObject *item = is_tuple ? PyTuple_GetItem(items, made - 1) : PyList_GetItem(items, made - 1);
    parts[made] = item ? describe(r, item, has_like ? PyTuple_GetItem(like, made) : 0) : 0;
    if (!parts[made]) break;
    made++;
  }
  PyObject *found = made > count ? same_or_new(like, (PyObject *)&PyTuple_Type, parts, count + 1) : 0;
  for (Py_ssize_t i = 0; i < made; i++) Py_DECREF(parts[i]);
  if (parts != few) PyMem_Free(parts);
  return found;
}

/* Describe a dictionary: its class, then its keys as one plain tuple, then its values. */
static PyObject *describe_dict(reading *r, PyObject *value, PyObject *like) {
  PyObject *keys = PyMapping_Keys(value), *names = keys ? PyList_AsTuple(keys) : 0;
  PyObject *values = names ? PyMapping_Values(value) : 0;
  const int has_like = like && PyTuple_CheckExact(like) && PyTuple_Size(like) == 3;
  PyObject *inside = has_like ? PyTuple_GetItem(like, 2) : 0;
  PyObject *described = values ? describe_items(r, (PyObject *)&PyList_Type, values, inside) : 0;
  PyObject *const parts[] = {(PyObject *)Py_TYPE(value), names, described};
  PyObject *found = described ? same_or_new(like, (PyObject *)&PyTuple_Type, parts, 3) : 0;
  Py_XDECREF(keys);
  Py_XDECREF(names);
  Py_XDECREF(values);
  Py_XDECREF(described);
  return found;
}

static PyObject *describe_value(reading *r, PyObject *value, PyObject *like) {
  const int is_tensor = PyObject_IsInstance(value, r->by->tensor);
  if (is_tensor) return is_tensor < 0 ? 0 : describe_tensor(r, value, like);
  if (PyTuple_Check(value) || PyList_Check(value)) return describe_items(r, (PyObject *)Py_TYPE(value), value, like);
  if (PyDict_Check(value)) return describe_dict(r, value, like);
  PyObject *made = PyObject_CallFunctionObjArgs(r->by->plain, value, 0);
  const int is_same = made && like ? PyObject_RichCompareBool(made, like, Py_EQ) : 0;
  if (is_same > 0) {
    Py_DECREF(made);
    return Py_NewRef(like);
  }
  if (is_same < 0) Py_CLEAR(made);
  return made;
}

static PyObject *describe(reading *r, PyObject *value, PyObject *like) {
  if (Py_EnterRecursiveCall(" in the arguments of a function")) return 0;
  PyObject *found = describe_value(r, value, like);
  Py_LeaveRecursiveCall();
  return found;
}

/* describe(value, like, tensors, addresses): what of a value a graph is made for, `like` itself where it equals that; the
 * tensors in it are appended to a list, and their addresses to a bytearray. */
static PyObject *describe_from_python(PyObject *self, PyObject *args) {
  PyObject *value, *like;
  reading r = {(const reader *)self, 0, 0};
  if (!PyArg_ParseTuple(args, "OOO!O!", &value, &like, &PyList_Type, &r.tensors, &PyByteArray_Type, &r.addresses)) return 0;
  return describe(&r, value, like);
}

/* form(tensor, like): what a tensor is, but for its address. */
static PyObject *form_from_python(PyObject *self, PyObject *args) {
  PyObject *tensor, *like;
  uint64_t address;
  if (!PyArg_ParseTuple(args, "OO", &tensor, &like)) return 0;
  if (address_of((const reader *)self, tensor, &address)) return 0;
  return form_of((const reader *)self, tensor, address, like);
}

/* Take the tensor at a place, which is a pair of a container and a key, into the list, and its address into the words; 1
 * where it is another, or elsewhere. */
static int look_at(const reader *r, PyObject *place, PyObject *tensors, PyObject *addresses, Py_ssize_t i) {
  PyObject *container = PyTuple_GetItem(place, 0), *key = container ? PyTuple_GetItem(place, 1) : 0;
  PyObject *tensor = key ? PyObject_GetItem(container, key) : 0;
  uint64_t address;
  char *was = tensor && !address_of(r, tensor, &address) ? word_of(addresses, i) : 0;
  if (!was) {
    Py_XDECREF(tensor);
    return -1;
  }
  const int is_same = PyList_GetItem(tensors, i) == tensor;
  const int is_other = !is_same || memcmp(was, &address, sizeof address);
  memcpy(was, &address, sizeof address);
  if (is_same)
    Py_DECREF(tensor);
  else if (PyList_SetItem(tensors, i, tensor))
    return -1;
  return is_other;
}

/* look(places, tensors, addresses): the numbers of the places where another tensor is than the list says, or one whose
 * address is another than the bytearray says; they say what is there then. */
static PyObject *look(PyObject *self, PyObject *args) {
  PyObject *places, *tensors, *addresses;
  if (!PyArg_ParseTuple(args, "O!O!O!", &PyList_Type, &places, &PyList_Type, &tensors, &PyByteArray_Type, &addresses))
    return 0;
  PyObject *changed = PyList_New(0);
  for (Py_ssize_t i = 0; changed && i < PyList_Size(places); i++) {
    const int is_other = look_at((const reader *)self, PyList_GetItem(places, i), tensors, addresses, i);
    PyObject *number = is_other > 0 ? PyLong_FromSsize_t(i) : 0;
    if (is_other < 0 || (is_other && (!number || PyList_Append(changed, number)))) Py_CLEAR(changed);
    Py_XDECREF(number);
  }
  return changed;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  (void)keywords;
  PyObject *tensor, *form, *plain;
  unsigned long long alignment;
  if (!PyArg_ParseTuple(args, "OOOK", &tensor, &form, &plain, &alignment)) return 0;
  reader *r = PyObject_New(reader, type);
  if (!r) return 0;
  r->tensor = Py_NewRef(tensor);
  r->form = Py_NewRef(form);
  r->plain = Py_NewRef(plain);
  r->alignment = alignment;
  r->data_ptr = PyObject_GetAttrString(tensor, "data_ptr");
  r->stride = r->data_ptr ? PyObject_GetAttrString(tensor, "stride") : 0;
  r->is_conj = r->stride ? PyObject_GetAttrString(tensor, "is_conj") : 0;
  r->is_neg = r->is_conj ? PyObject_GetAttrString(tensor, "is_neg") : 0;
  if (r->is_neg) return (PyObject *)r;
  Py_DECREF((PyObject *)r);
  return 0;
}

static void destroy(PyObject *self) {
  reader *r = (reader *)self;
  PyObject *const held[] = {r->tensor, r->form, r->plain, r->data_ptr, r->stride, r->is_conj, r->is_neg};
  PyObject *type = (PyObject *)Py_TYPE(self);
  for (size_t i = 0; i < sizeof held / sizeof *held; i++) Py_XDECREF(held[i]);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyMODINIT_FUNC PyInit_tensors(void) {
  static PyMethodDef methods[] = {{"describe", describe_from_python, METH_VARARGS, 0},
                                  {"form", form_from_python, METH_VARARGS, 0},
                                  {"look", look, METH_VARARGS, 0},
                                  {0}};
  static PyType_Slot slots[] = {
      {Py_tp_new, (void *)make}, {Py_tp_dealloc, (void *)destroy}, {Py_tp_methods, methods}, {0, 0}};
  static PyType_Spec spec = {"hiprt.graphs.native.tensors.Reader", sizeof(reader), 0, Py_TPFLAGS_DEFAULT, slots};
  static struct PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "hiprt.graphs.native.tensors", "Tensors of torch's.", -1, 0, 0, 0, 0, 0,
  };
  attributes[SHAPE] = PyUnicode_InternFromString("shape");
  attributes[DTYPE] = PyUnicode_InternFromString("dtype");
  attributes[DEVICE] = PyUnicode_InternFromString("device");
  const int has_names = attributes[SHAPE] && attributes[DTYPE] && attributes[DEVICE];
  PyObject *module = has_names ? PyModule_Create(&definition) : 0;
  PyObject *type = module ? PyType_FromSpec(&spec) : 0;
  if (!type || PyModule_AddObject(module, "Reader", type)) Py_CLEAR(module);
  return module;
}
