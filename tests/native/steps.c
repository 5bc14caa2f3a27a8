/* Steps through libhiprt on the CPU device: every rung, every refusal, threads that take turns, other code's work.
 * Prints "ok". With the argument "lost", patches are lost, and a canary and a comparison notice; with "dump" it prints a
 * step as JSON. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hip/hip_runtime_api.h"
#include "hip/hiprtc.h"
#include "hiprt/hiprt.h"

enum { SIZE = 256, RUNGS_OF_TESTS = 5, CHANGED = -1 };

static const char source[] =
    "extern \"C\" __global__ void scale(const int* x, int* y, int by) { y[threadIdx.x] = x[threadIdx.x] * by; }\n"
    "extern \"C\" __global__ void add(const int* x, int* y) { y[threadIdx.x] += x[threadIdx.x]; }\n"
    "extern \"C\" __global__ void canary(unsigned* word, unsigned value) { *word = value; }\n";

#define CHECK(fine)                                                                                                    \
  do {                                                                                                                 \
    if (fine) break;                                                                                                   \
    fprintf(stderr, "line %d: %s (%s: %s)\n", __LINE__, #fine, hiprt_failure_call(), hiprt_failure_detail());          \
    exit(1);                                                                                                           \
  } while (0)

static _Thread_local int requests = -1; /* of memory that moves, which this thread may still make; negative: any number */

/* In the place of the C library's for libhiprt too, so that memory runs out where a test wants it. Uninstrumented, as a
 * thread asks for memory before ThreadSanitizer knows it. */
__attribute__((visibility("default"), no_sanitize_thread)) void *realloc(void *memory, size_t size) {
  static void *(*real)(void *, size_t);
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "realloc");
  if (requests > 0) requests--;
  return requests ? real(memory, size) : 0;
}

static hipModule_t module;
static hiprt_kernel *scale, *add, *canary;
static const hiprt_dims dims = {.grid = {1, 1, 1}, .block = {SIZE, 1, 1}};
static const uint64_t extents[] = {SIZE * sizeof(int), SIZE * sizeof(int)};

static void compile(void) {
  hiprtcProgram program = 0;
  size_t size = 0;
  CHECK(!hiprtcCreateProgram(&program, source, "steps.hip", 0, 0, 0) && !hiprtcCompileProgram(program, 0, 0));
  CHECK(!hiprtcGetCodeSize(program, &size));
  char *code = malloc(size);
  CHECK(!hiprtcGetCode(program, code) && !hipModuleLoadData(&module, code));
  free(code);
  hiprtcDestroyProgram(&program);
}

static hiprt_kernel *declare(const char *name, uint32_t count, const hiprt_argument *arguments) {
  hipFunction_t function = 0;
  CHECK(!hipModuleGetFunction(&function, module, name));
  hiprt_kernel *kernel;
  CHECK(!hiprt_kernel_create((uintptr_t)function, name, count, arguments, &kernel));
  return kernel;
}

typedef struct {
  hipStream_t handle;
  hiprt_stream *stream;
  int *x, *y, *z;
  int host[1];
} lane;

static void open_lane(lane *l) {
  int ones[SIZE];
  for (int i = 0; i < SIZE; i++) ones[i] = i;
  CHECK(!hipStreamCreateWithFlags(&l->handle, hipStreamNonBlocking));
  CHECK(!hiprt_stream_create((uintptr_t)l->handle, 0, &l->stream));
  CHECK(!hipMalloc((void **)&l->x, sizeof ones) && !hipMalloc((void **)&l->y, sizeof ones) &&
        !hipMalloc((void **)&l->z, sizeof ones));
  CHECK(!hipMemcpy(l->x, ones, sizeof ones, hipMemcpyHostToDevice));
}

static void close_lane(lane *l) {
  hiprt_stream_close(l->stream, 1);
  hiprt_stream_release(l->stream);
  CHECK(!hipStreamDestroy(l->handle) && !hipFree(l->x) && !hipFree(l->y) && !hipFree(l->z));
}

static void launch(const lane *l, hiprt_kernel *kernel, const int *x, int *y, int by) {
  CHECK(!hiprt_launch_kernel(l->stream, kernel, &dims, (void *[]){&x, &y, &by}, extents));
}

