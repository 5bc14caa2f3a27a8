/* Traces: while a thread has one, the ops that it calls become primitives, and their results values without memory.
 *
 * This is the extension module hiprt.graphs.native.trace. */
#include "reading.h" /* first: Python.h says so */
#include "trace.h"

#include <string.h>

#define MOST_PARAMETERS 64

/* Base of hiprt.graphs.trace.trace.Trace. */
typedef struct {
  hiprt_py_trace base;
  hiprt_py_reader reader;
  PyObject *primitives;    /* a list, in the order of the calls; empty where only values keep them */
  PyObject *buffer;        /* that all values show */
  PyObject *view, *grown;  /* the ops that make views of parts, and that write a part of a cache; NULL: prefixes are not seen */
  PyTypeObject *varying;   /* of values whose sizes are numbers that are recorded; NULL: there are none */
} trace_object;

static uint64_t traces; /* so far */
static unsigned long long next_address = 1ull << 62; /* of values: no memory lies there */

/* Return which parameter has a name, or `count`; it is looked for from one of them on first. */
static Py_ssize_t find_name(PyObject *const *names, Py_ssize_t count, Py_ssize_t from, PyObject *name) {
  for (Py_ssize_t i = from; i < count; i++)
    if (names[i] == name) return i;
  for (Py_ssize_t i = 0; i < count; i++) /* names of code are interned, others may not be */
    if (names[i] == name || !PyUnicode_Compare(names[i], name)) return i;
  return count;
}

/* Put a call's arguments in the order of the op's parameters; borrowed references. */
static int order(const hiprt_py_op *op, PyObject *args, PyObject *kwargs, PyObject **ordered) {
  const Py_ssize_t count = op->count, given = PyTuple_Size(args);
  PyObject *const *names = op->parameters, *const *defaults = names + count;
  if (given > op->positional || count > MOST_PARAMETERS) {
    PyErr_Format(PyExc_TypeError, "%U takes %zd arguments by position, %zd are given", op->name, op->positional, given);
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; i++) ordered[i] = i < given ? PyTuple_GetItem(args, i) : 0;
  PyObject *name, *value;
  Py_ssize_t next = given; /* most names come in the order of the parameters */
  for (Py_ssize_t at = 0; kwargs && PyDict_Next(kwargs, &at, &name, &value);) {
    const Py_ssize_t i = find_name(names, count, next, name);
    next = i + 1;
    if (i < count && !ordered[i]) {
      ordered[i] = value;
    } else if (i < count) {
      PyErr_Format(PyExc_TypeError, "%U: %U is given twice", op->name, name);
      return -1;
    } else if (PyUnicode_CompareWithASCIIString(name, "stream")) {
      PyErr_Format(PyExc_TypeError, "%U has no parameter %R", op->name, name);
      return -1;
    } else if (value != Py_None) {
      PyErr_Format(PyExc_ValueError, "%U: a traced op has no stream of its own: the program runs on one stream, that "
                   "on which the compiled function is called", op->name);
      return -1;
    }
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    if (!ordered[i]) ordered[i] = defaults[i];
    if (ordered[i] == Py_Ellipsis && defaults[i] == Py_Ellipsis) {
      PyErr_Format(PyExc_TypeError, "%U: %U is not given", op->name, names[i]);
      return -1;
    }
  }
  return 0;
}

/* Spare the collector an object of a lazy graph. Such objects refer to what was there before them alone, so that no circle
 * leads through them, and there are thousands for a token of a model: looking at them all costs more than making them. */
static void untrack(const trace_object *self, PyObject *object) {
  if (!self->reader.keeps && PyObject_GC_IsTracked(object)) PyObject_GC_UnTrack(object);
}

/* Return a value like `pattern`, a plain array, at an address. */
static PyObject *new_value(const trace_object *self, PyObject *pattern, hiprt_py_primitive *maker, uint32_t output,
                           unsigned long long address) {
  PyObject *made = hiprt_py_array_at(self->reader.value, (const hiprt_py_array *)pattern, self->buffer, address);
  if (!made) return 0;
  ((hiprt_py_array *)made)->primitive = Py_XNewRef((PyObject *)maker);
  ((hiprt_py_array *)made)->number = maker->number + output;
  untrack(self, made);
  return made;
}

