#include "values.h" /* first: Python.h says so */

static unsigned long long next_address = 1ull << 62; /* of values: no memory lies there */

/* Spare the collector an object of a lazy graph. Such objects refer to what was there before them alone, so that no circle
 * leads through them, and there are thousands for a token of a model: looking at them all costs more than making them. */
static void untrack(const hiprt_py_tracer *self, PyObject *object) {
  if (!self->reader.keeps && PyObject_GC_IsTracked(object)) PyObject_GC_UnTrack(object);
}

PyObject *hiprt_py_new_value(const hiprt_py_tracer *self, PyObject *pattern, hiprt_py_primitive *maker, uint32_t output,
                           unsigned long long address) {
  PyObject *made = hiprt_py_array_at(self->reader.value, (const hiprt_py_array *)pattern, self->buffer, address);
  if (!made) return 0;
  ((hiprt_py_array *)made)->primitive = Py_XNewRef((PyObject *)maker);
  ((hiprt_py_array *)made)->number = maker->number + output;
  untrack(self, made);
  return made;
}

unsigned long long hiprt_py_address_for(const hiprt_py_array *pattern) {
  const unsigned long long address = next_address;
  next_address += (pattern->end - pattern->start + 511) & ~255ull;
  return address + (pattern->address - pattern->start);
}

PyObject *hiprt_py_results(const hiprt_py_tracer *self, PyObject *inputs, PyObject *rule, hiprt_py_primitive *maker) {
  const Py_ssize_t operands = PyTuple_Size(inputs);
  PyObject *patterns = PyTuple_GetItem(rule, 1);
  const long container = PyLong_AsLong(PyTuple_GetItem(rule, 0));
  const Py_ssize_t count = PyTuple_Size(patterns);
  PyObject *all = container == 2 ? PyList_New(count) : PyTuple_New(count);
  for (Py_ssize_t i = 0; all && i < count; i++) {
    PyObject *result = PyTuple_GetItem(patterns, i), *made = 0;
    PyObject *pattern = result ? PyTuple_GetItem(result, 0) : 0;
    const Py_ssize_t operand = pattern ? PyLong_AsSsize_t(PyTuple_GetItem(result, 1)) : -1;
    const long long bytes = pattern ? PyLong_AsLongLong(PyTuple_GetItem(result, 2)) : 0;
    if (!pattern || operand >= operands || PyErr_Occurred()) {
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "the rule is that of another call");
    } else if (pattern == Py_None) {
      made = operand < 0 ? Py_XNewRef(Py_None) : Py_XNewRef(PyTuple_GetItem(inputs, operand));
    } else {
      const hiprt_py_array *viewed = operand < 0 ? 0 : (hiprt_py_array *)PyTuple_GetItem(inputs, operand);
      const unsigned long long at = viewed ? viewed->address + (unsigned long long)bytes
                                           : hiprt_py_address_for((hiprt_py_array *)pattern);
      made = hiprt_py_new_value(self, pattern, maker, (uint32_t)i, at);
    }
    if (!made) {
      Py_CLEAR(all);
    } else if (container == 2) {
      PyList_SetItem(all, i, made);
    } else {
      PyTuple_SetItem(all, i, made);
    }
  }
  if (all && !self->reader.keeps && (count > 1 || maker->stamp)) {
    /* A cut computes what is alive of them at once. */
    maker->results = PyTuple_New(count);
    for (Py_ssize_t i = 0; maker->results && i < count; i++) {
      PyObject *each = container == 2 ? PyList_GetItem(all, i) : PyTuple_GetItem(all, i);
      PyObject *reference = each == Py_None ? Py_XNewRef(Py_None) : PyWeakref_NewRef(each, 0);
      if (!reference || PyTuple_SetItem(maker->results, i, reference)) Py_CLEAR(maker->results);
    }
    if (!maker->results) Py_CLEAR(all);
  }
  if (!all || container) return all;
  PyObject *only = Py_XNewRef(PyTuple_GetItem(all, 0));
  Py_DECREF(all);
  return only;
}

hiprt_py_primitive *hiprt_py_made_primitive(const hiprt_py_tracer *self, PyObject *op, PyObject *arguments, PyObject *inputs,
                                            PyObject *rule, uint64_t hash, uint64_t number) {
  hiprt_py_primitive *made = hiprt_py_new_primitive(self->reader.trace, op, arguments, inputs, rule, hash, number);
  if (!made) return 0;
  untrack(self, (PyObject *)made);
  untrack(self, arguments);
  untrack(self, inputs);
  return made;
}