/* y = x * by; z = y + 1 in each byte; z += y: a kernel, a copy, a fill and another kernel. */
static void issue(const lane *l, int by) {
  launch(l, scale, l->x, l->y, by);
  CHECK(!hiprt_fill(l->stream, (uintptr_t)l->z, 0x01010101, 4, SIZE / 2));
  CHECK(!hiprt_copy(l->stream, (uintptr_t)(l->z + SIZE / 2), (uintptr_t)l->y, SIZE / 2 * sizeof(int), hipMemcpyDeviceToDevice));
  launch(l, add, l->y, l->z, 0);
}

static void expect(const lane *l, int by) {
  int z[SIZE];
  CHECK(!hiprt_stream_synchronize(l->stream));
  CHECK(!hipMemcpy(z, l->z, sizeof z, hipMemcpyDeviceToHost));
  for (int i = 0; i < SIZE; i++) CHECK(z[i] == (i < SIZE / 2 ? 0x01010101 : (i - SIZE / 2) * by) + i * by);
}

static hiprt_outcome step_by(hiprt_step *step, const lane *l, int by) {
  hiprt_outcome outcome;
  int ran = 0;
  CHECK(!hiprt_step_begin(step, l->stream));
  issue(l, by);
  CHECK(!hiprt_step_end(step, &outcome, &ran) && ran == 1 && outcome.nodes == 4);
  return outcome;
}

static hiprt_step *make_step(uint32_t rungs, uint32_t budget) {
  hiprt_rules rules;
  hiprt_rules_default(&rules);
  rules.rungs = rungs;
  rules.slots = 1;
  if (budget) rules.budget_nodes = budget;
  hiprt_step *step = hiprt_step_create("test", &rules);
  CHECK(step);
  return step;
}

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

static hipGraph_t captured(const lane *l, int by, int is_refused) {
  hipGraph_t graph = 0;
  CHECK(!hipStreamBeginCapture(l->handle, hipStreamCaptureModeRelaxed));
  CHECK(!hipMemsetAsync(l->z, 0, SIZE * sizeof(int), l->handle));
  issue(l, by);
  if (is_refused) CHECK(!hipMemcpyAsync(l->x, l->host, sizeof l->host, hipMemcpyHostToDevice, l->handle));
  CHECK(!hipStreamEndCapture(l->handle, &graph));
  return graph;
}

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

/* Threads with a stream each share a step: they take turns, and an exec is on one stream at a time (G6). */
static hiprt_step *shared;
static void *take_turns(void *unused) {
  (void)unused;
  lane l;
  open_lane(&l);
  for (int by = 1; by <= 40; by++) {
    step_by(shared, &l, by % 7);
    if (by % 3 == 0) expect(&l, by % 7);
  }
  expect(&l, 40 % 7);
  close_lane(&l);
  return 0;
}

static void threads(void) {
  pthread_t all[4];
  shared = hiprt_step_create("shared", 0);
  CHECK(shared);
  for (int i = 0; i < 4; i++) CHECK(!pthread_create(all + i, 0, take_turns, 0));
  for (int i = 0; i < 4; i++) CHECK(!pthread_join(all[i], 0));
  hiprt_step_release(shared);
}

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

/* The dump is JSON with every node and edge; a text that is too long is cut. */
static void dumps(const lane *l) {
  hiprt_step *step = hiprt_step_create("a \"name\"", 0);
  uint64_t size, again;
  step_by(step, l, 255);
  CHECK(!hiprt_step_dump(step, 0, 0, &size));
  char *text = malloc(size);
  CHECK(!hiprt_step_dump(step, text, size, &again) && again == size && strlen(text) + 1 == size);
  fputs(text, stdout);
  hiprt_step_release(step);
  free(text);
}

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

/* A word that holds a stream's work back until it is 1; a test that waits for that work meanwhile is ended. */
static volatile uint32_t *hold(const lane *l) {
  void *gate;
  CHECK(!hipHostMalloc(&gate, sizeof(uint32_t), 0));
  *(volatile uint32_t *)gate = 0;
  CHECK(!hipStreamWaitValue32(l->handle, gate, 1, hipStreamWaitValueEq, UINT32_MAX));
  alarm(60);
  return gate;
}

