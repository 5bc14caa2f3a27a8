/* Prefixes: views of the first elements of a cache, whose number grows from call to call; see graphs/trace/prefixes.py.
 *
 * Called with the GIL held. */
#pragma once
#include "tracer.h" /* first: Python.h says so */

/* Whether a value, which a primitive makes, is a cache of which a part was written, so that views of it may be prefixes. */
int hiprt_py_is_grown(const hiprt_py_trace *trace, const hiprt_py_array *value);
/* Note whether a primitive is such a view. */
void hiprt_py_note_prefix(const hiprt_py_tracer *self, hiprt_py_primitive *made);
/* Whether an operand of a call is such a view. */
int hiprt_py_has_prefix(const hiprt_py_reading *reading);
