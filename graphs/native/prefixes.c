#include "prefixes.h" /* first: Python.h says so */

/* Return the axis, from 1, along which an index names the first elements of an array, and all elements along the others;
 * 0 for another index. */
static int prefix_axis(PyObject *index) {
  int found = 0;
  if (!PyTuple_CheckExact(index)) return 0;
  for (Py_ssize_t axis = 0; axis < PyTuple_Size(index); axis++) {
    Py_ssize_t start, stop, step;
    PyObject *item = PyTuple_GetItem(index, axis);
    if (!PySlice_Check(item) || PySlice_Unpack(item, &start, &stop, &step) || start || step != 1) return PyErr_Clear(), 0;
    if (stop == PY_SSIZE_T_MAX) continue;
    if (found || stop <= 0) return 0;
    found = (int)axis + 1;
  }
  return found;
}

int hiprt_py_is_grown(const hiprt_py_trace *trace, const hiprt_py_array *value) {
  const hiprt_py_tracer *self = (const hiprt_py_tracer *)trace;
  const hiprt_py_primitive *maker = (const hiprt_py_primitive *)value->primitive;
  if (!maker || !self->grown || !maker->stamp) return maker && self->grown && maker->op == self->grown;
  /* What stands for the calls of a recipe: its rule says which of its results these make. */
  return PyTuple_GetItem(PyTuple_GetItem(maker->rule, 3), (Py_ssize_t)(value->number - maker->number)) == Py_True;
}

void hiprt_py_note_prefix(const hiprt_py_tracer *self, hiprt_py_primitive *made) {
  if (!self->grown || made->op != self->view || PyTuple_Size(made->inputs) != 1) return;
  if (hiprt_py_is_grown(&self->base, (hiprt_py_array *)PyTuple_GetItem(made->inputs, 0)))
    made->prefix = prefix_axis(PyTuple_GetItem(made->arguments, 1));
}

int hiprt_py_has_prefix(const hiprt_py_reading *r) {
  for (Py_ssize_t i = 0; i < r->operands; i++) {
    const hiprt_py_primitive *maker = (const hiprt_py_primitive *)((hiprt_py_array *)r->inputs[i])->primitive;
    if (maker && maker->prefix) return 1;
  }
  return 0;
}
