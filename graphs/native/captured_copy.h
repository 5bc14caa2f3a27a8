/* Captured copies, and fills: memcpy and memset nodes of other code within the device's memory, as pieces.
 *
 * Called by the thread that takes the captured work. */
#pragma once
#include "captured_pieces.h"

/* Append a memcpy node of a captured graph. */
int hiprt_captured_copy(hiprt_pieces *all, hipGraphNode_t source);
/* Append a memset node of a captured graph. */
int hiprt_captured_fill(hiprt_pieces *all, hipGraphNode_t source);