static unsigned long long address_for(const hiprt_py_array *pattern) {
  const unsigned long long address = next_address;
  next_address += (pattern->end - pattern->start + 511) & ~255ull;
  return address + (pattern->address - pattern->start);
}

/* Make the results that a rule tells of: a container, results (pattern or None, operand or -1, bytes), writes. */
static PyObject *results(const trace_object *self, PyObject *inputs, PyObject *rule, hiprt_py_primitive *maker) {
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
      const unsigned long long at = operand < 0
                                        ? address_for((hiprt_py_array *)pattern)
                                        : ((hiprt_py_array *)PyTuple_GetItem(inputs, operand))->address + (unsigned long long)bytes;
      made = new_value(self, pattern, maker, (uint32_t)i, at);
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

/* Return a primitive of this trace, which the collector is spared as its arguments and inputs are. */
static hiprt_py_primitive *new_primitive(const trace_object *self, PyObject *op, PyObject *arguments, PyObject *inputs,
                                         PyObject *rule, uint64_t hash, uint64_t number) {
  hiprt_py_primitive *made = hiprt_py_new_primitive(self->reader.trace, op, arguments, inputs, rule, hash, number);
  if (!made) return 0;
  untrack(self, (PyObject *)made);
  untrack(self, arguments);
  untrack(self, inputs);
  return made;
}

/* Put a rule in front of the recent ones, in the place of one of them. */
static const hiprt_py_rule *move_to_front(hiprt_py_op *op, int from, hiprt_py_rule rule) {
  memmove(op->recent + 1, op->recent, (size_t)from * sizeof rule);
  op->recent[0] = rule;
  return op->recent;
}

static const hiprt_py_rule *recent_rule(hiprt_py_op *op, const hiprt_py_reading *r) {
  for (int i = 0; i < HIPRT_RECENT_RULES && op->recent[i].key; i++)
    if (hiprt_py_has_key(r, op->recent[i].key)) return i ? move_to_front(op, i, op->recent[i]) : op->recent;
  return 0;
}

static void remember_rule(hiprt_py_op *op, hiprt_py_rule rule) {
  const hiprt_py_rule last = op->recent[HIPRT_RECENT_RULES - 1];
  Py_XNewRef(rule.key);
  Py_XNewRef(rule.rule);
  move_to_front(op, HIPRT_RECENT_RULES - 1, rule);
  Py_XDECREF(last.key);
  Py_XDECREF(last.rule);
}

/* Return the rule of a call whose key is not among the recent ones: what is remembered, else `known`, else what the
 * subclass infers. */
static PyObject *find_rule(trace_object *self, hiprt_py_op *op, PyObject *arguments, PyObject *key, Py_hash_t hash,
                           PyObject *known) {
  PyObject *rule = hash == -1 ? 0 : PyDict_GetItemWithError(op->rules, key);
  const int has_hash = !PyErr_Occurred();
  Py_XINCREF(rule);
  if (!rule) {
    PyErr_Clear(); /* an argument without a hash is inferred at each call */
    rule = known ? Py_XNewRef(known) : PyObject_CallMethod((PyObject *)self, "infer", "OO", op, arguments);
    if (rule && has_hash && PyDict_Size(op->rules) >= 4096) PyDict_Clear(op->rules);
    if (rule && has_hash && PyDict_SetItem(op->rules, key, rule)) Py_CLEAR(rule);
  }
  if (rule && has_hash) remember_rule(op, (hiprt_py_rule){key, rule, hash});
  return rule;
}

/* Return the rule of a call, and note its key in the hash. */
static PyObject *rule_of(trace_object *self, hiprt_py_op *op, PyObject *arguments, hiprt_py_reading *r, PyObject *known) {
  const hiprt_py_rule *recent = recent_rule(op, r);
  PyObject *key = recent ? 0 : hiprt_py_tuple_of(r->key, r->parts);
  if (!recent && !key) return 0;
  const Py_hash_t hash = recent ? recent->hash : PyObject_Hash(key);
  PyObject *rule = recent ? Py_XNewRef(recent->rule) : find_rule(self, op, arguments, key, hash, known);
  r->hash = hiprt_py_mixed(hiprt_py_mixed(r->hash, (uint64_t)hash), (uint64_t)(uintptr_t)op);
  Py_XDECREF(key);
  return rule;
}

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
  const trace_object *self = (const trace_object *)trace;
  const hiprt_py_primitive *maker = (const hiprt_py_primitive *)value->primitive;
  if (!maker || !self->grown || !maker->stamp) return maker && self->grown && maker->op == self->grown;
  /* What stands for the calls of a recipe: its rule says which of its results these make. */
  return PyTuple_GetItem(PyTuple_GetItem(maker->rule, 3), (Py_ssize_t)(value->number - maker->number)) == Py_True;
}

