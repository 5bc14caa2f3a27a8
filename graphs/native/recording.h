/* Recording: how nodes come into a recorder: from a stream, from a captured graph, or from another recorder.
 *
 * The recorder holds a reference to the kernel and the captured work of each node. Called by the thread that records. */
#pragma once
#include "captured.h"
#include "recorder.h"
#include "stream.h"

/* cffi begin */
/* Take what this thread, or with is_shared every thread, puts on a stream as nodes, until hiprt_stream_stop. */
int hiprt_recorder_start(hiprt_recorder *recorder, hiprt_stream *stream, int is_shared);
/* Append nodes [begin, end) to another recorder, with edges among themselves; all nodes keep the edges they have. */
int hiprt_recorder_slice(const hiprt_recorder *from, uint32_t begin, uint32_t end, hiprt_recorder *into);
/* cffi end */

/* Append a node that was captured; the recorder takes references. deps: the earlier nodes that it waits for, ascending,
 * and overlaps: whether its kernel does so by itself; NULL: they follow from what it touches. All nodes of a recorder are
 * appended in one of these ways. */
int hiprt_recorder_add_captured(hiprt_recorder *recorder, uint32_t kind, hiprt_kernel *kernel, const void *payload,
                                uint32_t size, hiprt_captured *captured, hipGraphNode_t source, const uint32_t *deps,
                                uint32_t n_deps, int overlaps);
/* Make a recorder with the same nodes and edges. */
int hiprt_recorder_copy(const hiprt_recorder *from, hiprt_recorder **out_recorder);
