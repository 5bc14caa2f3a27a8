/* Moves of the memory that a step uses. */
#include <stddef.h>

#include "lane.h"

/* Three buffers and a chain over them: y = x * 3, z = 0, z += y. */
static hiprt_outcome chain(hiprt_step *step, const lane *l, const int *x, int *y, int *z) {
  hiprt_outcome outcome;
  CHECK(!hiprt_step_begin(step, l->stream));
  launch(l, scale, x, y, 3);
  CHECK(!hiprt_fill(l->stream, (uintptr_t)z, 0, 4, SIZE));
  launch(l, add, y, z, 0);
  CHECK(!hiprt_step_end(step, &outcome, 0));
  return outcome;
}

/* Whether z = x * 3, where x counts from `first`. */
static void expect_chain(const lane *l, const int *z, int first) {
  int found[SIZE];
  CHECK(!hiprt_stream_synchronize(l->stream) && !hipMemcpy(found, z, sizeof found, hipMemcpyDeviceToHost));
  for (int i = 0; i < SIZE; i++) CHECK(found[i] == (first + i) * 3);
}

static hiprt_move moved(const void *from, const void *to) {
  return (hiprt_move){(uintptr_t)from, (uintptr_t)from + sizeof(int[SIZE]), (uintptr_t)to};
}

