/* Values: what the calls of a trace return, and the primitives that make them.
 *
 * What is made is a new reference, which refers to older objects alone. Called by the thread whose trace it is, with the GIL
 * held. */
#pragma once
#include "tracer.h" /* first: Python.h says so */

/* Return a value like `pattern`, a plain array, at an address. */
PyObject *hiprt_py_new_value(const hiprt_py_tracer *self, PyObject *pattern, hiprt_py_primitive *maker, uint32_t output,
                             unsigned long long address);
/* Return an address for a value like `pattern`, at which no memory lies. */
unsigned long long hiprt_py_address_for(const hiprt_py_array *pattern);
/* Return a primitive of this trace; it takes over the reference to `inputs`. */
hiprt_py_primitive *hiprt_py_made_primitive(const hiprt_py_tracer *self, PyObject *op, PyObject *arguments, PyObject *inputs,
                                            PyObject *rule, uint64_t hash, uint64_t number);
/* Make the results that a rule tells of: a container, results (pattern or None, operand or -1, bytes), writes. */
PyObject *hiprt_py_results(const hiprt_py_tracer *self, PyObject *inputs, PyObject *rule, hiprt_py_primitive *maker);