/* Note that a primitive is a view of the first elements of what a cache holds; see graphs/trace/prefixes.py. */
static void note_prefix(const trace_object *self, hiprt_py_primitive *made) {
  if (!self->grown || made->op != self->view || PyTuple_Size(made->inputs) != 1) return;
  if (hiprt_py_is_grown(&self->base, (hiprt_py_array *)PyTuple_GetItem(made->inputs, 0))) made->prefix = prefix_axis(PyTuple_GetItem(made->arguments, 1));
}

/* Let operands whose sizes are recorded numbers note that the call is one for these. -1 with an exception. */
static int pin_sizes(const trace_object *self, const hiprt_py_reading *r) {
  for (Py_ssize_t i = 0; self->varying && i < r->operands; i++) {
    if (Py_TYPE(r->inputs[i]) != self->varying) continue;
    PyObject *none = PyObject_CallMethod(r->inputs[i], "pin", 0);
    if (!none) return -1;
    Py_DECREF(none);
  }
  return 0;
}

static int has_prefix(const hiprt_py_reading *r) {
  for (Py_ssize_t i = 0; i < r->operands; i++) {
    const hiprt_py_primitive *maker = (const hiprt_py_primitive *)((hiprt_py_array *)r->inputs[i])->primitive;
    if (maker && maker->prefix) return 1;
  }
  return 0;
}

/* Add a call with one argument for each of the op's parameters; borrowed references. `known` is its rule where the caller
 * has it, else NULL. */
static PyObject *add_ordered(trace_object *self, hiprt_py_op *op, PyObject *const *ordered, PyObject *known) {
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
  if (arguments && self->grown && has_prefix(&r)) {
    made = PyObject_CallMethod((PyObject *)self, "of_prefixes", "OO", op, arguments);
    if (made != Py_None) {
      hiprt_py_end_reading(&r);
      Py_DECREF(arguments);
      return made;
    }
    Py_DECREF(made);
    made = 0;
  }
  if (arguments && !pin_sizes(self, &r)) rule = rule_of(self, op, arguments, &r, known);
  if (rule) {
    const uint64_t number = hiprt_py_numbered((uint64_t)PyTuple_Size(PyTuple_GetItem(rule, 1)) + 1);
    primitive = new_primitive(self, (PyObject *)op, arguments, hiprt_py_tuple_of(r.inputs, r.operands), rule, r.hash, number);
  }
  if (primitive) made = results(self, primitive->inputs, rule, primitive);
  if (made) note_prefix(self, primitive);
  if (made && self->reader.keeps && PyList_Append(self->primitives, (PyObject *)primitive)) Py_CLEAR(made);
  hiprt_py_end_reading(&r);
  Py_XDECREF(arguments);
  Py_XDECREF(rule);
  Py_XDECREF((PyObject *)primitive);
  return made;
}

PyObject *hiprt_py_again(hiprt_py_trace *trace, const hiprt_py_application *call, PyObject *arguments, PyObject *inputs,
                         uint64_t number, uint64_t stamp) {
  trace_object *self = (trace_object *)trace;
  hiprt_py_primitive *primitive = new_primitive(self, call->op, arguments, Py_XNewRef(inputs), call->rule, call->hash, number);
  if (!primitive) return 0;
  primitive->stamp = stamp;
  PyObject *made = results(self, inputs, call->rule, primitive);
  if (made) note_prefix(self, primitive);
  Py_DECREF((PyObject *)primitive);
  return made;
}

