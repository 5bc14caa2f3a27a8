/* A gate: what holds the work of a lane's stream back until a program lets it go. */
#pragma once
#include <unistd.h>

#include "lane.h"

/* A word that holds a stream's work back until it is 1; a test that waits for that work meanwhile is ended. */
static inline volatile uint32_t *hold(const lane *l) {
  void *gate;
  CHECK(!hipHostMalloc(&gate, sizeof(uint32_t), 0));
  *(volatile uint32_t *)gate = 0;
  CHECK(!hipStreamWaitValue32(l->handle, gate, 1, hipStreamWaitValueEq, UINT32_MAX));
  alarm(60);
  return gate;
}

static inline void let_go(const lane *l, volatile uint32_t *gate) {
  hipStream_t key;
  CHECK(!hipStreamCreateWithFlags(&key, hipStreamNonBlocking) && !hipStreamWriteValue32(key, (void *)gate, 1, 0));
  CHECK(!hiprt_stream_synchronize(l->stream) && !hipStreamDestroy(key) && !hipHostFree((void *)gate));
  alarm(0);
}
