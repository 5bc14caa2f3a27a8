/* Statuses: what the core's functions return, and the thread's last failure.
 *
 * A function returns 0, a hipError_t, or a negative HIPRT_E_*. Nothing in the core raises, prints or exits. */
#pragma once

/* cffi begin */
#define HIPRT_E_LIBRARY -1   /* the library or one of its symbols cannot be loaded */
#define HIPRT_E_CLOSED -2    /* no library is open, or the stream is closed */
#define HIPRT_E_MEMORY -3    /* the host is out of memory */
#define HIPRT_E_ARGUMENT -4  /* an argument is out of range */
#define HIPRT_E_RECORDING -5 /* the call is not legal while the stream records */
#define HIPRT_E_FULL -6      /* the recording has reached its bound of nodes or bytes */
#define HIPRT_E_LIMIT -7     /* a limit in bytes would be exceeded */
#define HIPRT_E_STALE -8     /* an executable graph does not carry a change that HIP reported as made */
#define HIPRT_E_FORKED -9    /* the process was forked from one that had opened a library */
#define HIPRT_E_CAPTURED -10 /* other code put work on the stream that records, which is to be taken in first */
#define HIPRT_E_FOREIGN -11  /* work of other code cannot be a node */

/* The call that failed last on this thread, and what else is known about it; empty texts before the first failure. */
const char *hiprt_failure_call(void);
const char *hiprt_failure_detail(void);
const char *hiprt_status_name(int status);
/* cffi end */

/* Remember a failure for this thread and return `status`. detail is copied and may be NULL. */
int hiprt_fail(int status, const char *call, const char *detail);

/* Return from the calling function when a function of library.h's table fails. */
#define HIPRT_TRY(call, ...)                                                                                           \
  do {                                                                                                                 \
    int status_ = (int)hiprt_hip.call(__VA_ARGS__);                                                                    \
    if (status_) return hiprt_fail(status_, #call, 0);                                                                 \
  } while (0)