static void let_go(const lane *l, volatile uint32_t *gate) {
  hipStream_t key;
  CHECK(!hipStreamCreateWithFlags(&key, hipStreamNonBlocking) && !hipStreamWriteValue32(key, (void *)gate, 1, 0));
  CHECK(!hiprt_stream_synchronize(l->stream) && !hipStreamDestroy(key) && !hipHostFree((void *)gate));
  alarm(0);
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

static hiprt_block *allocate(hiprt_pool *pool, const lane *l, uint64_t nbytes) {
  hiprt_block *block;
  CHECK(!hiprt_pool_allocate(pool, l->stream, nbytes, &block) && block->nbytes >= nbytes && !(block->address % 256));
  return block;
}

/* A pool gives memory out in the order of the streams, within its limit, and back to HIP. */
static void pools(const lane *l) {
  enum { LIMIT = 4096 };
  hiprt_pool *pool;
  hiprt_block *block, *other_block;
  hiprt_pool_stats stats;
  uint64_t given;
  lane other;
  open_lane(&other);
  CHECK(hiprt_pool_create(1000, 0, &pool) == HIPRT_E_ARGUMENT && !pool);
  CHECK(!hiprt_pool_create(0, LIMIT, &pool));
  block = allocate(pool, l, 1000);
  const uint64_t first = block->address;
  hiprt_pool_count(pool, &stats);
  CHECK(block->nbytes == 1024 && stats.allocated == 1024 && stats.reserved == 1024 && stats.chunks == 1);
  CHECK(hiprt_pool_allocate(pool, l->stream, LIMIT, &other_block) == HIPRT_E_LIMIT && !other_block);
  CHECK(hiprt_pool_allocate(pool, l->stream, UINT64_MAX, &other_block) == HIPRT_E_LIMIT);
  /* The stream itself has it again at once; another one not before the stream is done with it. */
  volatile uint32_t *const gate = hold(l);
  hiprt_pool_free(pool, block);
  block = allocate(pool, l, 1000);
  CHECK(block->address == first);
  hiprt_pool_free(pool, block);
  other_block = allocate(pool, &other, 1000);
  CHECK(other_block->address != first);
  hiprt_pool_count(pool, &stats);
  CHECK(stats.retiring == 1024 && stats.reserved == 2048 && stats.peak == 1024);
  let_go(l, gate);
  block = allocate(pool, &other, 1000);
  CHECK(block->address == first);
  /* Where the limit is reached, it is waited for. */
  hiprt_pool_free(pool, block);
  hiprt_pool_free(pool, other_block);
  CHECK(!hiprt_pool_trim(pool, &given) && given == 2048);
  block = allocate(pool, l, LIMIT);
  const uint64_t whole = block->address;
  hiprt_pool_free(pool, block);
  block = allocate(pool, &other, LIMIT);
  CHECK(block->address == whole);
  hiprt_pool_leave(pool, other.stream);
  close_lane(&other);
  CHECK(!hiprt_pool_trim(pool, &given) && !given);
  hiprt_pool_free(pool, block);
  block = allocate(pool, l, LIMIT);
  hiprt_pool_release(pool);
  hiprt_pool_free(pool, block);
}

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
  hiprt_step_cancel(step);
  hiprt_step_release(step);
}

int main(int argc, char **argv) {
  lane l;
  CHECK(hiprt_version() == HIPRT_VERSION && !hiprt_step_create("early", 0));
  CHECK(!hiprt_open(0, HIPRT_ABI) && !hiprt_open(0, HIPRT_ABI));
  compile();
  scale = declare("scale", 3, (hiprt_argument[]){{8, 8, HIPRT_READ}, {8, 8, HIPRT_WRITE}, {4, 4, HIPRT_BY_VALUE}});
  add = declare("add", 2, (hiprt_argument[]){{8, 8, HIPRT_READ}, {8, 8, HIPRT_READ_WRITE}});
  canary = declare("canary", 2, (hiprt_argument[]){{8, 8, HIPRT_READ_WRITE}, {4, 4, HIPRT_BY_VALUE}});
  open_lane(&l);
  if (argc > 1 && !strcmp(argv[1], "dump")) {
    dumps(&l);
  } else if (argc > 1 && !strcmp(argv[1], "lost")) {
    lost(&l);
    verifies(&l, 1);
    probes(&l, 1);
  } else {
    climb(&l);
    topologies(&l);
    budgets(&l);
    captures(&l);
    captures_without_memory(&l);
    adopts(&l);
    moves(&l);
    explanations(&l);
    verifies(&l, 0);
    verifies_touching(&l);
    probes(&l, 0);
    pools(&l);
    arenas(&l);
    plans(&l);
    refusals(&l);
    refused_launches(&l);
    threads();
  }
  close_lane(&l);
  hiprt_kernel_release(scale);
  hiprt_kernel_release(add);
  hiprt_kernel_release(canary);
  CHECK(!hipModuleUnload(module));
  if (argc < 2 || strcmp(argv[1], "dump")) puts("ok");
  return 0;
}
