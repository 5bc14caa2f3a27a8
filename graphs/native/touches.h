/* Touches: what a recorder's nodes do with memory that other streams may use too, by which their launches are ordered (G13).
 *
 * The recorder holds a reference to each piece of memory. They are noted by the thread that records, and exchanged by the
 * one that patches the exec; neither happens while another thread uses the recorder. */
#pragma once
#include "order.h"
#include "node.h"

/* cffi begin */
/* Note what the nodes do (hiprt_access) with a piece of memory. */
int hiprt_recorder_touch(hiprt_recorder *recorder, hiprt_uses *uses, uint32_t access);
/* Set apart what is noted of the memory of the step's next argument, so that hiprt_recorder_retouch can put other memory
 * in its place. is_shared: the nodes use that memory in another way as well. */
int hiprt_recorder_set_apart(hiprt_recorder *recorder, hiprt_uses *uses, int is_shared);
/* Order a stream as before a launch of the nodes, and note it, for work that others put on the stream next. */
int hiprt_recorder_order(const hiprt_recorder *recorder, hiprt_stream *stream);
/* cffi end */

/* Return the number of arguments that were set apart. */
uint32_t hiprt_recorder_apart(const hiprt_recorder *recorder);
/* Note that the nodes use other memory through an argument that was set apart. */
void hiprt_recorder_retouch(hiprt_recorder *recorder, uint32_t argument, hiprt_uses *uses);
/* Return what is noted; the recorder owns the list. */
const hiprt_touch *hiprt_recorder_touches(const hiprt_recorder *recorder, uint32_t *out_count);
