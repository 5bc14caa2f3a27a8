/* Rules: what an op does with operands of some forms, as traces have learnt it.
 *
 * An op keeps the rules of its calls, and the last ones in front. Called with the GIL held. */
#pragma once
#include "tracer.h" /* first: Python.h says so */

/* Return the rule of a call, as a new reference, and note its key in the reading's hash. `known` is the rule where the caller
 * has it, else NULL. */
PyObject *hiprt_py_rule_of(hiprt_py_tracer *self, hiprt_py_op *op, PyObject *arguments, hiprt_py_reading *reading,
                           PyObject *known);
