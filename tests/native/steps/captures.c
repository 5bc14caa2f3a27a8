/* Work of other code that a step takes in by stream capture. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "lane.h"

static _Thread_local int requests = -1; /* of memory that moves, which this thread may still make; negative: any number */

/* In the place of the C library's for libhiprt too, so that memory runs out where a test wants it. Uninstrumented, as a
 * thread asks for memory before ThreadSanitizer knows it. */
__attribute__((visibility("default"), no_sanitize_thread)) void *realloc(void *memory, size_t size) {
  static void *(*real)(void *, size_t);
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "realloc");
  if (requests > 0) requests--;
  return requests ? real(memory, size) : 0;
}

/* What a capture takes in becomes nodes of the step. */
static void captures(const lane *l) {
  hiprt_outcome outcome;
  hiprt_step *step = make_step(HIPRT_RUNGS & ~(1u << HIPRT_UPDATE), 0);
  const uint64_t z = (uintptr_t)l->z, ranges[] = {z, z + SIZE * sizeof(int)};
  const uint8_t access = HIPRT_WRITE;
  for (int round = 0; round < 3; round++) {
    CHECK(!hiprt_step_begin(step, l->stream));
    CHECK(!hiprt_step_capture(step));
    CHECK(!hipMemsetAsync(l->z, 0, SIZE * sizeof(int), l->handle));
    CHECK(!hiprt_step_captured(step, 1, ranges, &access));
    issue(l, round + 1);
    CHECK(!hiprt_step_end(step, &outcome, 0) && outcome.nodes == 5);
    expect(l, round + 1);
  }
  CHECK(outcome.rung == HIPRT_PATCH);
  hiprt_step_release(step);
}

/* A range that ends before it starts is refused: it would count as empty, and make no edges. An empty one is none. */
static void reversed_ranges(const lane *l) {
  const uint64_t z = (uintptr_t)l->z, ranges[] = {z + SIZE * sizeof(int), z}, empty[] = {z, z};
  const uint8_t access = HIPRT_WRITE;
  hiprt_outcome outcome;
  hiprt_step *step = make_step(HIPRT_RUNGS, 0);
  for (int is_empty = 0; is_empty < 2; is_empty++) {
    CHECK(!hiprt_step_begin(step, l->stream) && !hiprt_step_capture(step));
    CHECK(!hipMemsetAsync(l->z, 0, SIZE * sizeof(int), l->handle));
    const int status = hiprt_step_captured(step, 1, is_empty ? empty : ranges, &access);
    CHECK(status == (is_empty ? 0 : HIPRT_E_ARGUMENT));
    CHECK(is_empty || strstr(hiprt_failure_detail(), "ends before it starts"));
    CHECK(!hiprt_step_end(step, &outcome, 0) && outcome.nodes == (uint32_t)is_empty);
  }
  hiprt_step_release(step);
}

/* Nothing is launched of captured work of which a part became nodes when memory ran out. */
static void captures_without_memory(const lane *l) {
  enum { NODES = 100 };
  const uint64_t z = (uintptr_t)l->z, ranges[] = {z, z + SIZE * sizeof(int)};
  const uint8_t access = HIPRT_WRITE;
  int status = HIPRT_E_MEMORY, failed = 0;
  for (; status; failed++) {
    hiprt_step *step = make_step(HIPRT_RUNGS, 0);
    hiprt_outcome outcome;
    int ran = 0;
    CHECK(!hiprt_step_begin(step, l->stream) && !hiprt_step_capture(step));
    for (int i = 0; i < NODES; i++) CHECK(!hipMemsetAsync(l->z, i, SIZE * sizeof(int), l->handle));
    requests = failed;
    status = hiprt_step_captured(step, 1, ranges, &access);
    requests = -1;
    CHECK(!status || status == HIPRT_E_MEMORY);
    const int ended = hiprt_step_end(step, &outcome, &ran);
    CHECK(status ? !ran && (ended == HIPRT_E_MEMORY || !outcome.nodes) : !ended && outcome.nodes == NODES);
    hiprt_step_release(step);
  }
  CHECK(failed > 10);
}

int main(void) {
  lane l;
  start(&l);
  captures(&l);
  reversed_ranges(&l);
  captures_without_memory(&l);
  finish(&l);
  puts("ok");
  return 0;
}
