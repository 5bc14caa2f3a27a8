#include "calls.h" /* first: Python.h says so */

#include "op_rules.h"
#include "parameters.h"
#include "prefixes.h"
#include "values.h"

/* Let operands whose sizes are recorded numbers note that the call is one for these. -1 with an exception. */
static int pin_sizes(const hiprt_py_tracer *self, const hiprt_py_reading *r) {
  for (Py_ssize_t i = 0; self->varying && i < r->operands; i++) {
    if (Py_TYPE(r->inputs[i]) != self->varying) continue;
    PyObject *none = PyObject_CallMethod(r->inputs[i], "pin", 0);
    if (!none) return -1;
    Py_DECREF(none);
  }
  return 0;
}

/* Add a call with one argument for each of the op's parameters; borrowed references. `known` is its rule where the caller
 * has it, else NULL. */
static PyObject *add_ordered(hiprt_py_tracer *self, hiprt_py_op *op, PyObject *const *ordered, PyObject *known) {
  PyObject *rule = 0, *made = 0;
  hiprt_py_primitive *primitive = 0;
  const Py_ssize_t count = op->count;
  PyObject *arguments = PyTuple_New(count);
  hiprt_py_reading r;
  hiprt_py_begin_reading(&r, &self->reader, 0, 1);
  for (Py_ssize_t i = 0; arguments && i < count; i++) {
    PyObject *read = hiprt_py_read_argument(&r, ordered[i]);
    if (read)
      PyTuple_SetItem(arguments, i, read);
    else
      Py_CLEAR(arguments);
  }
  if (arguments && self->grown && hiprt_py_has_prefix(&r)) {
    made = PyObject_CallMethod((PyObject *)self, "of_prefixes", "OO", op, arguments);
    if (made != Py_None) {
      hiprt_py_end_reading(&r);
      Py_DECREF(arguments);
      return made;
    }
    Py_DECREF(made);
    made = 0;
  }
  if (arguments && !pin_sizes(self, &r)) rule = hiprt_py_rule_of(self, op, arguments, &r, known);
  if (rule) {
    const uint64_t number = hiprt_py_numbered((uint64_t)PyTuple_Size(PyTuple_GetItem(rule, 1)) + 1);
    PyObject *inputs = hiprt_py_tuple_of(r.inputs, r.operands);
    primitive = hiprt_py_made_primitive(self, (PyObject *)op, arguments, inputs, rule, r.hash, number);
  }
  if (primitive) made = hiprt_py_results(self, primitive->inputs, rule, primitive);
  if (made) hiprt_py_note_prefix(self, primitive);
  if (made && self->reader.keeps && PyList_Append(self->primitives, (PyObject *)primitive)) Py_CLEAR(made);
  hiprt_py_end_reading(&r);
  Py_XDECREF(arguments);
  Py_XDECREF(rule);
  Py_XDECREF((PyObject *)primitive);
  return made;
}

PyObject *hiprt_py_again(hiprt_py_trace *trace, const hiprt_py_application *call, PyObject *arguments, PyObject *inputs,
                         uint64_t number, uint64_t stamp) {
  hiprt_py_tracer *self = (hiprt_py_tracer *)trace;
  hiprt_py_primitive *primitive =
      hiprt_py_made_primitive(self, call->op, arguments, Py_XNewRef(inputs), call->rule, call->hash, number);
  if (!primitive) return 0;
  primitive->stamp = stamp;
  PyObject *made = hiprt_py_results(self, inputs, call->rule, primitive);
  if (made) hiprt_py_note_prefix(self, primitive);
  Py_DECREF((PyObject *)primitive);
  return made;
}

PyObject *hiprt_py_add(hiprt_py_trace *base, hiprt_py_op *op, PyObject *args, PyObject *kwargs) {
  PyObject *ordered[HIPRT_PY_PARAMETERS];
  return hiprt_py_ordered(op, args, kwargs, ordered) ? 0 : add_ordered((hiprt_py_tracer *)base, op, ordered, 0);
}

/* Whether an op can be added with a tuple of arguments; 0 with an exception. */
static int fits(const hiprt_py_tracer *self, PyObject *op, PyObject *arguments) {
  if (self->primitives && PyObject_TypeCheck(op, hiprt_py_op_type) && PyTuple_Check(arguments) &&
      ((hiprt_py_op *)op)->names && PyTuple_Size(arguments) == PyTuple_Size(((hiprt_py_op *)op)->names) &&
      PyTuple_Size(arguments) <= HIPRT_PY_PARAMETERS)
    return 1;
  PyErr_Format(PyExc_TypeError, "a prepared trace, an op, and an argument for each of its parameters are needed");
  return 0;
}

PyObject *hiprt_py_add_known(PyObject *object, PyObject *args) {
  PyObject *op, *arguments, *rule, *ordered[HIPRT_PY_PARAMETERS];
  if (!PyArg_ParseTuple(args, "OOO!", &op, &arguments, &PyTuple_Type, &rule)) return 0;
  if (!fits((hiprt_py_tracer *)object, op, arguments)) return 0;
  for (Py_ssize_t i = 0; i < PyTuple_Size(arguments); i++) ordered[i] = PyTuple_GetItem(arguments, i);
  return add_ordered((hiprt_py_tracer *)object, (hiprt_py_op *)op, ordered, rule);
}

/* Return arguments of a primitive with what stands for each of their parts, as a new reference. */
static PyObject *replaced(const hiprt_py_replacement *with, PyObject *arguments) {
  hiprt_py_reading r;
  hiprt_py_begin_reading(&r, 0, with, 0);
  PyObject *made = hiprt_py_read_argument(&r, arguments);
  hiprt_py_end_reading(&r);
  return made;
}

PyObject *hiprt_py_fill_in(PyObject *type, PyObject *args) {
  PyObject *arguments;
  hiprt_py_replacement with = {0};
  if (!PyArg_ParseTuple(args, "O!O!OO!", &PyTuple_Type, &arguments, &PyDict_Type, &with.found, &with.moved, &PyType_Type,
                        &with.size))
    return 0;
  return replaced(&with, arguments);
}

PyObject *hiprt_py_repeat(PyObject *object, PyObject *args) {
  PyObject *older, *arguments, *ordered[HIPRT_PY_PARAMETERS], *made = 0;
  hiprt_py_replacement with = {0};
  if (!PyArg_ParseTuple(args, "O!O!OO!", hiprt_py_primitive_type, &older, &PyDict_Type, &with.found, &with.moved, &PyType_Type,
                        &with.size))
    return 0;
  const hiprt_py_primitive *primitive = (const hiprt_py_primitive *)older;
  if (!fits((hiprt_py_tracer *)object, primitive->op, primitive->arguments)) return 0;
  if (!(arguments = replaced(&with, primitive->arguments))) return 0;
  for (Py_ssize_t i = 0; i < PyTuple_Size(arguments); i++) ordered[i] = PyTuple_GetItem(arguments, i);
  made = add_ordered((hiprt_py_tracer *)object, (hiprt_py_op *)primitive->op, ordered, 0);
  Py_DECREF(arguments);
  if (!made || PyList_CheckExact(made)) return made;
  const int is_tuple = PyTuple_CheckExact(made);
  const Py_ssize_t count = is_tuple ? PyTuple_Size(made) : 1;
  PyObject *list = PyList_New(count); /* CPython 3.11's PySequence_List loses a reference where memory runs out */
  for (Py_ssize_t i = 0; list && i < count; i++)
    PyList_SetItem(list, i, Py_XNewRef(is_tuple ? PyTuple_GetItem(made, i) : made));
  Py_DECREF(made);
  return list;
}
