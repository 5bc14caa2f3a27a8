#include "successor.h"

#include <pthread.h>
#include <stdlib.h>

#include "status.h"

struct hiprt_successor {
  pthread_t thread;
  int is_apart; /* the thread exists */
  hiprt_recorder *recorder;
  int device, overlap, status;
  uint32_t fanout;
  hiprt_kernel *canary;
  hiprt_exec *made;
};

static void *make(void *successor) {
  hiprt_successor *s = successor;
  s->status = hiprt_exec_create(s->recorder, s->device, s->fanout, s->overlap, s->canary, &s->made);
  return 0;
}

hiprt_successor *hiprt_successor_create(hiprt_recorder *recorder, int device, uint32_t fanout, int overlap,
                                        hiprt_kernel *canary) {
  hiprt_successor *s = calloc(1, sizeof *s);
  if (!s) {
    hiprt_fail(HIPRT_E_MEMORY, "hiprt_successor_create", 0);
    return 0;
  }
  hiprt_recorder_retain(s->recorder = recorder);
  s->device = device;
  s->fanout = fanout;
  s->overlap = overlap;
  s->canary = canary;
  if (canary) hiprt_kernel_retain(canary);
  s->is_apart = !pthread_create(&s->thread, 0, make, s);
  if (!s->is_apart) make(s); /* the process may have no more threads now */
  return s;
}

int hiprt_successor_take(hiprt_successor *s, hiprt_exec **out_exec) {
  if (s->is_apart) pthread_join(s->thread, 0);
  const int status = s->status;
  *out_exec = s->made;
  hiprt_recorder_release(s->recorder);
  hiprt_kernel_release(s->canary);
  free(s);
  return status;
}

void hiprt_successor_release(hiprt_successor *s) {
  hiprt_exec *made;
  if (!s || hiprt_is_forked) return;
  if (!hiprt_successor_take(s, &made)) hiprt_exec_release(made);
}
