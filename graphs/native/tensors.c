/* Tensors of torch's in the arguments of a call: the extension module hiprt.graphs.native.tensors.
 *
 * torch is not linked: a tensor is asked through DLPack's table of C functions, which its class has from torch 2.10 on,
 * and by the methods of its class. Whether one is still where it was is asked through torch's stable C functions. */
#include "objects.h" /* first: Python.h says so */

#include <string.h>

#include "dlpack.h"
#include "tensor_handles.h"

/* What a tensor is, but for its address, in the order of the fields of hiprt.torch's Form. */
enum { SHAPE, STRIDES, DTYPE, DEVICE, ALIGNMENT, IS_CONJUGATED, IS_NEGATED, FIELDS };

static PyObject *attributes[FIELDS]; /* the names of the fields that are attributes of a tensor */

enum { MOST_KNOWN = 32, MOST_AXES = 8 };
enum { FORESEEN = 16 }; /* weights ahead of the one that is looked at, whose tensors are fetched into the caches */

/* What DLPack says of the tensors of a form. */
typedef struct {
  PyObject *form; /* a reference */
  DLDevice device;
  DLDataType dtype;
  int32_t ndim;
  int64_t sizes[2 * MOST_AXES]; /* the shape, then the strides */
  uint64_t alignment;
} known;

/* A tensor that a call had. */
typedef struct {
  PyObject *reference, *form; /* a weak one, and what the tensor is */
} met;

/* Where a weight is looked for, and what was there at the last call; all are references. */
typedef struct {
  PyObject *container, *key, *tensor, *form; /* no tensor and no form before the first call */
} weight;

typedef struct {
  PyObject_HEAD
  PyObject *tensor, *form, *plain; /* torch's class, the class of forms, and what describes a value that is no container */
  PyObject *data_ptr, *stride, *is_conj, *is_neg; /* methods of torch's class */
  unsigned long long alignment;    /* the bytes up to which addresses are told apart */
  int (*exchange)(void *tensor, DLTensor *out); /* NULL where torch has no such table */
  hiprt_tensor_handles handles;
  known *knowns;                   /* MOST_KNOWN forms that came last, in a ring; empty ones have no form */
  uint32_t next;
  met *mets;                       /* what the last calls had, by the number of the tensor in a call */
  Py_ssize_t n_mets;
  weight *weights;
  uint64_t *addresses; /* of the weights */
  Py_ssize_t n_weights;
  PyObject *numbers;   /* a dictionary: forms of all weights to a number */
  PyObject *number;    /* of the forms that they have; NULL where that must be looked up */
  PyObject *signature; /* of the last call; NULL before it */
} reader;

/* One call of read(). */
typedef struct {
  reader *by;
  PyObject *tensors;   /* a list */
  PyObject *addresses; /* a bytearray of uint64_t, which C reads as it is */
} reading;

/* Return torch's function that fills in DLPack's structure for a tensor; NULL where there is none. */
static int (*exchange_of(PyObject *type))(void *, DLTensor *) {
  PyObject *capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
  const DLPackExchangeAPI *api = capsule ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : 0;
  Py_XDECREF(capsule); /* the table is static */
  PyErr_Clear();
  return api && api->version.major == DLPACK_MAJOR ? api->dltensor_from_py_object_no_sync : 0;
}

/* Ask for what DLPack says of a tensor; 0 where it says nothing. */
static int exchange(const reader *r, PyObject *tensor, DLTensor *out) {
  if (!r->exchange) return 0;
  if (!r->exchange(tensor, out)) return 1;
  PyErr_Clear(); /* the methods say what is wrong */
  return 0;
}

static uint64_t address_in(const DLTensor *t) { return (uint64_t)(uintptr_t)t->data + t->byte_offset; }

static uint64_t alignment_of(const reader *r, uint64_t address) { return address & (0 - address) & (r->alignment - 1); }

/* Refuse a tensor without an address that has elements: it is made of others, whose addresses it does not tell. */
static int must_be_empty(PyObject *tensor) {
  PyObject *count = PyObject_CallMethod(tensor, "numel", 0);
  const int has_elements = count ? PyObject_IsTrue(count) : -1;
  Py_XDECREF(count);
  if (has_elements > 0) PyErr_Format(PyExc_RuntimeError, "a %S has no address of its own", (PyObject *)Py_TYPE(tensor));
  return has_elements ? -1 : 0;
}

