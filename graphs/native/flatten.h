/* Flattening: work of other code, which a stream captures or which comes as a graph, becomes nodes of a recording, in an order
 * that keeps theirs; those of child graphs stand where the child stood (G5).
 *
 * The nodes hold the captured graph. Called by the thread that records, which begins and ends a capture itself. */
#pragma once
#include "recorder.h"

/* cffi begin */
/* Begin to capture what other code puts on the recorder's stream. */
int hiprt_flatten_begin(hiprt_recorder *recorder, hiprt_stream *stream);
/* End the capture and append its work.
 * ranges, access: what all of the work reads and writes; is_barrier: the program did not say.
 * from, to: addresses that are not final; work that was given one is refused.
 * HIPRT_E_FOREIGN: some of the work cannot be a node, and none of it has become one. */
int hiprt_flatten_end(hiprt_recorder *recorder, hiprt_stream *stream, uint32_t n_ranges, const hiprt_range *ranges,
                      const uint8_t *access, int is_barrier, uint64_t from, uint64_t to, uint32_t *out_nodes);
/* Make nodes of a graph (hipGraph_t) that other code made, with the edges that it has; the recorder is empty.
 * is_given: the graph is hiprt's from now on, also if this fails; else a copy of it is made. */
int hiprt_flatten_graph(hiprt_recorder *recorder, uint64_t graph, int device, int is_given);
/* Compare a graph with the nodes of one that other code made before. *out_recorder: `like` itself, without a new reference,
 * where all is the same; a recorder of its own where some nodes carry other arguments; NULL where it is other work, or
 * that cannot be said. is_given: as above, unless *out_recorder is NULL: then the graph stays the caller's. */
void hiprt_flatten_like(hiprt_recorder *like, uint64_t graph, int device, int is_given, hiprt_recorder **out_recorder);
/* End the capture and throw its work away. */
void hiprt_flatten_drop(hiprt_recorder *recorder, hiprt_stream *stream);
/* cffi end */
