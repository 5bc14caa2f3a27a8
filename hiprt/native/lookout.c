#include "lookout.h"

#include <pthread.h>

#define DEVICES 64

/* Return the lookout of a device, which is made at the first request; NULL if that fails. This thread's device is it. */
static hipStream_t lookout_of(int device) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static hipStream_t lookouts[DEVICES];
  if (hiprt_is_forked || device < 0 || device >= DEVICES) return 0;
  pthread_mutex_lock(&lock);
  hipStream_t *lookout = lookouts + device;
  if (!*lookout && hiprt_hip.hipStreamCreateWithFlags(lookout, hipStreamNonBlocking)) *lookout = 0;
  hipStream_t found = *lookout;
  pthread_mutex_unlock(&lock);
  return found;
}

hipError_t hiprt_lookout_record(int device, hipStream_t stream, hipEvent_t event) {
  hipError_t status = hiprt_hip.hipSetDevice(device);
  if (!status) status = hiprt_hip.hipEventRecord(event, stream);
  if (status) return status;
  /* Without a lookout the event stays on the stream, where it is right as long as HIP lets anybody ask. */
  hipStream_t lookout = lookout_of(device);
  return lookout && !hiprt_hip.hipStreamWaitEvent(lookout, event, 0) ? hiprt_hip.hipEventRecord(event, lookout) : hipSuccess;
}
