/* Attributes: what a kernel of other code is launched with besides its dimensions (clusters and their policy, priority,
 * memory domain), as the bits that stand in hiprt_dims.zero. A launch without any has no bits, as launches of ours.
 *
 * The bits are a value that nobody owns. Any thread may ask for them, and launch. */
#pragma once
#include <stdint.h>

#include "library.h"

/* Give the attributes of a captured kernel node, each by bits of its own, so that kernels that differ in one are not taken
 * for the same (G3). HIPRT_E_FOREIGN: one has a value that the bits cannot say, or that no launch can repeat. */
int hiprt_attributes_ask(hipGraphNode_t source, uint32_t *out_attributes);
/* Launch a kernel with them. HIPRT_E_FOREIGN: the HIP library has no such launch. */
int hiprt_attributes_launch(const hipKernelNodeParams *params, uint32_t attributes, hipStream_t stream);
