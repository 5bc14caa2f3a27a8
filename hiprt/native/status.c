#include "status.h"

#include <stdio.h>

static _Thread_local struct {
  int status;
  const char *call;
  char detail[512];
} failure = {0, "", ""};

static const char forked[] =
    "this process was forked from one that had used the device, which only works in that one; start it with the method "
    "spawn or forkserver, or fork before the first use";

int hiprt_fail(int status, const char *call, const char *detail) {
  if (status == HIPRT_E_FORKED) detail = forked;
  failure.status = status;
  failure.call = call;
  snprintf(failure.detail, sizeof failure.detail, "%s", detail ? detail : "");
  return status;
}

int hiprt_failure_status(void) { return failure.status; }
const char *hiprt_failure_call(void) { return failure.call; }
const char *hiprt_failure_detail(void) { return failure.detail; }

const char *hiprt_status_name(int status) {
  switch (status) {
    case 0: return "HIPRT_OK";
    case HIPRT_E_LIBRARY: return "HIPRT_E_LIBRARY";
    case HIPRT_E_CLOSED: return "HIPRT_E_CLOSED";
    case HIPRT_E_MEMORY: return "HIPRT_E_MEMORY";
    case HIPRT_E_ARGUMENT: return "HIPRT_E_ARGUMENT";
    case HIPRT_E_RECORDING: return "HIPRT_E_RECORDING";
    case HIPRT_E_FULL: return "HIPRT_E_FULL";
    case HIPRT_E_LIMIT: return "HIPRT_E_LIMIT";
    case HIPRT_E_STALE: return "HIPRT_E_STALE";
    case HIPRT_E_FORKED: return "HIPRT_E_FORKED";
    case HIPRT_E_CAPTURED: return "HIPRT_E_CAPTURED";
    case HIPRT_E_FOREIGN: return "HIPRT_E_FOREIGN";
    case HIPRT_E_ABI: return "HIPRT_E_ABI";
    default: return status > 0 ? "hipError_t" : "HIPRT_E_UNKNOWN";
  }
}
