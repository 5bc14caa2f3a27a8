/* Graphs of other code that a step adopts. */
#include "lane.h"

/* Graphs that other code captured: the first is instantiated, the next are patched; one that cannot be is refused. */
static void adopts(const lane *l) {
  hiprt_outcome outcome;
  hiprt_step *step = make_step(HIPRT_RUNGS & ~(1u << HIPRT_UPDATE), 0);
  for (int round = 0; round < 6; round++) {
    const int by = round / 2 + 1, is_given = round % 2;
    hipGraph_t graph = captured(l, by, 0);
    CHECK(!hiprt_step_adopt(step, l->stream, (uintptr_t)graph, is_given, &outcome, 0) && outcome.nodes == 5);
    CHECK(outcome.rung == (is_given ? HIPRT_REPLAY : round ? HIPRT_PATCH : HIPRT_INSTANTIATE));
    CHECK(outcome.rung != HIPRT_PATCH || (outcome.changed == 1 && !strcmp(outcome.node, "scale")));
    expect(l, by);
    CHECK(is_given || !hipGraphDestroy(graph));
    CHECK(!hipMemset(l->z, 0, sizeof(int)) && !hipDeviceSynchronize() && !hiprt_step_again(step, l->stream, 0, 0));
    expect(l, by);
  }
  hipGraph_t graph = captured(l, 9, 1);
  CHECK(hiprt_step_adopt(step, l->stream, (uintptr_t)graph, 0, &outcome, 0) == HIPRT_E_FOREIGN && !outcome.nodes);
  CHECK(hiprt_step_adopt(step, l->stream, (uintptr_t)graph, 1, &outcome, 0) == HIPRT_E_FOREIGN);
  CHECK(!hiprt_step_begin(step, l->stream));
  CHECK(hiprt_step_adopt(step, l->stream, 0, 0, 0, 0) == HIPRT_E_RECORDING);
  hiprt_step_cancel(step);
  graph = captured(l, 1, 0);
  CHECK(!hiprt_step_begin(step, l->stream));
  CHECK(hiprt_step_adopt(step, l->stream, (uintptr_t)graph, 1, 0, 0) == HIPRT_E_RECORDING);
  hiprt_step_cancel(step);
  size_t count = 0;
  CHECK(hipGraphGetNodes(graph, 0, &count)); /* a graph that was given is destroyed */
  hiprt_step_release(step);
}

int main(void) {
  lane l;
  start(&l);
  adopts(&l);
  finish(&l);
  puts("ok");
  return 0;
}
