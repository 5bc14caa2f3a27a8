/* Threads that take turns with one step. */
#include <pthread.h>

#include "lane.h"

/* Threads with a stream each share a step: they take turns, and an exec is on one stream at a time (G6). */
static hiprt_step *shared;
static void *take_turns(void *unused) {
  (void)unused;
  lane l;
  open_lane(&l);
  for (int by = 1; by <= 40; by++) {
    step_by(shared, &l, by % 7);
    if (by % 3 == 0) expect(&l, by % 7);
  }
  expect(&l, 40 % 7);
  close_lane(&l);
  return 0;
}

static void threads(void) {
  pthread_t all[4];
  shared = hiprt_step_create("shared", 0);
  CHECK(shared);
  for (int i = 0; i < 4; i++) CHECK(!pthread_create(all + i, 0, take_turns, 0));
  for (int i = 0; i < 4; i++) CHECK(!pthread_join(all[i], 0));
  hiprt_step_release(shared);
}

int main(void) {
  lane l;
  start(&l);
  threads();
  finish(&l);
  puts("ok");
  return 0;
}