static PyObject *add(hiprt_py_trace *base, hiprt_py_op *op, PyObject *args, PyObject *kwargs) {
  PyObject *ordered[MOST_PARAMETERS];
  return order(op, args, kwargs, ordered) ? 0 : add_ordered((trace_object *)base, op, ordered, 0);
}

/* Whether an op can be added with a tuple of arguments; 0 with an exception. */
static int fits(const trace_object *self, PyObject *op, PyObject *arguments) {
  if (self->primitives && PyObject_TypeCheck(op, hiprt_py_op_type) && PyTuple_Check(arguments) &&
      ((hiprt_py_op *)op)->names && PyTuple_Size(arguments) == PyTuple_Size(((hiprt_py_op *)op)->names) &&
      PyTuple_Size(arguments) <= MOST_PARAMETERS)
    return 1;
  PyErr_Format(PyExc_TypeError, "a prepared trace, an op, and an argument for each of its parameters are needed");
  return 0;
}

/* add(op, arguments, rule): add a call whose rule is known, and return what the call would. */
static PyObject *add_known(PyObject *object, PyObject *args) {
  PyObject *op, *arguments, *rule, *ordered[MOST_PARAMETERS];
  if (!PyArg_ParseTuple(args, "OOO!", &op, &arguments, &PyTuple_Type, &rule)) return 0;
  if (!fits((trace_object *)object, op, arguments)) return 0;
  for (Py_ssize_t i = 0; i < PyTuple_Size(arguments); i++) ordered[i] = PyTuple_GetItem(arguments, i);
  return add_ordered((trace_object *)object, (hiprt_py_op *)op, ordered, rule);
}

/* Return arguments of a primitive with what stands for each of their parts, as a new reference. */
static PyObject *replaced(const hiprt_py_replacement *with, PyObject *arguments) {
  hiprt_py_reading r;
  hiprt_py_begin_reading(&r, 0, with, 0);
  PyObject *made = hiprt_py_read_argument(&r, arguments);
  hiprt_py_end_reading(&r);
  return made;
}

/* fill_in(arguments, found, moved, size class): a primitive's arguments with what stands for each value and size. */
static PyObject *fill_in(PyObject *type, PyObject *args) {
  PyObject *arguments;
  hiprt_py_replacement with = {0};
  if (!PyArg_ParseTuple(args, "O!O!OO!", &PyTuple_Type, &arguments, &PyDict_Type, &with.found, &with.moved, &PyType_Type,
                        &with.size))
    return 0;
  return replaced(&with, arguments);
}

/* repeat(primitive, found, moved, size class): add the call of an older program's primitive, and return its results as a
 * list; `found` has the arrays that stand for older values, by number, and moved(size) returns what stands for a size. */
static PyObject *repeat(PyObject *object, PyObject *args) {
  PyObject *older, *arguments, *ordered[MOST_PARAMETERS], *made = 0;
  hiprt_py_replacement with = {0};
  if (!PyArg_ParseTuple(args, "O!O!OO!", hiprt_py_primitive_type, &older, &PyDict_Type, &with.found, &with.moved, &PyType_Type,
                        &with.size))
    return 0;
  const hiprt_py_primitive *primitive = (const hiprt_py_primitive *)older;
  if (!fits((trace_object *)object, primitive->op, primitive->arguments)) return 0;
  if (!(arguments = replaced(&with, primitive->arguments))) return 0;
  for (Py_ssize_t i = 0; i < PyTuple_Size(arguments); i++) ordered[i] = PyTuple_GetItem(arguments, i);
  made = add_ordered((trace_object *)object, (hiprt_py_op *)primitive->op, ordered, 0);
  Py_DECREF(arguments);
  if (!made || PyList_CheckExact(made)) return made;
  const int is_tuple = PyTuple_CheckExact(made);
  const Py_ssize_t count = is_tuple ? PyTuple_Size(made) : 1;
  PyObject *list = PyList_New(count); /* CPython 3.11's PySequence_List loses a reference where memory runs out */
  for (Py_ssize_t i = 0; list && i < count; i++) PyList_SetItem(list, i, Py_XNewRef(is_tuple ? PyTuple_GetItem(made, i) : made));
  Py_DECREF(made);
  return list;
}

