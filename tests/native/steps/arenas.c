/* Intermediates of a step: in an arena, and in memory that an engine plans itself. */
#include "lane.h"

/* By two launches or, on a third branch, three: y = x * by * 2 in the arena, of which the address is returned. */
static int *issue_in(hiprt_arena *arena, const lane *l, int by, int branches) {
  uint64_t asked[4];
  int *at[4];
  for (int i = 0; i <= branches; i++) {
    CHECK(!hiprt_arena_request(arena, SIZE * sizeof(int), i == branches, asked + i));
    at[i] = (int *)(uintptr_t)asked[i];
  }
  for (int i = 0; i < branches; i++) launch(l, scale, i == 1 && branches == 2 ? at[0] : l->x, at[i], i ? 2 : by);
  launch(l, scale, at[branches == 2], at[branches], 2);
  for (int i = 1; i < branches && branches > 2; i++) launch(l, add, at[i], at[branches], 0);
  return at[branches];
}

static void expect_at(const hiprt_arena *arena, const lane *l, const int *asked, int by) {
  uint64_t address;
  int y[SIZE];
  CHECK(!hiprt_arena_find(arena, (uintptr_t)asked, &address) && !hiprt_stream_synchronize(l->stream));
  CHECK(!hipMemcpy(y, (void *)(uintptr_t)address, sizeof y, hipMemcpyDeviceToHost));
  for (int i = 0; i < SIZE; i++) CHECK(y[i] == i * by);
}

/* The intermediates of a step share a block, at the same addresses each time; a step that needs more moves to another. */
static void arenas(const lane *l) {
  hiprt_pool *pool;
  hiprt_arena *arena;
  hiprt_outcome outcome;
  hiprt_plan plan;
  uint64_t address;
  hiprt_step *step = make_step(HIPRT_RUNGS & ~(1u << HIPRT_UPDATE), 0), *other = make_step(HIPRT_RUNGS, 0);
  CHECK(!hiprt_pool_create(0, 0, &pool) && !hiprt_arena_create(pool, &arena));
  hiprt_pool_release(pool); /* the arena keeps it */
  CHECK(hiprt_step_settle(step, arena) == HIPRT_E_ARGUMENT);
  static const int factors[] = {3, 3, 5};
  static const uint32_t rungs[] = {HIPRT_INSTANTIATE, HIPRT_REPLAY, HIPRT_PATCH};
  for (int round = 0; round < 3; round++) {
    CHECK(!hiprt_step_begin(step, l->stream));
    const int *asked = issue_in(arena, l, factors[round], 2);
    CHECK(!hiprt_step_settle(step, arena) && hiprt_step_settle(step, arena) == HIPRT_E_ARGUMENT);
    CHECK(!hiprt_step_end(step, &outcome, 0) && outcome.nodes == 3 && outcome.rung == rungs[round]);
    expect_at(arena, l, asked, 4 * factors[round]);
    CHECK(hiprt_arena_find(arena, 256, &address) == HIPRT_E_ARGUMENT);
  }
  hiprt_arena_count(arena, &plan);
  CHECK(plan.nbytes == 2048 && plan.lower_bound == 2048 && plan.requested == 3072 && plan.intermediates == 3);
  CHECK(!hiprt_step_again(step, l->stream, &outcome, 0) && outcome.rung == HIPRT_REPLAY);
  /* Three branches that may run together share nothing: the block grows, and what was launched before has lost its own. */
  CHECK(!hiprt_step_begin(step, l->stream));
  issue_in(arena, l, 3, 3);
  CHECK(!hiprt_step_settle(step, arena));
  hiprt_step_cancel(step);
  CHECK(hiprt_step_again(step, l->stream, 0, 0) == HIPRT_E_ARGUMENT);
  CHECK(!hiprt_step_begin(step, l->stream));
  const int *asked = issue_in(arena, l, 3, 3);
  CHECK(!hiprt_step_settle(step, arena) && !hiprt_step_end(step, &outcome, 0) && outcome.nodes == 6);
  expect_at(arena, l, asked, 10);
  hiprt_arena_count(arena, &plan);
  CHECK(plan.nbytes == plan.lower_bound && plan.nbytes >= 3072 && plan.requested == 4096);
  /* It is one step's. */
  CHECK(!hiprt_step_begin(other, l->stream));
  issue_in(arena, l, 3, 2);
  CHECK(hiprt_step_settle(other, arena) == HIPRT_E_ARGUMENT);
  hiprt_step_cancel(other);
  CHECK(hiprt_arena_request(arena, UINT64_MAX, 0, &address) == HIPRT_E_LIMIT);
  hiprt_arena_release(arena);
  /* Addresses run out behind a request that takes nearly all of them, and what has them is planned for no memory. */
  CHECK(!hiprt_pool_create(0, 0, &pool) && !hiprt_arena_create(pool, &arena));
  hiprt_pool_release(pool);
  CHECK(!hiprt_step_begin(step, l->stream));
  CHECK(!hiprt_arena_request(arena, (1ull << 63) - (1ull << 58) - 512, 0, &address));
  const uint64_t first = address;
  for (int i = 0; i < 3; i++) CHECK(hiprt_arena_request(arena, 1ull << 62, 0, &address) == HIPRT_E_LIMIT);
  launch(l, scale, l->x, (int *)(uintptr_t)first, 2);
  CHECK(hiprt_step_settle(step, arena) != 0);
  hiprt_step_cancel(step);
  hiprt_step_release(step);
  hiprt_step_release(other);
  hiprt_arena_release(arena);
}

/* Memory of the engine's own is planned by its addresses. */
static void plans(const lane *l) {
  const uint64_t y = (uintptr_t)l->y, z = (uintptr_t)l->z, low = y < z ? y : z, high = y < z ? z : y, size = SIZE * sizeof(int);
  const hiprt_intermediate all[] = {{low, low + size, 0, 0}, {high, high + size, 1, 0}}, wrong[] = {all[1], all[0]};
  uint64_t offsets[2];
  hiprt_plan plan;
  hiprt_step *step = make_step(HIPRT_RUNGS, 0);
  CHECK(hiprt_step_plan(step, 2, all, offsets, &plan) == HIPRT_E_ARGUMENT);
  CHECK(!hiprt_step_begin(step, l->stream));
  CHECK(!hiprt_step_plan(step, 1, all + 1, offsets, &plan) && plan.nbytes == size && plan.intermediates == 1);
  issue(l, 3);
  CHECK(hiprt_step_plan(step, 2, wrong, offsets, &plan) == HIPRT_E_ARGUMENT);
  CHECK(!hiprt_step_plan(step, 2, all, offsets, &plan) && plan.nbytes == 2 * size && plan.requested == 2 * size);
  CHECK(offsets[0] + offsets[1] == size);
  /* Each of these fits a plan, and all of them together do not. */
  hiprt_intermediate vast[5];
  uint64_t five[5];
  for (uint64_t i = 0; i < 5; i++) vast[i] = (hiprt_intermediate){i << 61, (i + 1) << 61, 1, 0};
  CHECK(hiprt_step_plan(step, 5, vast, five, &plan) == HIPRT_E_ARGUMENT && !plan.nbytes);
  CHECK(strstr(hiprt_failure_detail(), "more bytes than"));
  hiprt_step_cancel(step);
  hiprt_step_release(step);
}

int main(void) {
  lane l;
  start(&l);
  arenas(&l);
  plans(&l);
  finish(&l);
  puts("ok");
  return 0;
}
