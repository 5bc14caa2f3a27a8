/* Stream capture: what the core must not disturb of others' captures (G10), and captures of its own (G14).
 *
 * A graph that was captured is the caller's. Any thread may call all of this. */
#pragma once
#include "library.h"

/* cffi begin */
/* Set this thread's hipStreamCaptureMode and return the one before; `mode` itself where the library has no such thing.
 * In relaxed mode, asking for memory and for events leaves the captures of others alone. */
int hiprt_capture_mode(int mode);
/* Return the number of captures that the core has open. */
int hiprt_captures(void);
/* Wait for a device, or fail with HIPRT_E_RECORDING while the core has a capture open: the wait would end it, on ROCm
 * whatever device and thread it belongs to. */
int hiprt_wait_for_device(int device);
/* cffi end */

/* Whether a stream is being captured: an event recorded on it now would become a part of the capture, and a question
 * about that event would end the capture. */
int hiprt_is_capturing(hipStream_t stream);
/* Wait for an event or for a stream that is not being captured, or ask whether it is done. */
int hiprt_wait_for_event(hipEvent_t event);
int hiprt_ask_event(hipEvent_t event);
int hiprt_wait_for_stream(hipStream_t stream);
int hiprt_ask_stream(hipStream_t stream);
/* Capture what is put on a stream from now on, in relaxed mode, which forbids the threads of the process the least. */
int hiprt_capture_begin(hipStream_t stream);
/* Whether a stream that is being captured has work by now, or its capture was made invalid. */
int hiprt_capture_has_work(hipStream_t stream);
/* Take a stream out of a capture whose end has failed. Return whether it is still captured. */
int hiprt_capture_drop(hipStream_t stream);
/* End a capture. *out_graph is what was captured. On failure it is NULL, and the capture was dropped if it could be. */
int hiprt_capture_end(hipStream_t stream, hipGraph_t *out_graph);

/* A graph's nodes and edges; edge k leads from from[k] to to[k], and overlaps[k] is 1 where the kernel at its end waits by
 * itself. All lie in one block, which begins at `nodes`. */
typedef struct {
  hipGraphNode_t *nodes, *from, *to;
  unsigned char *overlaps;
  size_t n_nodes, n_edges;
} hiprt_wiring;

/* List what was captured so far. The caller frees out->nodes, which is NULL on failure. */
int hiprt_capture_wiring(hipGraph_t graph, hiprt_wiring *out);
