#include "captured.h"

#include <stdlib.h>

#include "status.h"

hiprt_captured *hiprt_captured_create(hipGraph_t graph, int device) {
  hiprt_captured *captured = calloc(1, sizeof *captured);
  if (!captured) {
    hiprt_fail(HIPRT_E_MEMORY, "hiprt_captured_create", 0);
    return 0;
  }
  atomic_init(&captured->references, 1);
  captured->graph = graph;
  captured->device = device;
  return captured;
}

hiprt_captured *hiprt_captured_retain(hiprt_captured *captured) {
  if (captured) atomic_fetch_add_explicit(&captured->references, 1, memory_order_relaxed);
  return captured;
}

void hiprt_captured_release(hiprt_captured *captured) {
  if (!captured || atomic_fetch_sub_explicit(&captured->references, 1, memory_order_acq_rel) != 1) return;
  hiprt_hip.hipSetDevice(captured->device);
  hiprt_hip.hipGraphDestroy(captured->graph);
  free(captured->ranges);
  free(captured->access);
  free(captured);
}

int hiprt_captured_claim(hiprt_captured *captured, hiprt_range range, uint8_t access) {
  if (range.start > range.end)
    return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_step_captured",
                      "a range ends before it starts: its first address comes first, then the one past the last");
  if (range.start == range.end) return 0;
  const uint32_t count = captured->n_ranges;
  hiprt_range *ranges = realloc(captured->ranges, (count + 1) * sizeof *ranges);
  if (ranges) captured->ranges = ranges;
  uint8_t *kinds = realloc(captured->access, count + 1);
  if (kinds) captured->access = kinds;
  if (!ranges || !kinds) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_captured_claim", 0);
  ranges[count] = range;
  kinds[count] = access;
  captured->n_ranges++;
  return 0;
}

int hiprt_captured_params(const hiprt_opaque *opaque, hipKernelNodeParams *out_params) {
  HIPRT_TRY(hipGraphKernelNodeGetParams, (hipGraphNode_t)(uintptr_t)opaque->source, out_params);
  out_params->func = (void *)(uintptr_t)opaque->function;
  return 0;
}
