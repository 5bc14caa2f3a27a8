/* Status values and the thread's last failure. */
#pragma once
#include "hiprt_core.h"

/* Remember the failure for this thread and return `status`. detail is copied, may be NULL. */
int hiprt_fail(int status, const char *call, const char *detail);

/* Return from the calling function when a HIP call fails. */
#define HIPRT_TRY(call, ...)                                                                                           \
  do {                                                                                                                 \
    int status_ = (int)hiprt_hip.call(__VA_ARGS__);                                                                    \
    if (status_) return hiprt_fail(status_, #call, 0);                                                                 \
  } while (0)
