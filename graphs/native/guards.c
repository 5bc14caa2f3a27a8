#include "guards.h"

#include <string.h>

#include "library.h"

uint32_t hiprt_guards_off;

static hipError_t keep_device(int device) {
  (void)device;
  return hipSuccess;
}

static hipError_t claim_reached(hipEvent_t event) {
  (void)event;
  return hipSuccess;
}

static hipError_t claim_waited(hipStream_t stream, hipEvent_t event, unsigned flags) {
  (void)stream, (void)event, (void)flags;
  return hipSuccess;
}

__attribute__((visibility("default"))) int hiprt_test_disable(const char *guard) {
  if (!strcmp(guard, "key")) {
    hiprt_guards_off |= HIPRT_GUARD_KEY;
  } else if (!strcmp(guard, "fence")) {
    hiprt_guards_off |= HIPRT_GUARD_FENCE;
  } else if (!strcmp(guard, "stream")) {
    hiprt_guards_off |= HIPRT_GUARD_STREAM;
  } else if (!strcmp(guard, "device")) {
    hiprt_hip.hipSetDevice = keep_device;
  } else if (!strcmp(guard, "busy")) {
    hiprt_hip.hipEventQuery = claim_reached;
  } else if (!strcmp(guard, "wait")) {
    hiprt_hip.hipEventSynchronize = claim_reached;
  } else if (!strcmp(guard, "order")) {
    hiprt_hip.hipStreamWaitEvent = claim_waited;
  } else {
    return -1;
  }
  return 0;
}
