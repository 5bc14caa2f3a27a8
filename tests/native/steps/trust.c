/* What a HIP library is trusted with: the rungs that a probe finds. With the argument "lost", patches are lost, which a canary
 * notices too. */
#include "gate.h"

/* A patch that HIP reports and does not make is noticed, once; then the step patches no more. */
static void lost(const lane *l) {
  hiprt_rules rules;
  hiprt_step_stats stats;
  hiprt_rules_default(&rules);
  rules.canary = canary;
  rules.slots = 1;
  rules.rungs &= ~(1u << HIPRT_UPDATE);
  hiprt_step *step = hiprt_step_create("lost", &rules);
  step_by(step, l, 1);
  step_by(step, l, 2);
  CHECK(!hiprt_stream_synchronize(l->stream));
  CHECK(step_by(step, l, 3).rung == HIPRT_EAGER);
  expect(l, 3);
  for (int by = 4; by < 8; by++) {
    step_by(step, l, by);
    expect(l, by);
  }
  hiprt_step_count(step, &stats);
  CHECK(stats.rungs[HIPRT_PATCH] == 1 && stats.rungs[HIPRT_EAGER] == 1);
  hiprt_step_release(step);
}

/* The rungs that a library does right are found: all, and with is_lost not those of patches. No other stream is waited for,
 * since its work may be held back until this thread goes on. */
static void probes(const lane *l, int is_lost) {
  const uint64_t words = (uintptr_t)l->z;
  uint32_t rungs = 0;
  lane other;
  open_lane(&other);
  volatile uint32_t *const gate = hold(&other);
  CHECK(!hiprt_rules_probe(l->stream, canary, words, &rungs));
  CHECK(rungs == (is_lost ? HIPRT_RUNGS & ~(1u << HIPRT_PATCH) : HIPRT_RUNGS));
  let_go(&other, gate);
  close_lane(&other);
  CHECK(hiprt_rules_probe(l->stream, scale, words, &rungs) == HIPRT_E_ARGUMENT);
  hiprt_step *step = hiprt_step_create("probes", 0);
  CHECK(!hiprt_step_begin(step, l->stream));
  CHECK(hiprt_rules_probe(l->stream, canary, words, &rungs) == HIPRT_E_RECORDING);
  hiprt_step_cancel(step);
  hiprt_step_release(step);
}

int main(int argc, char **argv) {
  lane l;
  start(&l);
  const int is_lost = argc > 1 && !strcmp(argv[1], "lost");
  if (is_lost) lost(&l);
  probes(&l, is_lost);
  finish(&l);
  puts("ok");
  return 0;
}
