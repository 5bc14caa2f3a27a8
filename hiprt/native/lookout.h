/* The lookout of a device: a stream of ours that only waits, so that events recorded there can be asked about at any time.
 *
 * CLR looks at the stream where an event was recorded last when it is asked about the event: up to HIP 6.4 that ends a
 * capture of the stream, in all versions it reads a stream that has been destroyed (hip_event.cpp:432-470 of ROCm/clr
 * @f9f995c6d, checkEventCaptureRestrictions of ROCm/rocm-systems @06d4c70a); and nobody can wait for an event whose stream
 * is captured by now (hip_stream.cpp:478). Nobody captures or destroys the lookout (G10). */
#pragma once
#include "library.h"

/* Record an event behind the work that a stream has by now. A later event of the same device may wait for the work of
 * earlier ones too. The stream is valid and not being captured. */
hipError_t hiprt_lookout_record(int device, hipStream_t stream, hipEvent_t event);