/* Buffers at other addresses: patched, or by another rung, and refused where edges could change. */
static void moves(const lane *l) {
  static int host[2 * SIZE];
  int *pool, *x[2], *y[2], *z[2];
  for (int i = 0; i < 2 * SIZE; i++) host[i] = i;
  CHECK(!hipMalloc((void **)&pool, 6 * sizeof(int[SIZE])));
  for (int i = 0; i < 2; i++) {
    x[i] = pool + i * SIZE;
    y[i] = pool + (2 + i) * SIZE;
    z[i] = pool + (4 + i) * SIZE;
  }
  CHECK(!hipMemcpy(pool, host, sizeof host, hipMemcpyHostToDevice));
  const uint32_t no_update = HIPRT_RUNGS & ~(1u << HIPRT_UPDATE);
  const struct {
    uint32_t rungs, budget, rung;
  } cases[] = {{no_update, 0, HIPRT_PATCH},
               {no_update, 12, HIPRT_PATCH}, /* successors take over */
               {no_update & ~(1u << HIPRT_PATCH), 0, HIPRT_INSTANTIATE},
               {1u << HIPRT_EAGER, 0, HIPRT_EAGER}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    hiprt_outcome outcome;
    hiprt_step_stats stats;
    hiprt_step *step = make_step(cases[k].rungs, cases[k].budget);
    CHECK(hiprt_step_move(step, l->stream, 0, 0, 0, 0) == HIPRT_E_ARGUMENT);
    chain(step, l, x[0], y[0], z[0]);
    expect_chain(l, z[0], 0);
    for (int i = 1; i <= 20; i++) {
      const int from = (i - 1) % 2, to = i % 2;
      /* What is ascending turns round where the buffers go back. */
      const hiprt_move all[] = {moved(x[from], x[to]), moved(y[from], y[to]), moved(z[from], z[to])};
      CHECK(!hipMemset(z[to], 1, sizeof(int)));
      CHECK(!hiprt_step_move(step, l->stream, 3, all, &outcome, 0) && outcome.nodes == 3);
      CHECK(outcome.rung == cases[k].rung || outcome.rung == HIPRT_REPLAY);
      CHECK(outcome.rung != HIPRT_PATCH || (outcome.changed == 3 && outcome.first == 0 && !strcmp(outcome.node, "scale")));
      expect_chain(l, z[to], to * SIZE);
    }
    /* One alone, a part that was moved before, nothing that the step uses, and what is moved launched again. */
    const hiprt_move one = moved(z[0], z[1]), both = {(uintptr_t)x[0], (uintptr_t)(y[0] + SIZE), (uintptr_t)x[0]};
    CHECK(!hiprt_step_move(step, l->stream, 1, &one, 0, 0));
    expect_chain(l, z[1], 0);
    CHECK(!hiprt_step_move(step, l->stream, 1, &both, 0, 0));
    CHECK(!hiprt_step_move(step, l->stream, 1, &(hiprt_move){16, 32, 64}, 0, 0));
    CHECK(!hipMemset(z[1], 1, sizeof(int)) && !hiprt_step_again(step, l->stream, 0, 0));
    expect_chain(l, z[1], 0);
    /* Over another buffer, over a part of one, two to one place, unsorted: nothing changes. */
    const hiprt_move wrong[][2] = {{moved(x[0], y[0]), moved(z[1], z[0])},
                                   {moved(x[0], y[0] - 1), moved(z[1], z[0])},
                                   {moved(x[0], x[1]), moved(y[0], x[1])},
                                   {moved(y[0], y[1]), moved(x[0], x[1])}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
      CHECK(hiprt_step_move(step, l->stream, 2, wrong[i], 0, 0) == HIPRT_E_ARGUMENT);
    CHECK(!hipMemset(z[1], 1, sizeof(int)) && !hiprt_step_again(step, l->stream, 0, 0));
    expect_chain(l, z[1], 0);
    /* What is recorded again is found in the graph that was patched. */
    outcome = chain(step, l, x[0], y[0], z[1]);
    expect_chain(l, z[1], 0);
    CHECK(outcome.rung == HIPRT_REPLAY || outcome.rung == HIPRT_EAGER);
    CHECK(!hiprt_step_move(step, l->stream, 1, &(hiprt_move){(uintptr_t)x[0], (uintptr_t)x[1], (uintptr_t)x[1]}, 0, 0));
    expect_chain(l, z[1], SIZE);
    hiprt_step_count(step, &stats);
    CHECK((stats.replaced > 2) == (cases[k].budget == 12));
    hiprt_step_release(step);
  }
  /* Where there was room for a buffer, another may lie next to it that has never moved. */
  hiprt_step *step = make_step(no_update, 0);
  chain(step, l, x[0], y[0], z[0]);
  const hiprt_move away = moved(x[0], x[1]), over = moved(x[1], y[0]);
  CHECK(!hiprt_step_move(step, l->stream, 1, &away, 0, 0));
  CHECK(hiprt_step_move(step, l->stream, 1, &over, 0, 0) == HIPRT_E_ARGUMENT);
  hiprt_step_release(step);
  step = make_step(no_update, 0);
  CHECK(!hiprt_step_adopt(step, l->stream, (uintptr_t)captured(l, 2, 0), 1, 0, 0));
  const hiprt_move one = moved(l->x, pool);
  CHECK(hiprt_step_move(step, l->stream, 1, &one, 0, 0) == HIPRT_E_ARGUMENT);
  expect(l, 2);
  hiprt_step_release(step);
  CHECK(!hipFree(pool));
}

/* Where memory lies is known also once other memory has taken its place. */
static void moves_over_moves(const lane *l) {
  enum { PLACES = 6 };
  static int host[2 * SIZE];
  int *at[PLACES];
  CHECK(!hipMalloc((void **)at, PLACES * sizeof(int[SIZE])));
  for (int i = 1; i < PLACES; i++) at[i] = at[0] + i * SIZE;
  for (int i = 0; i < 2 * SIZE; i++) host[i] = i;
  CHECK(!hipMemcpy(at[0], host, sizeof host, hipMemcpyHostToDevice));
  hiprt_step *step = make_step(HIPRT_RUNGS & ~(1u << HIPRT_UPDATE), 0);
  chain(step, l, at[0], at[2], at[4]);
  /* One that the step does not use goes to a place, one that it uses takes that place, and goes on. */
  const hiprt_move both[] = {moved(at[1], at[3]), moved(at[4], at[5])}, each[] = {moved(at[0], at[3]), moved(at[3], at[1])};
  CHECK(!hiprt_step_move(step, l->stream, 2, both, 0, 0));
  for (int i = 0; i < 2; i++) CHECK(!hiprt_step_move(step, l->stream, 1, each + i, 0, 0));
  expect_chain(l, at[5], SIZE);
  /* Over a buffer would come an array that the step does not use, and the part of one that it does not use. */
  const hiprt_move wrong[] = {moved(at[4], at[5]), {(uintptr_t)at[2], (uintptr_t)at[4], (uintptr_t)at[0]}};
  for (int i = 0; i < 2; i++) CHECK(hiprt_step_move(step, l->stream, 1, wrong + i, 0, 0) == HIPRT_E_ARGUMENT);
  hiprt_step_release(step);
  CHECK(!hipFree(at[0]));
}

/* No memory ends past the last address, whether the step uses it or a buffer reaches behind its end, and none is empty. */
static void impossible_moves(const lane *l) {
  const uint64_t x = (uintptr_t)l->x, size = SIZE * sizeof(int), last = UINT64_MAX;
  const hiprt_move past[] = {{16, 32, last - 15}, {x, x + size, last - size + 1}, {x, x + size, last}, {x, x + 4, last - 4}},
                   empty[] = {{16, 16, 64}, {32, 16, 64}, {x, x, x}};
  hiprt_step *step = make_step(HIPRT_RUNGS, 0);
  step_by(step, l, 3);
  for (size_t i = 0; i < sizeof past / sizeof *past; i++) {
    CHECK(hiprt_step_move(step, l->stream, 1, past + i, 0, 0) == HIPRT_E_ARGUMENT);
    CHECK(strstr(hiprt_failure_detail(), "past the last address"));
  }
  for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
    CHECK(hiprt_step_move(step, l->stream, 1, empty + i, 0, 0) == HIPRT_E_ARGUMENT);
    CHECK(strstr(hiprt_failure_detail(), "has no bytes"));
  }
  CHECK(!hiprt_step_move(step, l->stream, 1, &(hiprt_move){16, 32, last - 16}, 0, 0));
  expect(l, 3);
  hiprt_step_release(step);
}

