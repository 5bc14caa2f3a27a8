/* Statuses: what the core's functions return, and the thread's last failure.
 *
 * A function returns 0, a hipError_t, or a negative HIPRT_E_*. Nothing in the core raises, prints or exits. */
#pragma once
#include "hiprt/hiprt.h"

/* Remember a failure for this thread and return `status`. detail is copied and may be NULL. */
int hiprt_fail(int status, const char *call, const char *detail);

/* Return from the calling function when a function of library.h's table fails. */
#define HIPRT_TRY(call, ...)                                                                                           \
  do {                                                                                                                 \
    int status_ = (int)hiprt_hip.call(__VA_ARGS__);                                                                    \
    if (status_) return hiprt_fail(status_, #call, 0);                                                                 \
  } while (0)
