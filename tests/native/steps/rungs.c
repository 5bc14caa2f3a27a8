/* Every rung of a step, the topologies that it keeps, and the budget of its executable graphs. */
#include "lane.h"

enum { RUNGS_OF_TESTS = 5, CHANGED = -1 };

/* Whether a rung is the one that is wanted; CHANGED stands for patch or update, of which time measured decides. */
static int is_rung(uint32_t rung, uint32_t wanted) {
  return rung == wanted || (wanted == (uint32_t)CHANGED && (rung == HIPRT_PATCH || rung == HIPRT_UPDATE));
}

static void climb(const lane *l) {
  const uint32_t always = 1u << HIPRT_REPLAY | 1u << HIPRT_INSTANTIATE | 1u << HIPRT_EAGER;
  const struct {
    uint32_t rungs, second;
    const char *reason;
  } cases[RUNGS_OF_TESTS] = {
      {always | 1u << HIPRT_PATCH, HIPRT_PATCH, "arguments of 1 of 4 nodes changed"},
      {always | 1u << HIPRT_UPDATE, HIPRT_UPDATE, "arguments of 1 of 4 nodes changed"},
      {always, HIPRT_INSTANTIATE, "allows no such change"},
      {always & ~(1u << HIPRT_INSTANTIATE), HIPRT_EAGER, "the rules allow no graph"},
      {HIPRT_RUNGS, (uint32_t)CHANGED, "arguments of 1 of 4 nodes changed"},
  };
  for (int i = 0; i < RUNGS_OF_TESTS; i++) {
    hiprt_step *step = make_step(cases[i].rungs, 0);
    const int is_eager = cases[i].second == HIPRT_EAGER;
    hiprt_outcome outcome = step_by(step, l, 3);
    CHECK(outcome.rung == (is_eager ? HIPRT_EAGER : HIPRT_INSTANTIATE));
    expect(l, 3);
    CHECK(step_by(step, l, 3).rung == (is_eager ? HIPRT_EAGER : HIPRT_REPLAY));
    outcome = step_by(step, l, 4);
    CHECK(is_rung(outcome.rung, cases[i].second) && strstr(outcome.reason, cases[i].reason));
    CHECK(is_eager || (outcome.changed == 1 && outcome.first == 0 && !strcmp(outcome.node, "scale")));
    expect(l, 4);
    CHECK(!hipMemset(l->z, 0, sizeof(int)) && !hipDeviceSynchronize());
    CHECK(!hiprt_step_again(step, l->stream, &outcome, 0) && outcome.rung == (is_eager ? HIPRT_EAGER : HIPRT_REPLAY));
    expect(l, 4);
    hiprt_step_release(step);
  }
}

/* A graph with another edge, block or number of nodes is another topology; of more than two the oldest goes. */
static void topologies(const lane *l) {
  hiprt_rules rules;
  hiprt_step_stats stats;
  hiprt_outcome outcome;
  hiprt_rules_default(&rules);
  rules.keys = 2;
  hiprt_step *step = hiprt_step_create("topologies", &rules);
  for (int round = 0; round < 2; round++)
    for (int nodes = 1; nodes <= 3; nodes++) {
      CHECK(!hiprt_step_begin(step, l->stream));
      for (int i = 0; i < nodes; i++) launch(l, scale, i % 2 ? l->y : l->x, i % 2 ? l->z : l->y, 2);
      CHECK(!hiprt_step_end(step, &outcome, 0) && outcome.rung == HIPRT_INSTANTIATE && !outcome.changed);
    }
  hiprt_step_count(step, &stats);
  CHECK(stats.topologies == 6 && stats.execs == 2 && stats.rungs[HIPRT_INSTANTIATE] == 6);
  hiprt_step_release(step);
}

/* G7: no executable graph takes more changes than its budget, and one made ahead takes its place. */
static void budgets(const lane *l) {
  hiprt_step_stats stats;
  hiprt_step *step = make_step(HIPRT_RUNGS & ~(1u << HIPRT_UPDATE), 10);
  for (int by = 1; by <= 50; by++) {
    step_by(step, l, by);
    expect(l, by);
  }
  hiprt_step_count(step, &stats);
  CHECK(stats.replaced == 4 && stats.rungs[HIPRT_INSTANTIATE] == 1 && stats.rungs[HIPRT_PATCH] == 49);
  CHECK(stats.patched == 49 && stats.execs == 1);
  hiprt_step_release(step);
}

int main(void) {
  lane l;
  start(&l);
  climb(&l);
  topologies(&l);
  budgets(&l);
  finish(&l);
  puts("ok");
  return 0;
}
