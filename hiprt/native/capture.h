/* Stream capture by somebody else: what the core must not disturb (G10). */
#pragma once
#include "library.h"

/* cffi begin */
/* Set this thread's hipStreamCaptureMode and return the one before; `mode` itself where the library has no such thing.
 * In relaxed mode, asking for memory and for events leaves the captures of others alone. */
int hiprt_capture_mode(int mode);
/* cffi end */

/* Whether a stream is being captured: an event recorded on it now would become a part of the capture, and a question
 * about that event would end the capture. */
int hiprt_is_capturing(hipStream_t stream);
