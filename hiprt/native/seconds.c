#define _GNU_SOURCE
#include "seconds.h"

#include <time.h>

double hiprt_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