/* prepare(buffer, value class, size class or None, whether the list keeps primitives) */
static PyObject *prepare(PyObject *object, PyObject *args) {
  trace_object *self = (trace_object *)object;
  PyObject *buffer, *value, *size;
  if (!PyArg_ParseTuple(args, "O!O!Op", hiprt_py_buffer_type, &buffer, &PyType_Type, &value, &size, &self->reader.keeps)) return 0;
  if (self->primitives || !PyType_IsSubtype((PyTypeObject *)value, hiprt_py_array_type))
    return PyErr_Format(PyExc_TypeError, "prepare: once, with a class of arrays");
  if (!(self->reader.places = PyDict_New()) || !(self->primitives = PyList_New(0))) return 0;
  self->buffer = Py_XNewRef(buffer);
  self->reader.value = (PyTypeObject *)Py_XNewRef(value);
  self->reader.size = size == Py_None ? 0 : (PyTypeObject *)Py_XNewRef(size);
  self->reader.trace = ++traces;
  self->base.add = add;
  Py_RETURN_NONE;
}

/* see_prefixes(op of views, op of writes): note views of the first elements of what the second op returns, and call
 * of_prefixes(op, arguments), which returns None or what the call is to return, for ops that are given such views. */
static PyObject *see_prefixes(PyObject *object, PyObject *args) {
  trace_object *self = (trace_object *)object;
  PyObject *view, *grown;
  if (!PyArg_ParseTuple(args, "O!O!", hiprt_py_op_type, &view, hiprt_py_op_type, &grown)) return 0;
  if (self->grown) return PyErr_Format(PyExc_TypeError, "see_prefixes: once");
  self->view = Py_XNewRef(view);
  self->grown = Py_XNewRef(grown);
  Py_RETURN_NONE;
}

/* see_integers(class of numbers, class of values): numbers of the first class are used as ints, and values of the second
 * are told by `pin` where a call is one for their sizes. */
static PyObject *see_integers(PyObject *object, PyObject *args) {
  trace_object *self = (trace_object *)object;
  PyObject *integer, *varying;
  if (!PyArg_ParseTuple(args, "O!O!", &PyType_Type, &integer, &PyType_Type, &varying)) return 0;
  if (self->reader.integer) return PyErr_Format(PyExc_TypeError, "see_integers: once");
  self->reader.integer = (PyTypeObject *)Py_XNewRef(integer);
  self->varying = (PyTypeObject *)Py_XNewRef(varying);
  Py_RETURN_NONE;
}

/* given(array): a value that stands for an array of this form, whichever it will be. */
static PyObject *given(PyObject *object, PyObject *array) {
  trace_object *self = (trace_object *)object;
  if (!PyObject_TypeCheck(array, hiprt_py_array_type) || !self->primitives)
    return PyErr_Format(PyExc_TypeError, "%R is not an array", array);
  PyObject *none = PyTuple_New(0), *form = hiprt_py_form((hiprt_py_array *)array);
  const uint64_t number = hiprt_py_numbered(1), hash = hiprt_py_mixed(number, (uint64_t)(uintptr_t)form);
  hiprt_py_primitive *maker = form && none ? new_primitive(self, Py_None, none, Py_XNewRef(none), Py_None, hash, number) : 0;
  PyObject *made = maker ? new_value(self, array, maker, 0, address_for((hiprt_py_array *)array)) : 0;
  Py_XDECREF(none);
  Py_XDECREF(form);
  Py_XDECREF((PyObject *)maker);
  return made;
}

/* enter(): record this thread's ops from now on; return the trace that did so before. */
static PyObject *enter(PyObject *object, PyObject *unused) {
  hiprt_py_trace *before = hiprt_py_current_trace;
  if (!((trace_object *)object)->primitives) return PyErr_Format(PyExc_TypeError, "the trace is not prepared");
  hiprt_py_current_trace = (hiprt_py_trace *)object;
  return Py_XNewRef(before ? (PyObject *)before : Py_None);
}

