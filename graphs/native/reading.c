/* Readings of arguments, and the keys that they make. */
#include "reading.h" /* first: Python.h says so */

#include <string.h>

void hiprt_py_begin_reading(hiprt_py_reading *r, const hiprt_py_reader *reader, const hiprt_py_replacement *with,
                            int has_key) {
  r->reader = reader;
  r->with = with;
  r->has_key = has_key;
  r->tells_same = reader || with;
  r->key = r->few;
  r->inputs = r->few + HIPRT_FEW_PARTS;
  r->parts = r->operands = 0;
  r->room = HIPRT_FEW_PARTS;
  r->hash = 0;
}

void hiprt_py_end_reading(hiprt_py_reading *r) {
  for (Py_ssize_t i = 0; i < r->parts; i++) Py_DECREF(r->key[i]);
  if (r->key != r->few) PyMem_Free(r->key);
}

static int grow(hiprt_py_reading *r) {
  const Py_ssize_t room = 4 * r->room;
  PyObject **key = PyMem_Calloc(2 * (size_t)room, sizeof *key);
  if (!key) {
    PyErr_NoMemory();
    return -1;
  }
  memcpy(key, r->key, (size_t)r->parts * sizeof *key);
  memcpy(key + room, r->inputs, (size_t)r->operands * sizeof *key);
  if (r->key != r->few) PyMem_Free(r->key);
  r->key = key;
  r->inputs = key + room;
  r->room = room;
  return 0;
}

/* Append one part to the key, if there is one; `part` is a new reference, or NULL after an error. */
static int append(hiprt_py_reading *r, PyObject *part) {
  if (!part) return -1;
  if (!r->has_key) {
    Py_DECREF(part);
    return 0;
  }
  if (r->parts == r->room && grow(r)) {
    Py_DECREF(part);
    return -1;
  }
  r->key[r->parts++] = part;
  return 0;
}

/* Return the place of an array in memory among those that the trace has used, for hashes: the same in two traces of the
 * same calls. */
static uint64_t place_of(const hiprt_py_reader *reader, PyObject *array) {
  PyObject *id = reader && reader->keeps ? PyLong_FromVoidPtr(array) : 0;
  PyObject *found = id ? PyDict_GetItemWithError(reader->places, id) : 0;
  uint64_t place = found ? PyLong_AsUnsignedLongLong(found) : 0;
  if (id && !found) {
    place = (uint64_t)PyDict_Size(reader->places) + 1;
    PyObject *number = PyLong_FromUnsignedLongLong(place);
    if (number) PyDict_SetItem(reader->places, id, number);
    Py_XDECREF(number);
  }
  Py_XDECREF(id);
  PyErr_Clear(); /* without memory for it, arrays hash alike */
  return place << 1;
}

static int append_operand(hiprt_py_reading *r, PyObject *value) {
  hiprt_py_array *array = (hiprt_py_array *)value;
  const hiprt_py_primitive *maker = (const hiprt_py_primitive *)array->primitive;
  if (maker && (!r->reader || maker->trace != r->reader->trace)) {
    PyErr_SetString(PyExc_ValueError,
                    "a traced value is used after its trace: what a compiled function leaves outside of its results "
                    "must be captured, compile(function, outputs=...)");
    return -1;
  }
  PyObject *form = hiprt_py_form(array);
  if (append(r, form)) return -1;
  /* What an op does with one array given twice, as `out` too, is not what it does with two. */
  for (Py_ssize_t i = 0; r->tells_same && i < r->operands; i++)
    if (r->inputs[i] == value &&
        (append(r, Py_NewRef((PyObject *)hiprt_py_primitive_type)) || append(r, PyLong_FromSsize_t(i))))
      return -1;
  const uint64_t of_memory = maker ? 0 : place_of(r->reader, value) ^ (uint64_t)(uintptr_t)form;
  r->hash = hiprt_py_mixed(r->hash, maker ? maker->hash + (array->number - maker->number) : of_memory);
  r->inputs[r->operands++] = value;
  return 0;
}

