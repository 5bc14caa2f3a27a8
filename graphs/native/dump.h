/* Dumps: a recording as JSON.
 *
 * The recording is only read. Called with the step's lock. */
#pragma once
#include "recorder.h"
#include "text.h"

/* Append a recording's nodes and edges as one JSON object. */
void hiprt_dump(const hiprt_recorder *recorder, const char *name, hiprt_text *out);