/* What the kernel `put` takes by value. */
typedef struct {
  int by;
  const int *x;
  int plus;
} line;

static hiprt_kernel *declare_put(int holds) {
  hiprt_kernel *put = declare("put", 2, (hiprt_argument[]){{sizeof(line), 8, HIPRT_BY_VALUE}, {8, 8, HIPRT_WRITE}});
  for (int i = 0; i < holds; i++) CHECK(!hiprt_kernel_hold_address(put, 0, offsetof(line, x)));
  return put;
}

/* Whether y[i] = by * (first + i) + plus. */
static void expect_line(const lane *l, const int *y, int by, int first, int plus) {
  int found[SIZE];
  CHECK(!hiprt_stream_synchronize(l->stream) && !hipMemcpy(found, y, sizeof found, hipMemcpyDeviceToHost));
  for (int i = 0; i < SIZE; i++) CHECK(found[i] == by * (first + i) + plus);
}

/* An address in a structure follows its memory where it is told of, once or twice, and stays where it is not. */
static void moves_of_addresses_in_values(const lane *l) {
  static int host[2 * SIZE + 1];
  int *x;
  for (int i = 0; i <= 2 * SIZE; i++) host[i] = i;
  CHECK(!hipMalloc((void **)&x, sizeof host) && !hipMemcpy(x, host, sizeof host, hipMemcpyHostToDevice));
  const uint32_t sets[] = {HIPRT_RUNGS & ~(1u << HIPRT_UPDATE), 1u << HIPRT_REPLAY | 1u << HIPRT_INSTANTIATE, 1u << HIPRT_EAGER};
  for (int k = 0; k < 9; k++) {
    const int holds = k % 3; /* how often it is told of */
    const line from = {2, x + 1, 5};
    hiprt_kernel *put = declare_put(holds);
    hiprt_step *step = make_step(sets[k / 3], 0);
    hiprt_outcome outcome;
    CHECK(!hiprt_step_begin(step, l->stream));
    CHECK(!hiprt_launch_kernel(l->stream, put, &dims, (void *[]){(void *)&from, (void *)&l->y}, extents));
    CHECK(!hiprt_step_end(step, 0, 0));
    expect_line(l, l->y, 2, 1, 5);
    /* The halves change places: what is changed twice comes back. */
    const hiprt_move turn[] = {moved(x, x + SIZE), moved(x + SIZE, x)};
    for (int i = 1; i <= 2; i++) {
      CHECK(!hiprt_step_move(step, l->stream, 2, turn, &outcome, 0));
      CHECK(outcome.rung != HIPRT_PATCH || outcome.changed == 1);
      expect_line(l, l->y, 2, holds && i == 1 ? 1 + SIZE : 1, 5);
    }
    hiprt_step_release(step);
    hiprt_kernel_release(put);
  }
  CHECK(!hipFree(x));
}

/* Memory that the step does not use, other memory each time, is forgotten: to look through all of it would take ten minutes. */
static void moves_of_nothing(const lane *l) {
  enum { MOVES = 100, CALLS = 10000 };
  hiprt_move unused[MOVES];
  uint64_t next = 64;
  hiprt_step *step = make_step(HIPRT_RUNGS, 0);
  step_by(step, l, 3);
  for (int i = 0; i < CALLS; i++) {
    for (int k = 0; k < MOVES; k++, next += 64) unused[k] = (hiprt_move){next, next + 64, next};
    CHECK(!hiprt_step_move(step, l->stream, MOVES, unused, 0, 0));
  }
  expect(l, 3);
  hiprt_step_release(step);
}

int main(void) {
  lane l;
  start(&l);
  moves(&l);
  moves_over_moves(&l);
  impossible_moves(&l);
  moves_of_addresses_in_values(&l);
  moves_of_nothing(&l);
  finish(&l);
  puts("ok");
  return 0;
}
