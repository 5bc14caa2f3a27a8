/* What a step says of its last launch. */
#include "lane.h"

static void explains(const hiprt_step *step, const char *wanted) {
  char text[512];
  uint64_t size;
  CHECK(!hiprt_step_explain((hiprt_step *)step, text, sizeof text, &size) && size == strlen(text) + 1);
  if (strcmp(text, wanted)) fprintf(stderr, "%s\n", text);
  CHECK(!strcmp(text, wanted));
  char few[8];
  CHECK(!hiprt_step_explain((hiprt_step *)step, few, sizeof few, &size) && size == strlen(wanted) + 1);
  CHECK(strlen(few) < sizeof few && !strncmp(few, wanted, strlen(few)));
  CHECK(!hiprt_step_explain((hiprt_step *)step, 0, 0, 0));
}

/* Why a launch was no replay, with the first difference: of arguments, of a fill, of dimensions, of the number of nodes. */
static void explanations(const lane *l) {
  hiprt_step *step = make_step(HIPRT_RUNGS & ~(1u << HIPRT_UPDATE), 0);
  char text[64];
  CHECK(hiprt_step_explain(step, text, sizeof text, 0) == HIPRT_E_ARGUMENT);
  CHECK(hiprt_step_dump(step, text, sizeof text, 0) == HIPRT_E_ARGUMENT);
  step_by(step, l, 3);
  explains(step, "instantiate: first of this topology");
  step_by(step, l, 3);
  explains(step, "replay");
  step_by(step, l, 300);
  explains(step, "patch: arguments of 1 of 4 nodes changed; node 0 (scale) argument 2: 0x3 -> 0x12c");
  const uint64_t z = (uintptr_t)l->z;
  for (uint32_t round = 0; round < 2; round++) {
    CHECK(!hiprt_step_begin(step, l->stream) && !hiprt_fill(l->stream, z, round, 4, 9));
    if (round) CHECK(!hiprt_copy(l->stream, z, (uintptr_t)l->y, 4, hipMemcpyDeviceToDevice));
    CHECK(!hiprt_step_end(step, 0, 0));
    explains(step, round ? "instantiate: first of this topology; node 1: copy is launched besides"
                         : "instantiate: first of this topology; node 0: scale, 1x1x1 blocks of 256x1x1 threads, 0 bytes "
                           "shared -> fill");
  }
  char wanted[256];
  CHECK(!hiprt_step_begin(step, l->stream) && !hiprt_fill(l->stream, z, 7, 4, 9));
  CHECK(!hiprt_copy(l->stream, z, (uintptr_t)l->y, 4, hipMemcpyDeviceToDevice) && !hiprt_step_end(step, 0, 0));
  snprintf(wanted, sizeof wanted, "patch: arguments of 1 of 2 nodes changed; node 0 (fill): 9 elements of 4 bytes at 0x%llx, "
           "value 0x1 -> 9 of 4 at 0x%llx, value 0x7", (unsigned long long)z, (unsigned long long)z);
  explains(step, wanted);
  hiprt_step_release(step);
}

int main(void) {
  lane l;
  start(&l);
  explanations(&l);
  finish(&l);
  puts("ok");
  return 0;
}