/* Return the array that stands for one, borrowed. */
static PyObject *array_for(const hiprt_py_replacement *with, PyObject *value) {
  const hiprt_py_array *array = (const hiprt_py_array *)value;
  if (!with || !array->primitive) return value;
  PyObject *number = PyLong_FromUnsignedLongLong(array->number);
  PyObject *now = number ? PyDict_GetItemWithError(with->found, number) : 0;
  if (number && !now && !PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, number);
  Py_XDECREF(number);
  return now;
}

/* Read what is no container: append it to the key, and return what stands for it. */
static PyObject *read_leaf(hiprt_py_reading *r, PyObject *value) {
  PyTypeObject *type = Py_TYPE(value);
  if (value == Py_None || PyLong_CheckExact(value) || PyUnicode_CheckExact(value))
    return append(r, Py_NewRef(value)) ? 0 : Py_NewRef(value);
  if ((r->reader && type == r->reader->value) || PyObject_TypeCheck(value, hiprt_py_array_type)) {
    PyObject *array = array_for(r->with, value);
    return !array || (r->has_key && append_operand(r, array)) ? 0 : Py_NewRef(array);
  }
  if (r->with && type == r->with->size) {
    PyObject *number = PyObject_CallFunctionObjArgs(r->with->moved, value, NULL);
    if (number && append(r, Py_NewRef(number))) Py_CLEAR(number);
    return number;
  }
  if (r->reader && type == r->reader->integer) { /* it notes that the call is one for this number */
    PyObject *number = PyNumber_Index(value);
    if (number && append(r, Py_NewRef(number))) Py_CLEAR(number);
    return number;
  }
  if (append(r, Py_NewRef((PyObject *)type))) return 0;
  if (PyFloat_CheckExact(value)) { /* by its bits: 0.0 equals -0.0, and NaN not itself */
    const double number = PyFloat_AsDouble(value);
    unsigned long long bits;
    memcpy(&bits, &number, sizeof bits);
    return append(r, PyLong_FromUnsignedLongLong(bits)) ? 0 : Py_NewRef(value);
  }
  if (r->reader && type == r->reader->size) return append(r, PyObject_GetAttrString(value, "value")) ? 0 : Py_NewRef(value);
  return append(r, Py_NewRef(value)) ? 0 : Py_NewRef(value);
}

static PyObject *read_items(hiprt_py_reading *r, PyObject *value) {
  const int is_tuple = PyTuple_Check(value);
  const Py_ssize_t count = is_tuple ? PyTuple_Size(value) : PyList_Size(value);
  PyObject *copy = append(r, PyLong_FromSsize_t(count)) ? 0 : is_tuple ? PyTuple_New(count) : PyList_New(count);
  for (Py_ssize_t i = 0; copy && i < count; i++) {
    PyObject *item = hiprt_py_read_argument(r, is_tuple ? PyTuple_GetItem(value, i) : PyList_GetItem(value, i));
    if (!item)
      Py_CLEAR(copy);
    else if (is_tuple)
      PyTuple_SetItem(copy, i, item);
    else
      PyList_SetItem(copy, i, item);
  }
  return copy;
}

static PyObject *read_plain_dict(hiprt_py_reading *r, PyObject *value) {
  PyObject *copy = append(r, PyLong_FromSsize_t(PyDict_Size(value))) ? 0 : PyDict_New(), *name, *each;
  for (Py_ssize_t at = 0; copy && PyDict_Next(value, &at, &name, &each);) {
    PyObject *item = append(r, Py_NewRef(name)) ? 0 : hiprt_py_read_argument(r, each);
    if (!item || PyDict_SetItem(copy, name, item)) Py_CLEAR(copy);
    Py_XDECREF(item);
  }
  return copy;
}

/* Read a dict in the order that it shows, which is not that of its entries in a class like OrderedDict. */
static PyObject *read_dict(hiprt_py_reading *r, PyObject *value) {
  if (PyDict_CheckExact(value)) return read_plain_dict(r, value);
  PyObject *items = PyMapping_Items(value), *plain = items ? PyDict_New() : 0;
  PyObject *made = plain && !PyDict_MergeFromSeq2(plain, items, 1) ? read_plain_dict(r, plain) : 0;
  Py_XDECREF(items);
  Py_XDECREF(plain);
  return made;
}

