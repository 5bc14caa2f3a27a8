/* What a step, and the library, refuse. */
#include <pthread.h>

#include "lane.h"

/* What a thread may not do with a step that another records. */
static void *meddle(void *step) {
  CHECK(hiprt_step_end(step, 0, 0) == HIPRT_E_ARGUMENT);
  CHECK(hiprt_step_capture(step) == HIPRT_E_ARGUMENT);
  hiprt_step_cancel(step);
  return 0;
}

static void refusals(const lane *l) {
  pthread_t other;
  hiprt_rules rules;
  hiprt_outcome outcome;
  hiprt_step *step = make_step(HIPRT_RUNGS, 0);
  CHECK(hiprt_open(0, HIPRT_ABI + 1) == HIPRT_E_ABI);
  CHECK(hiprt_open("no such provider", HIPRT_ABI) == HIPRT_E_LIBRARY);
  hiprt_rules_default(&rules);
  rules.fanout = 1;
  CHECK(!hiprt_step_create("rules", &rules) && hiprt_failure_status() == HIPRT_E_ARGUMENT);
  CHECK(hiprt_step_again(step, l->stream, 0, 0) == HIPRT_E_ARGUMENT);
  CHECK(hiprt_step_end(step, 0, 0) == HIPRT_E_ARGUMENT);
  CHECK(hiprt_step_captured(step, 0, 0, 0) == HIPRT_E_ARGUMENT);
  CHECK(!pthread_create(&other, 0, meddle, step));
  CHECK(!hiprt_step_begin(step, l->stream));
  CHECK(hiprt_step_begin(step, l->stream) == HIPRT_E_RECORDING);
  CHECK(!pthread_join(other, 0));
  CHECK(hiprt_stream_synchronize(l->stream) == HIPRT_E_RECORDING);
  CHECK(hiprt_copy(l->stream, (uintptr_t)l->x, (uintptr_t)&rules, 4, hipMemcpyHostToDevice) == HIPRT_E_RECORDING);
  issue(l, 5);
  hiprt_step_cancel(step);
  hiprt_step_cancel(step);
  CHECK(hiprt_step_again(step, l->stream, 0, 0) == HIPRT_E_ARGUMENT);
  CHECK(!hiprt_step_begin(step, l->stream) && !hiprt_step_end(step, &outcome, 0) && !outcome.nodes);
  hiprt_step_release(step);
  hiprt_step_release(0);
}

/* What names no device, and launches that HIP refuses, of which the kernel is named. */
static void refused_launches(const lane *l) {
  hiprt_stream *none;
  hiprt_outcome outcome;
  const hiprt_dims wide = {.grid = {1, 1, 1}, .block = {4096, 1, 1}};
  void *const cells[] = {(void *)&l->x, (void *)&l->y};
  int ran = 1;
  CHECK(hiprt_stream_create((uintptr_t)l->handle, -1, &none) == HIPRT_E_ARGUMENT && !none);
  CHECK(hiprt_stream_create((uintptr_t)l->handle, 1 << 20, &none) == HIPRT_E_ARGUMENT && !none);
  CHECK(hiprt_launch_kernel(l->stream, add, &wide, cells, extents) > 0);
  CHECK(strstr(hiprt_failure_detail(), "add, grid 1x1x1 of 4096x1x1"));
  hiprt_step *step = make_step(HIPRT_RUNGS, 0);
  CHECK(!hiprt_step_begin(step, l->stream) && !hiprt_launch_kernel(l->stream, add, &wide, cells, extents));
  CHECK(hiprt_step_end(step, &outcome, &ran) > 0 && !ran && strstr(hiprt_failure_detail(), "add, grid"));
  CHECK(!hiprt_step_begin(step, l->stream) && !hiprt_launch_kernel(l->stream, add, &dims, cells, extents));
  CHECK(!hiprt_step_end(step, &outcome, 0) && outcome.rung == HIPRT_INSTANTIATE);
  hiprt_step_release(step);
}

int main(void) {
  lane l;
  CHECK(hiprt_version() == HIPRT_VERSION && !hiprt_step_create("early", 0));
  start(&l);
  CHECK(!hiprt_open(0, HIPRT_ABI));
  refusals(&l);
  refused_launches(&l);
  finish(&l);
  puts("ok");
  return 0;
}
