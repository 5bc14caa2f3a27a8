#include "op_rules.h" /* first: Python.h says so */

#include <string.h>

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
static PyObject *find_rule(hiprt_py_tracer *self, hiprt_py_op *op, PyObject *arguments, PyObject *key, Py_hash_t hash,
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

PyObject *hiprt_py_rule_of(hiprt_py_tracer *self, hiprt_py_op *op, PyObject *arguments, hiprt_py_reading *r,
                           PyObject *known) {
  const hiprt_py_rule *recent = recent_rule(op, r);
  PyObject *key = recent ? 0 : hiprt_py_tuple_of(r->key, r->parts);
  if (!recent && !key) return 0;
  const Py_hash_t hash = recent ? recent->hash : PyObject_Hash(key);
  PyObject *rule = recent ? Py_XNewRef(recent->rule) : find_rule(self, op, arguments, key, hash, known);
  r->hash = hiprt_py_mixed(hiprt_py_mixed(r->hash, (uint64_t)hash), (uint64_t)(uintptr_t)op);
  Py_XDECREF(key);
  return rule;
}