/* Give the address of a tensor, and what DLPack says of it; 1 where it says something, -1 with an exception. */
static int address_of(const reader *r, PyObject *tensor, DLTensor *t, uint64_t *out_address) {
  const int is_told = exchange(r, tensor, t);
  PyObject *number = is_told ? 0 : PyObject_CallFunctionObjArgs(r->data_ptr, tensor, NULL);
  *out_address = is_told ? address_in(t) : number ? PyLong_AsUnsignedLongLong(number) : 0;
  Py_XDECREF(number);
  if (!is_told && PyErr_Occurred()) return -1;
  return !*out_address && must_be_empty(tensor) ? -1 : is_told;
}

static int append_words(PyObject *words, const uint64_t *added, Py_ssize_t count) {
  const Py_ssize_t size = PyByteArray_Size(words), more = count * (Py_ssize_t)sizeof *added;
  if (PyByteArray_Resize(words, size + more)) return -1;
  memcpy(PyByteArray_AsString(words) + size, added, (size_t)more);
  return 0;
}

static int fields_of(const reader *r, PyObject *tensor, uint64_t address, PyObject **out) {
  PyObject *const methods[FIELDS] = {[STRIDES] = r->stride, [IS_CONJUGATED] = r->is_conj, [IS_NEGATED] = r->is_neg};
  for (int i = 0; i < FIELDS; i++) {
    out[i] = attributes[i] ? PyObject_GetAttr(tensor, attributes[i])
             : methods[i]  ? PyObject_CallFunctionObjArgs(methods[i], tensor, NULL)
                           : PyLong_FromUnsignedLongLong(alignment_of(r, address));
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

/* Whether DLPack says of a tensor what a form needs: a complex one may be conjugated, of which it says nothing. */
static int is_told(const DLTensor *t) { return t->dtype.code != DLPACK_COMPLEX && t->ndim <= MOST_AXES; }

/* Whether a tensor is of a form, as far as DLPack tells. */
static int is_of(const reader *r, const known *k, const DLTensor *t) {
  if (k->ndim != t->ndim || memcmp(&k->dtype, &t->dtype, sizeof k->dtype) ||
      memcmp(&k->device, &t->device, sizeof k->device) || k->alignment != alignment_of(r, address_in(t)))
    return 0;
  for (int32_t i = 0; i < t->ndim; i++)
    if (k->sizes[i] != t->shape[i] || k->sizes[MOST_AXES + i] != t->strides[i]) return 0;
  return 1;
}

/* Whether DLPack says of a tensor what it said of a form. */
static int is_still(const reader *r, const DLTensor *t, const PyObject *form) {
  for (uint32_t i = 0; i < MOST_KNOWN; i++)
    if (r->knowns[i].form == form) return is_of(r, r->knowns + i, t);
  return 0;
}

/* Return the form of a tensor, borrowed, where it is known: `like` rather than another one that equals it. NULL: it is not
 * known, or there is an exception. */
static PyObject *known_form(const reader *r, PyObject *tensor, const DLTensor *t, PyObject *like) {
  PyObject *is_negated = PyObject_CallFunctionObjArgs(r->is_neg, tensor, NULL), *found = 0;
  for (uint32_t i = 0; is_negated && i < MOST_KNOWN && r->knowns[i].form && found != like; i++) {
    const known *k = r->knowns + i;
    if (!is_of(r, k, t) || PyTuple_GetItem(k->form, IS_NEGATED) != is_negated) continue;
    if (!found || k->form == like) found = k->form;
  }
  Py_XDECREF(is_negated);
  return found;
}

/* Keep what DLPack says of a form. */
static void learn(reader *r, const DLTensor *t, PyObject *form) {
  known *k = r->knowns + r->next;
  r->next = (r->next + 1) % MOST_KNOWN;
  Py_XDECREF(k->form);
  *k = (known){Py_NewRef(form), t->device, t->dtype, t->ndim, {0}, alignment_of(r, address_in(t))};
  for (int32_t i = 0; i < t->ndim; i++) {
    k->sizes[i] = t->shape[i];
    k->sizes[MOST_AXES + i] = t->strides[i];
  }
}

static PyObject *form_by_methods(const reader *r, PyObject *tensor, uint64_t address, PyObject *like) {
  PyObject *fields[FIELDS] = {0};
  PyObject *made = fields_of(r, tensor, address, fields) ? 0 : same_or_new(like, r->form, fields, FIELDS);
  for (int i = 0; i < FIELDS; i++) Py_XDECREF(fields[i]);
  return made;
}

/* Return what a tensor is, but for its address; where that is known, the same object each time. `t` is what DLPack says of
 * it; NULL where that is nothing. */
static PyObject *form_of(reader *r, PyObject *tensor, const DLTensor *t, uint64_t address, PyObject *like) {
  const int may_know = t && is_told(t);
  PyObject *known = may_know ? known_form(r, tensor, t, like) : 0;
  if (known || PyErr_Occurred()) return Py_XNewRef(known);
  PyObject *made = form_by_methods(r, tensor, address, like);
  if (made && may_know) learn(r, t, made);
  return made;
}

/* Return what the last calls had as tensor i; NULL with an exception. */
static met *met_at(reader *r, Py_ssize_t i) {
  if (i >= r->n_mets) {
    const Py_ssize_t count = 2 * i + 16;
    met *grown = PyMem_Realloc(r->mets, (size_t)count * sizeof *grown);
    if (!grown) return PyErr_NoMemory(), NULL;
    memset(grown + r->n_mets, 0, (size_t)(count - r->n_mets) * sizeof *grown);
    r->mets = grown;
    r->n_mets = count;
  }
  return r->mets + i;
}

/* Remember the tensor of a call; -1 with an exception. */
static int meet(reader *r, Py_ssize_t i, PyObject *tensor, PyObject *form) {
  PyObject *reference = PyWeakref_NewRef(tensor, 0);
  met *to = reference ? met_at(r, i) : 0;
  if (!to) {
    Py_XDECREF(reference);
    return -1;
  }
  const met before = *to;
  *to = (met){reference, Py_NewRef(form)};
  Py_XDECREF(before.reference);
  Py_XDECREF(before.form);
  return 0;
}

/* Return what the next tensor of a call is. One that the last call had is what it was where DLPack says so. */
static PyObject *form_of_next(reader *r, Py_ssize_t i, PyObject *tensor, PyObject *like, uint64_t *out_address) {
  DLTensor t;
  const int is_read = address_of(r, tensor, &t, out_address);
  const met *last = is_read < 0 ? 0 : met_at(r, i);
  if (!last) return 0;
  if (is_read && last->form && last->form == like && hiprt_py_referred(last->reference) == tensor && is_told(&t) &&
      is_still(r, &t, like))
    return Py_NewRef(like);
  /* A method of the tensor's class may lead to another call, for which the list of tensors grows. */
  PyObject *form = form_of(r, tensor, is_read ? &t : 0, *out_address, like);
  if (form && meet(r, i, tensor, form)) Py_CLEAR(form);
  return form;
}

static PyObject *describe_tensor(reading *r, PyObject *value, PyObject *like) {
  uint64_t address;
  PyObject *form = form_of_next(r->by, PyList_Size(r->tensors), value, like, &address);
  if (form && !append_words(r->addresses, &address, 1) && !PyList_Append(r->tensors, value)) return form;
  Py_XDECREF(form);
  return 0;
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
  const int has_like = like && PyTuple_CheckExact(like) && PyTuple_Size(like) == 3;
  if (has_like && !PyDict_Size(value) && PyTuple_GetItem(like, 0) == (PyObject *)Py_TYPE(value) &&
      !PyObject_Size(PyTuple_GetItem(like, 1)))
    return Py_NewRef(like);
  PyObject *keys = PyMapping_Keys(value), *names = keys ? PyList_AsTuple(keys) : 0;
  PyObject *values = names ? PyMapping_Values(value) : 0;
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
  const int is_plain = PyTuple_CheckExact(value) || PyList_CheckExact(value) || PyDict_CheckExact(value);
  const int is_tensor = is_plain ? 0 : PyObject_IsInstance(value, r->by->tensor);
  if (is_tensor) return is_tensor < 0 ? 0 : describe_tensor(r, value, like);
  if (PyTuple_Check(value) || PyList_Check(value)) return describe_items(r, (PyObject *)Py_TYPE(value), value, like);
  if (PyDict_Check(value)) return describe_dict(r, value, like);
  PyObject *made = PyObject_CallFunctionObjArgs(r->by->plain, value, NULL);
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

/* Look at the tensor at a place; 1 where it is of another form than at the last call, -1 with an exception. Where the tensor
 * and its address are the same, its form is. */
static int look_at(reader *r, Py_ssize_t i, PyObject *tensor) {
  weight *w = r->weights + i;
  const int is_same = w->tensor == tensor;
  if (is_same && hiprt_tensor_is_at(&r->handles, tensor, r->addresses[i])) return 0;
  DLTensor t;
  uint64_t address;
  const int is_read = address_of(r, tensor, &t, &address);
  if (is_read < 0 || (is_same && address == r->addresses[i])) return is_read < 0 ? -1 : 0;
  PyObject *form = form_of(r, tensor, is_read ? &t : 0, address, w->form);
  if (!form) return -1;
  const weight before = *w;
  w->tensor = Py_NewRef(tensor);
  w->form = form;
  r->addresses[i] = address;
  const int is_other = form != before.form;
  Py_XDECREF(before.tensor);
  Py_XDECREF(before.form);
  return is_other;
}

/* Return the number of what the weights are; NULL with an exception. */
static PyObject *number_of(reader *r) {
  PyObject *forms = PyTuple_New(r->n_weights);
  for (Py_ssize_t i = 0; forms && i < r->n_weights; i++) PyTuple_SetItem(forms, i, Py_NewRef(r->weights[i].form));
  PyObject *found = forms ? Py_XNewRef(PyDict_GetItemWithError(r->numbers, forms)) : 0;
  if (forms && !found && !PyErr_Occurred()) {
    found = PyLong_FromSsize_t(PyDict_Size(r->numbers));
    if (found && PyDict_SetItem(r->numbers, forms, found)) Py_CLEAR(found);
  }
  Py_XDECREF(forms);
  return found;
}

/* Look at the tensors at all places, and return the number of what they are; NULL with an exception. */
static PyObject *look(reader *r) {
  PyObject *walked = 0, *key, *value;
  Py_ssize_t at = 0;
  for (Py_ssize_t i = 0; i < r->n_weights; i++) {
    const weight *w = r->weights + i;
    if (i + FORESEEN < r->n_weights) hiprt_tensor_foresee(&r->handles, w[FORESEEN].tensor, w[FORESEEN / 2].tensor);
    if (w->container != walked) at = 0;
    walked = w->container;
    /* A dictionary is walked, which reads it in order; what is not there in the order of the places is looked up. */
    PyObject *tensor = 0;
    while (!tensor && PyDict_CheckExact(walked) && PyDict_Next(walked, &at, &key, &value))
      if (key == w->key) tensor = Py_NewRef(value);
    if (!tensor) tensor = PyObject_GetItem(walked, w->key);
    const int is_other = tensor ? look_at(r, i, tensor) : -1;
    Py_XDECREF(tensor);
    if (is_other) Py_CLEAR(r->number);
    if (is_other < 0) return 0;
  }
  if (!r->number) r->number = number_of(r);
  return Py_XNewRef(r->number);
}

/* read(args, kwargs, autocast, modes, tensors, addresses): the signature of a call, a tuple of what the arguments are, of the
 * next two, and of the weights' number; it is the last call's own where nothing differs. The tensors of the arguments are
 * appended to a list, and to a bytearray their addresses and those of the weights. */
static PyObject *read_call(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  reader *r = (reader *)self;
  if (count != 6 || !PyList_CheckExact(args[4]) || !PyByteArray_CheckExact(args[5])) {
    PyErr_SetString(PyExc_TypeError, "read(args, kwargs, autocast, modes, tensors, addresses)");
    return 0;
  }
  reading call = {r, args[4], args[5]};
  PyObject *before = Py_XNewRef(r->signature), *parts[5] = {0}, *found = 0;
  parts[0] = describe(&call, args[0], before ? PyTuple_GetItem(before, 0) : 0);
  if (parts[0]) parts[1] = describe(&call, args[1], before ? PyTuple_GetItem(before, 1) : 0);
  if (parts[1]) parts[4] = look(r);
  if (parts[4] && !append_words(args[5], r->addresses, r->n_weights)) {
    parts[2] = Py_NewRef(args[2]);
    parts[3] = Py_NewRef(args[3]);
    found = same_or_new(before, (PyObject *)&PyTuple_Type, parts, 5);
  }
  for (int i = 0; i < 5; i++) Py_XDECREF(parts[i]);
  Py_XDECREF(before);
  if (found && found != r->signature) {
    before = r->signature;
    r->signature = Py_NewRef(found);
    Py_XDECREF(before);
  }
  return found;
}

/* weights(): the tensors at all places, as they were at the last call. */
static PyObject *weights(PyObject *self, PyObject *unused) {
  (void)unused;
  const reader *r = (reader *)self;
  PyObject *found = PyList_New(r->n_weights);
  for (Py_ssize_t i = 0; found && i < r->n_weights; i++) {
    PyObject *tensor = r->weights[i].tensor;
    PyList_SetItem(found, i, Py_NewRef(tensor ? tensor : Py_None));
  }
  return found;
}

/* Take the places, which are pairs of a container and a key; -1 with an exception. */
static int take_places(reader *r, PyObject *places) {
  const Py_ssize_t count = PyList_Size(places);
  r->weights = PyMem_Calloc((size_t)count + 1, sizeof *r->weights);
  r->addresses = PyMem_Calloc((size_t)count + 1, sizeof *r->addresses);
  if (!r->weights || !r->addresses) return PyErr_NoMemory(), -1;
  for (; r->n_weights < count; r->n_weights++) {
    PyObject *container, *key;
    if (!PyArg_ParseTuple(PyList_GetItem(places, r->n_weights), "OO", &container, &key)) return -1;
    r->weights[r->n_weights] = (weight){Py_NewRef(container), Py_NewRef(key), 0, 0};
  }
  return 0;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  (void)keywords;
  PyObject *tensor, *form, *plain, *pairs, *places, *numbers;
  unsigned long long alignment;
  hiprt_tensor_handles handles;
  if (!PyArg_ParseTuple(args, "OOOKO!O!O!", &tensor, &form, &plain, &alignment, &PyList_Type, &pairs, &PyList_Type, &places,
                        &PyDict_Type, &numbers))
    return 0;
  reader *r = hiprt_tensor_handles_learn(&handles, pairs) ? 0 : PyObject_New(reader, type);
  if (!r) return 0;
  memset((char *)r + sizeof(PyObject), 0, sizeof *r - sizeof(PyObject));
  r->handles = handles;
  r->tensor = Py_NewRef(tensor);
  r->form = Py_NewRef(form);
  r->plain = Py_NewRef(plain);
  r->alignment = alignment;
  r->exchange = exchange_of(tensor);
  r->numbers = Py_NewRef(numbers);
  r->data_ptr = PyObject_GetAttrString(tensor, "data_ptr");
  r->stride = r->data_ptr ? PyObject_GetAttrString(tensor, "stride") : 0;
  r->is_conj = r->stride ? PyObject_GetAttrString(tensor, "is_conj") : 0;
  r->is_neg = r->is_conj ? PyObject_GetAttrString(tensor, "is_neg") : 0;
  r->knowns = PyMem_Calloc(MOST_KNOWN, sizeof *r->knowns);
  if (!r->knowns) PyErr_NoMemory();
  if (r->is_neg && r->knowns && !take_places(r, places)) return (PyObject *)r;
  Py_DECREF((PyObject *)r);
  return 0;
}

static void destroy(PyObject *self) {
  reader *r = (reader *)self;
  PyObject *const held[] = {r->tensor, r->form,   r->plain,   r->data_ptr, r->stride,
                            r->is_conj, r->is_neg, r->numbers, r->number,   r->signature};
  PyObject *type = (PyObject *)Py_TYPE(self);
  for (size_t i = 0; i < sizeof held / sizeof *held; i++) Py_XDECREF(held[i]);
  for (uint32_t i = 0; r->knowns && i < MOST_KNOWN; i++) Py_XDECREF(r->knowns[i].form);
  for (Py_ssize_t i = 0; i < r->n_mets; i++) {
    Py_XDECREF(r->mets[i].reference);
    Py_XDECREF(r->mets[i].form);
  }
  for (Py_ssize_t i = 0; i < r->n_weights; i++) {
    PyObject *const parts[] = {r->weights[i].container, r->weights[i].key, r->weights[i].tensor, r->weights[i].form};
    for (int part = 0; part < 4; part++) Py_XDECREF(parts[part]);
  }
  PyMem_Free(r->knowns);
  PyMem_Free(r->mets);
  PyMem_Free(r->weights);
  PyMem_Free(r->addresses);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyMODINIT_FUNC PyInit_tensors(void) {
  static PyMethodDef methods[] = {
      {"read", (PyCFunction)(void (*)(void))read_call, METH_FASTCALL, 0}, {"weights", weights, METH_NOARGS, 0}, {0}};
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