/* leave(trace or None): let the trace that was before record again. */
static PyObject *leave(PyObject *object, PyObject *before) {
  hiprt_py_current_trace = before == Py_None ? 0 : (hiprt_py_trace *)before;
  Py_RETURN_NONE;
}

/* current(): the trace that records this thread's ops, or None. */
static PyObject *current(PyObject *type, PyObject *unused) {
  return Py_XNewRef(hiprt_py_current_trace ? (PyObject *)hiprt_py_current_trace : Py_None);
}

/* signature(tree): all of a tree but the contents of its arrays, as a tuple, and the arrays, as one. */
static PyObject *signature(PyObject *type, PyObject *tree) {
  PyObject *key, *arrays;
  if (hiprt_py_signature(tree, &key, &arrays)) return 0;
  PyObject *both = PyTuple_Pack(2, key, arrays);
  Py_DECREF(key);
  Py_DECREF(arrays);
  return both;
}

static int trace_traverse(PyObject *object, visitproc visit, void *arg) {
  trace_object *self = (trace_object *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->primitives);
  Py_VISIT(self->reader.places);
  Py_VISIT(self->buffer);
  Py_VISIT(self->view);
  Py_VISIT(self->grown);
  Py_VISIT((PyObject *)self->reader.value);
  Py_VISIT((PyObject *)self->reader.size);
  Py_VISIT((PyObject *)self->reader.integer);
  Py_VISIT((PyObject *)self->varying);
  return 0;
}

static int trace_clear(PyObject *object) {
  trace_object *self = (trace_object *)object;
  Py_CLEAR(self->primitives);
  Py_CLEAR(self->reader.places);
  Py_CLEAR(self->buffer);
  Py_CLEAR(self->view);
  Py_CLEAR(self->grown);
  PyTypeObject **types[] = {&self->reader.value, &self->reader.size, &self->reader.integer, &self->varying};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    PyObject *type = (PyObject *)*types[i];
    *types[i] = 0;
    Py_XDECREF(type);
  }
  return 0;
}

static void trace_dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  trace_clear(object);
  hiprt_py_free(object);
}

static PyTypeObject *make_trace(void) {
  static PyMemberDef members[] = {{"primitives", T_OBJECT, offsetof(trace_object, primitives), READONLY, 0}, {0}};
  static PyMethodDef methods[] = {{"prepare", prepare, METH_VARARGS, 0},
                                  {"see_prefixes", see_prefixes, METH_VARARGS, 0},
                                  {"see_integers", see_integers, METH_VARARGS, 0},
                                  {"given", given, METH_O, 0},
                                  {"add", add_known, METH_VARARGS, 0},
                                  {"repeat", repeat, METH_VARARGS, 0},
                                  {"fill_in", fill_in, METH_VARARGS | METH_STATIC, 0},
                                  {"enter", enter, METH_NOARGS, 0},
                                  {"leave", leave, METH_O, 0},
                                  {"current", current, METH_NOARGS | METH_STATIC, 0},
                                  {"signature", signature, METH_O | METH_STATIC, 0},
                                  {0}};
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, (void *)trace_dealloc}, {Py_tp_traverse, (void *)trace_traverse},
      {Py_tp_clear, (void *)trace_clear},     {Py_tp_members, members},
      {Py_tp_methods, methods},               {0, 0},
  };
  static PyType_Spec spec = {"hiprt.graphs.native.trace.Trace", sizeof(trace_object), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  return (PyTypeObject *)PyType_FromSpec(&spec);
}

PyMODINIT_FUNC PyInit_trace(void) {
  static struct PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "hiprt.graphs.native.trace", "Traces and primitives.", -1, 0, 0, 0, 0, 0,
  };
  PyObject *module = PyModule_Create(&definition);
  PyTypeObject *trace = module ? make_trace() : 0, *primitive = trace ? hiprt_py_make_primitive() : 0;
  if (!primitive || PyModule_AddObject(module, "Trace", (PyObject *)trace) ||
      PyModule_AddObject(module, "Primitive", (PyObject *)primitive))
    Py_CLEAR(module);
  return module;
}
