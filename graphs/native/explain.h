/* Explanations: how a recording differs from the one before it, as text.
 *
 * Both recordings are only read. Called with the step's lock. */
#pragma once
#include "recorder.h"
#include "text.h"

/* Append the first node in which two recordings differ, and what of it does; nothing where none does. */
void hiprt_explain(const hiprt_recorder *before, const hiprt_recorder *now, hiprt_text *out);
