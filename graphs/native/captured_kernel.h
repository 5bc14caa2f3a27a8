/* Captured kernels: a kernel node of other code, with its arguments as far as HIP tells them, as a piece.
 *
 * Called by the thread that takes the captured work. */
#pragma once
#include "captured_pieces.h"

/* Append a kernel node of a captured graph. */
int hiprt_captured_kernel(hiprt_pieces *all, hipGraphNode_t source);
