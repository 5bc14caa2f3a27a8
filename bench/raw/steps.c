/* What a step costs an engine in C: a chain of kernel nodes is recorded, replayed and patched through libhiprt, on the null
 * provider, whose calls return at once, so that the time is hiprt's own.
 *
 * steps LIBRARY NODES CHANGED prints one JSON object with microseconds, each the median of ROUNDS. LIBRARY is the null
 * provider's file: its streams and functions are any numbers. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "hiprt/hiprt.h"

enum { ROUNDS = 301, WIDTH = 32, BYTES = WIDTH * sizeof(int) };
enum { RECORD, RECORD_CHANGED, PATCH, REPLAY, MOVE, PARTS, MOST_CHANGED = 4096 };

static const char *const names[PARTS] = {"record", "record_changed", "patch", "replay", "move"};
static double taken[PARTS][ROUNDS];

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec * 1e6 + (double)at.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b) {
  const double difference = *(const double *)a - *(const double *)b;
  return (difference > 0) - (difference < 0);
}

static void check(int status, const char *what) {
  if (!status) return;
  fprintf(stderr, "%s: %s, %s\n", what, hiprt_status_name(status), hiprt_failure_detail());
  exit(1);
}

static hiprt_stream *stream;
static hiprt_kernel *kernel;

static hiprt_move moves[MOST_CHANGED];

/* Record the chain, in which each of the first `changed` of equal parts begins with a node that reads at `offset`, and
 * with `is_apart` where the moves end that were made last. */
static void issue(int nodes, int changed, uint64_t offset, int is_apart) {
  static const hiprt_dims dims = {.grid = {1, 1, 1}, .block = {WIDTH, 1, 1}};
  static const uint64_t extents[] = {BYTES, BYTES};
  int next = 0;
  for (int i = 0; i < nodes; i++) {
    const int is_changed = next < changed && i == (long)next * nodes / changed;
    const uint64_t same = (1ull << 41) + (is_changed ? offset : 0), y = (1ull << 42);
    const uint64_t x = is_changed && is_apart ? moves[next].to : same;
    const int by = 1, n = WIDTH;
    next += is_changed;
    void *const cells[] = {(void *)&x, (void *)&y, (void *)&by, (void *)&n};
    check(hiprt_launch_kernel(stream, kernel, &dims, cells, extents), "hiprt_launch_kernel");
  }
}

static hiprt_outcome step_once(hiprt_step *step, int nodes, int changed, uint64_t offset, int is_apart) {
  hiprt_outcome outcome;
  check(hiprt_step_begin(step, stream), "hiprt_step_begin");
  issue(nodes, changed, offset, is_apart);
  check(hiprt_step_end(step, &outcome, 0), "hiprt_step_end");
  return outcome;
}

/* Let what is read apart be elsewhere next. */
static void move_on(int changed, int round) {
  for (int i = 0; i < changed; i++) {
    moves[i].start = moves[i].to;
    moves[i].end = moves[i].start + BYTES;
    moves[i].to = (1ull << 43) + ((uint64_t)i << 20) + 4096ull * (uint64_t)(round % 2);
  }
}

int main(int argc, char **argv) {
  if (argc != 4 || atoi(argv[3]) > MOST_CHANGED) return 2;
  const int nodes = atoi(argv[2]), changed = atoi(argv[3]);
  const hiprt_argument arguments[] = {
      {8, 8, HIPRT_READ}, {8, 8, HIPRT_READ_WRITE}, {4, 4, HIPRT_BY_VALUE}, {4, 4, HIPRT_BY_VALUE}};
  check(hiprt_open(argv[1], HIPRT_ABI), "hiprt_open");
  check(hiprt_stream_create(0x100, 0, &stream), "hiprt_stream_create");
  hiprt_stream_own(stream);
  check(hiprt_kernel_create(0x200, "link", 4, arguments, &kernel), "hiprt_kernel_create");
  hiprt_rules rules;
  hiprt_rules_default(&rules);
  rules.rungs &= ~(1u << HIPRT_UPDATE);
  rules.budget_nodes = rules.budget_bytes = 1ull << 60;
  hiprt_step *step = hiprt_step_create("bench", &rules), *moved = hiprt_step_create("moved", &rules);
  move_on(changed, 0);
  step_once(moved, nodes, changed, 0, 1);
  for (int round = -5; round < ROUNDS; round++) {
    double at[4];
    at[0] = now();
    step_once(step, nodes, changed, 0, 0);
    at[1] = now();
    check(hiprt_step_again(step, stream, 0, 0), "hiprt_step_again");
    at[2] = now();
    /* Arguments that have not come before are patched into a second executable graph; the first keeps its own. */
    const hiprt_outcome outcome = step_once(step, nodes, changed, 4096ull * (uint64_t)(round + 6), 0);
    at[3] = now();
    if (round < 0) continue;
    taken[RECORD][round] = at[1] - at[0];
    taken[REPLAY][round] = at[2] - at[1];
    taken[RECORD_CHANGED][round] = at[3] - at[2];
    taken[PATCH][round] = outcome.seconds * 1e6;
  }
  /* One behind the other, as an engine moves that records nothing. */
  for (int round = -5; round < ROUNDS; round++) {
    move_on(changed, round + 6);
    const double start = now();
    check(hiprt_step_move(moved, stream, (uint32_t)changed, moves, 0, 0), "hiprt_step_move");
    if (round >= 0) taken[MOVE][round] = now() - start;
  }
  for (int i = 0; i < PARTS; i++) {
    qsort(taken[i], ROUNDS, sizeof **taken, ascending);
    printf("%s\"%s_us\": %.3f", i ? ", " : "{", names[i], taken[i][ROUNDS / 2]);
  }
  puts("}");
  hiprt_step_release(step);
  hiprt_step_release(moved);
}
