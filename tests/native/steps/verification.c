/* Comparisons of a graph with what its nodes do eagerly. With the argument "lost", patches are lost, and one notices. */
#include "lane.h"

/* A graph that is right, steps that cannot be compared, and with is_lost a graph whose patch was lost. */
static void verifies(const lane *l, int is_lost) {
  hiprt_mismatch found;
  int ran = 1;
  hiprt_step *step = make_step(HIPRT_RUNGS & ~(1u << HIPRT_UPDATE), 0), *eager = make_step(1u << HIPRT_EAGER, 0);
  CHECK(hiprt_step_verify(step, l->stream, &found, &ran) == HIPRT_E_ARGUMENT && !ran);
  step_by(step, l, 2);
  CHECK(step_by(step, l, 5).rung == HIPRT_PATCH);
  CHECK(!hiprt_step_verify(step, l->stream, &found, &ran) && ran && found.differs == (uint32_t)is_lost);
  expect(l, 5);
  if (is_lost) CHECK(found.node == 0 && !strcmp(found.name, "scale") && found.address == (uintptr_t)(l->y + 1));
  CHECK(step_by(step, l, 5).rung == (is_lost ? HIPRT_INSTANTIATE : HIPRT_REPLAY));
  CHECK(!hiprt_step_verify(step, l->stream, &found, 0) && !found.differs);
  CHECK(!hiprt_step_begin(step, l->stream));
  CHECK(hiprt_step_verify(step, l->stream, 0, 0) == HIPRT_E_RECORDING);
  hiprt_step_cancel(step);
  step_by(eager, l, 2);
  CHECK(hiprt_step_verify(eager, l->stream, &found, &ran) == HIPRT_E_ARGUMENT && !ran);
  const hipGraph_t graph = captured(l, 3, 0);
  CHECK(!hiprt_step_adopt(step, l->stream, (uintptr_t)graph, 1, 0, 0));
  CHECK(hiprt_step_verify(step, l->stream, &found, &ran) == HIPRT_E_ARGUMENT && !ran);
  hiprt_step_release(step);
  hiprt_step_release(eager);
}

#pragma weak hipMemAddressReserve /* HIP over NVIDIA's driver has none; there hipMalloc's memory touches */

/* Two allocations that touch, and a step that writes to the end of one and the beginning of the other. */
static void verifies_touching(const lane *l) {
  if (!hipMemAddressReserve) return;
  hipMemAllocationProp kind = {.type = hipMemAllocationTypePinned, .location = {.type = hipMemLocationTypeDevice}};
  hipMemAccessDesc access = {.location = kind.location, .flags = hipMemAccessFlagsProtReadWrite};
  hipMemGenericAllocationHandle_t pieces[2];
  size_t each;
  char *start;
  CHECK(!hipMemGetAllocationGranularity(&each, &kind, hipMemAllocationGranularityMinimum));
  CHECK(!hipMemAddressReserve((void **)&start, 2 * each, 0, 0, 0));
  for (int i = 0; i < 2; i++)
    CHECK(!hipMemCreate(pieces + i, each, &kind, 0) && !hipMemMap(start + i * each, each, 0, pieces[i], 0));
  CHECK(!hipMemSetAccess(start, 2 * each, &access, 1));
  hiprt_mismatch found;
  hiprt_step *step = make_step(HIPRT_RUNGS, 0);
  CHECK(!hiprt_step_begin(step, l->stream));
  for (int i = 0; i < 2; i++) CHECK(!hiprt_fill(l->stream, (uintptr_t)start + each - 64 + i * 64, i, 4, 16));
  CHECK(!hiprt_step_end(step, 0, 0) && !hiprt_step_verify(step, l->stream, &found, 0) && !found.differs);
  hiprt_step_release(step);
  for (int i = 0; i < 2; i++) CHECK(!hipMemUnmap(start + i * each, each) && !hipMemRelease(pieces[i]));
  CHECK(!hipMemAddressFree(start, 2 * each));
}

int main(int argc, char **argv) {
  lane l;
  start(&l);
  const int is_lost = argc > 1 && !strcmp(argv[1], "lost");
  verifies(&l, is_lost);
  if (!is_lost) verifies_touching(&l);
  finish(&l);
  puts("ok");
  return 0;
}