static PyObject *read_slice(hiprt_py_reading *r, PyObject *value) {
  static const char *const names[] = {"start", "stop", "step"};
  PyObject *bounds[3] = {0};
  for (int i = 0; i < 3 && (!i || bounds[i - 1]); i++) {
    PyObject *bound = PyObject_GetAttrString(value, names[i]);
    bounds[i] = bound ? hiprt_py_read_argument(r, bound) : 0;
    Py_XDECREF(bound);
  }
  PyObject *copy = bounds[2] ? PySlice_New(bounds[0], bounds[1], bounds[2]) : 0;
  for (int i = 0; i < 3; i++) Py_XDECREF(bounds[i]);
  return copy;
}

PyObject *hiprt_py_read_argument(hiprt_py_reading *r, PyObject *value) {
  const int is_plain = PyTuple_CheckExact(value) || PyList_CheckExact(value) || PyDict_CheckExact(value);
  PyObject *(*read)(hiprt_py_reading *, PyObject *) = PyTuple_Check(value) || PyList_Check(value) ? read_items
                                             : PyDict_Check(value)                      ? read_dict
                                             : PySlice_Check(value)                     ? read_slice
                                                                                        : 0;
  if (!read || (!is_plain && read != read_slice && !r->has_key)) return read_leaf(r, value);
  if (append(r, Py_NewRef((PyObject *)Py_TYPE(value))) || Py_EnterRecursiveCall(" in the arguments of a call")) return 0;
  const Py_ssize_t operands = r->operands;
  PyObject *copy = read(r, value);
  Py_LeaveRecursiveCall();
  if (!copy || is_plain || read == read_slice || r->operands > operands) return copy;
  Py_DECREF(copy);
  return Py_NewRef(value);
}

PyObject *hiprt_py_tuple_of(PyObject *const *items, Py_ssize_t count) {
  PyObject *tuple = PyTuple_New(count);
  for (Py_ssize_t i = 0; tuple && i < count; i++) PyTuple_SetItem(tuple, i, Py_NewRef(items[i]));
  return tuple;
}

int hiprt_py_has_key(const hiprt_py_reading *r, PyObject *key) {
  if (PyTuple_Size(key) != r->parts) return 0;
  for (Py_ssize_t i = 0; i < r->parts; i++) {
    PyObject *part = PyTuple_GetItem(key, i);
    if (part == r->key[i]) continue;
    if (!PyLong_CheckExact(part) || !PyLong_CheckExact(r->key[i]) || PyObject_RichCompareBool(part, r->key[i], Py_EQ) != 1)
      return 0;
  }
  return 1;
}

int hiprt_py_signature(PyObject *tree, PyObject **out_key, PyObject **out_arrays) {
  hiprt_py_reading r;
  hiprt_py_begin_reading(&r, 0, 0, 1);
  PyObject *copy = hiprt_py_read_argument(&r, tree);
  *out_key = copy ? hiprt_py_tuple_of(r.key, r.parts) : 0;
  *out_arrays = *out_key ? hiprt_py_tuple_of(r.inputs, r.operands) : 0;
  if (!*out_arrays) Py_CLEAR(*out_key);
  hiprt_py_end_reading(&r);
  Py_XDECREF(copy);
  return *out_arrays ? 0 : -1;
}

int hiprt_py_placed(PyObject *arguments, PyObject *found, PyObject *moved, PyTypeObject *size, PyObject **out_arguments,
                    PyObject **out_key, PyObject **out_arrays) {
  const hiprt_py_replacement with = {found, moved, size};
  hiprt_py_reading r;
  hiprt_py_begin_reading(&r, 0, &with, out_key != 0);
  *out_arguments = hiprt_py_read_argument(&r, arguments);
  if (!out_key) {
    hiprt_py_end_reading(&r);
    return *out_arguments ? 0 : -1;
  }
  *out_key = *out_arguments ? hiprt_py_tuple_of(r.key, r.parts) : 0;
  *out_arrays = *out_key ? hiprt_py_tuple_of(r.inputs, r.operands) : 0;
  hiprt_py_end_reading(&r);
  if (*out_arrays) return 0;
  Py_CLEAR(*out_arguments);
  Py_CLEAR(*out_key);
  return -1;
}
