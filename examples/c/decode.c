/* A decode loop in C: each token is one graph launch.
 *
 * The model is a toy (an attention over everything before, and a projection, per layer), its weights are made up, and the
 * engine compiles its kernels with hiprtc, as engines do. libhiprt is given the engine's stream and functions. Weights and
 * caches lie in a pool, and what a token computes on its way in an arena. The same tokens come four times:
 *   device memory   the position lies in device memory and a kernel counts it: every token is a replay
 *   addresses       the position of each token lies at another address: every token is recorded, and is a patch
 *   moves           the same, of which libhiprt is told: every token is a patch, and none is recorded
 *   eager           no graphs: what the others are compared with
 *
 * H=$(python -c "import hiprt; print(hiprt.__path__[0])")
 * gcc -std=c11 -I$H/native/include decode.c -o decode -L$H/native/lib -lhiprt -L$H/cpu -lamdhip64 \
 *   -Wl,-rpath,$H/native/lib:$H/cpu && ./decode */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hip/hip_runtime_api.h"
#include "hip/hiprtc.h"
#include "hiprt/hiprt.h"

enum { WIDTH = 64, LAYERS = 4, WORDS = 97, TOKENS = 200, NODES = 2 + 3 * LAYERS };

static const char source[] =
    "#define WIDTH 64\n"
    "#define WORDS 97\n"
    "extern \"C\" __global__ void embed(const float* table, const int* token, float* x) {\n"
    "  x[threadIdx.x] = table[*token * WIDTH + threadIdx.x];\n"
    "}\n"
    "extern \"C\" __global__ void keep(const float* x, const int* at, float* cache) {\n"
    "  cache[*at * WIDTH + threadIdx.x] = x[threadIdx.x];\n"
    "}\n"
    "extern \"C\" __global__ void attend(const float* x, const float* cache, const int* at, float* y) {\n"
    "  float sum = 0, weights = 0;\n"
    "  for (int t = 0; t <= *at; t++) {\n"
    "    float score = 0;\n"
    "    for (int j = 0; j < WIDTH; j++) score += x[j] * cache[t * WIDTH + j];\n"
    "    const float weight = expf(score / WIDTH);\n"
    "    weights += weight;\n"
    "    sum += weight * cache[t * WIDTH + threadIdx.x];\n"
    "  }\n"
    "  y[threadIdx.x] = sum / weights;\n"
    "}\n"
    "extern \"C\" __global__ void project(const float* y, const float* w, float* x) {\n"
    "  float sum = 0;\n"
    "  for (int j = 0; j < WIDTH; j++) sum += w[threadIdx.x * WIDTH + j] * y[j];\n"
    "  x[threadIdx.x] = tanhf(x[threadIdx.x] + sum);\n"
    "}\n"
    "extern \"C\" __global__ void choose(const float* x, const float* table, int* token, int* at, int* said) {\n"
    "  if (threadIdx.x) return;\n"
    "  int best = 0;\n"
    "  float most = -1e30f;\n"
    "  for (int word = 0; word < WORDS; word++) {\n"
    "    float score = 0;\n"
    "    for (int j = 0; j < WIDTH; j++) score += x[j] * table[word * WIDTH + j];\n"
    "    for (int k = 1; k <= 16 && k <= *at; k++)\n"
    "      if (said[*at - k] == word) score = -1e30f;\n"
    "    if (score > most) { most = score; best = word; }\n"
    "  }\n"
    "  said[*at] = *token = best;\n"
    "  *at += 1;\n"
    "}\n";

static void check(int status, const char *what) {
  if (!status) return;
  fprintf(stderr, "%s: %s %d; %s: %s\n", what, hiprt_status_name(status), status, hiprt_failure_call(),
          hiprt_failure_detail());
  exit(1);
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The engine: its memory, its kernels, its stream. */

enum { BLOCKS = 7 };

typedef struct {
  hipModule_t module;
  hipStream_t hip_stream;
  hiprt_stream *stream;
  hiprt_kernel *embed, *keep, *attend, *project, *choose;
  hiprt_pool *pool;
  hiprt_block *blocks[BLOCKS]; /* in which the next lie */
  int n_blocks;
  float *table, *weights, *caches;
  int *token, *at, *said, *places; /* places: the numbers from 0 to TOKENS */
} engine;

static void *take(engine *e, size_t nbytes) {
  hiprt_block **block = &e->blocks[e->n_blocks++];
  check(hiprt_pool_allocate(e->pool, e->stream, nbytes, block), "hiprt_pool_allocate");
  return (void *)(uintptr_t)(*block)->address;
}

/* Take memory and fill it with made-up weights. */
static float *make_weights(engine *e, size_t count, float scale, unsigned seed) {
  float *host = malloc(count * sizeof *host), *device = take(e, count * sizeof *host);
  for (size_t i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u;
    host[i] = scale * ((float)(seed >> 8) / (1 << 23) - 1);
  }
  check(hipMemcpy(device, host, count * sizeof *host, hipMemcpyHostToDevice), "hipMemcpy");
  free(host);
  return device;
}

static hipModule_t compile(void) {
  hiprtcProgram program = 0;
  hipModule_t module = 0;
  size_t size = 0;
  check((int)hiprtcCreateProgram(&program, source, "decode.hip", 0, 0, 0), "hiprtcCreateProgram");
  check((int)hiprtcCompileProgram(program, 0, 0), "hiprtcCompileProgram");
  check((int)hiprtcGetCodeSize(program, &size), "hiprtcGetCodeSize");
  char *code = malloc(size);
  check((int)hiprtcGetCode(program, code), "hiprtcGetCode");
  check(hipModuleLoadData(&module, code), "hipModuleLoadData");
  free(code);
  hiprtcDestroyProgram(&program);
  return module;
}

/* Declare a kernel whose arguments are all buffers: a letter each, r for one that is read, w written, b both. */
static hiprt_kernel *declare(hipModule_t module, const char *name, const char *accesses) {
  hiprt_argument arguments[8];
  hipFunction_t function = 0;
  const uint32_t count = (uint32_t)strlen(accesses);
  check(hipModuleGetFunction(&function, module, name), "hipModuleGetFunction");
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t access = accesses[i] == 'r' ? HIPRT_READ : accesses[i] == 'w' ? HIPRT_WRITE : HIPRT_READ_WRITE;
    arguments[i] = (hiprt_argument){8, 8, access};
  }
  hiprt_kernel *kernel;
  check(hiprt_kernel_create((uintptr_t)function, name, count, arguments, &kernel), "hiprt_kernel_create");
  return kernel;
}

static void open_engine(engine *e) {
  check(hiprt_open(0, HIPRT_ABI), "hiprt_open");
  e->module = compile();
  e->embed = declare(e->module, "embed", "rrw");
  e->keep = declare(e->module, "keep", "rrb"); /* the rest of the cache stays: it is read as well */
  e->attend = declare(e->module, "attend", "rrrw");
  e->project = declare(e->module, "project", "rrb");
  e->choose = declare(e->module, "choose", "rrbbb");
  check(hipStreamCreateWithFlags(&e->hip_stream, hipStreamNonBlocking), "hipStreamCreateWithFlags");
  check(hiprt_stream_create((uintptr_t)e->hip_stream, 0, &e->stream), "hiprt_stream_create");
  hiprt_stream_own(e->stream); /* it is destroyed only behind hiprt_stream_close */
  check(hiprt_pool_create(0, 0, &e->pool), "hiprt_pool_create");
  e->table = make_weights(e, WORDS * WIDTH, 1.0f, 1);
  e->weights = make_weights(e, LAYERS * WIDTH * WIDTH, 0.6f, 2);
  e->caches = take(e, sizeof(float) * LAYERS * TOKENS * WIDTH);
  e->token = take(e, sizeof(int));
  e->at = take(e, sizeof(int));
  e->said = take(e, sizeof(int) * TOKENS);
  e->places = take(e, sizeof(int) * TOKENS);
}

static void close_engine(engine *e) {
  hiprt_kernel *const kernels[] = {e->embed, e->keep, e->attend, e->project, e->choose};
  for (int i = 0; i < e->n_blocks; i++) hiprt_pool_free(e->pool, e->blocks[i]);
  hiprt_pool_leave(e->pool, e->stream);
  hiprt_pool_release(e->pool);
  hiprt_stream_close(e->stream, 1);
  hiprt_stream_release(e->stream);
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) hiprt_kernel_release(kernels[i]);
  check(hipStreamDestroy(e->hip_stream), "hipStreamDestroy");
  check(hipModuleUnload(e->module), "hipModuleUnload");
}

/* A token: the launches that an engine would make without hiprt, each with how much of each buffer it touches. */

static void launch(engine *e, hiprt_kernel *kernel, void *const *args, const uint64_t *nbytes) {
  const hiprt_dims dims = {.grid = {1, 1, 1}, .block = {WIDTH, 1, 1}};
  check(hiprt_launch_kernel(e->stream, kernel, &dims, args, nbytes), "hiprt_launch_kernel");
}

/* Ask for a vector that only this token needs. */
static float *request(hiprt_arena *arena) {
  uint64_t address;
  check(hiprt_arena_request(arena, sizeof(float) * WIDTH, 0, &address), "hiprt_arena_request");
  return (float *)(uintptr_t)address;
}

/* at: where the position is read. */
static void issue_token(engine *e, hiprt_arena *arena, int *at) {
  const uint64_t vector = sizeof(float) * WIDTH, number = sizeof(int), all = vector * TOKENS, said = number * TOKENS;
  float *x = request(arena);
  launch(e, e->embed, (void *[]){&e->table, &e->token, &x}, (uint64_t[]){vector * WORDS, number, vector});
  for (int layer = 0; layer < LAYERS; layer++) {
    float *cache = e->caches + layer * TOKENS * WIDTH, *weights = e->weights + layer * WIDTH * WIDTH;
    float *y = request(arena);
    launch(e, e->keep, (void *[]){&x, &at, &cache}, (uint64_t[]){vector, number, all});
    launch(e, e->attend, (void *[]){&x, &cache, &at, &y}, (uint64_t[]){vector, all, number, vector});
    launch(e, e->project, (void *[]){&y, &weights, &x}, (uint64_t[]){vector, vector * WIDTH, vector});
  }
  launch(e, e->choose, (void *[]){&x, &e->table, &e->token, &e->at, &e->said},
         (uint64_t[]){vector, vector * WORDS, number, number, said});
}

/* Where the position of a token lies: in one place, or at another address for each token, which libhiprt finds out by
 * recording the launches again, or is told. */
enum place { SAME, ANOTHER, TOLD };

/* Decode TOKENS tokens from the start, and print how. */
static void decode(engine *e, const char *title, uint32_t rungs, enum place place, int *out_said) {
  static const char *const names[] = {"replay", "patch", "update", "instantiate", "eager"};
  hiprt_rules rules;
  hiprt_outcome outcome;
  hiprt_step_stats stats;
  int places[TOKENS];
  for (int i = 0; i < TOKENS; i++) places[i] = i;
  check(hipMemcpy(e->places, places, sizeof places, hipMemcpyHostToDevice), "hipMemcpy");
  check(hipMemset(e->token, 0, sizeof(int)), "hipMemset");
  check(hipMemset(e->at, 0, sizeof(int)), "hipMemset");
  check(hipMemset(e->said, 0, sizeof places), "hipMemset");
  check(hipDeviceSynchronize(), "hipDeviceSynchronize");
  hiprt_rules_default(&rules);
  rules.rungs = rungs;
  hiprt_step *step = hiprt_step_create(title, &rules);
  check(step ? 0 : HIPRT_E_MEMORY, "hiprt_step_create");
  hiprt_arena *arena;
  hiprt_plan plan;
  check(hiprt_arena_create(e->pool, &arena), "hiprt_arena_create");
  double host = 0;
  const double start = seconds();
  for (int i = 0; i < TOKENS; i++) {
    const double before = seconds();
    const uint64_t at = (uintptr_t)(e->places + i);
    const hiprt_move move = {at - sizeof(int), at, at};
    if (i && place == SAME && rungs == HIPRT_RUNGS) {
      check(hiprt_step_again(step, e->stream, &outcome, 0), "hiprt_step_again");
    } else if (i && place == TOLD) {
      check(hiprt_step_move(step, e->stream, 1, &move, &outcome, 0), "hiprt_step_move");
    } else {
      check(hiprt_step_begin(step, e->stream), "hiprt_step_begin");
      issue_token(e, arena, place == SAME ? e->at : e->places + i);
      check(hiprt_step_settle(step, arena), "hiprt_step_settle");
      check(hiprt_step_end(step, &outcome, 0), "hiprt_step_end");
    }
    host += seconds() - before;
    if (i < 2) printf("  token %d: %-11s %s %s\n", i, names[outcome.rung], outcome.reason, outcome.node);
    check(hiprt_stream_synchronize(e->stream), "hiprt_stream_synchronize"); /* an engine reads its token here */
  }
  const double total = seconds() - start;
  hiprt_step_count(step, &stats);
  printf("%-14s", title);
  for (int rung = 0; rung < 5; rung++)
    if (stats.rungs[rung]) printf(" %llu %s,", (unsigned long long)stats.rungs[rung], names[rung]);
  hiprt_arena_count(arena, &plan);
  printf(" %u nodes in %u of %u bytes; %.1f us of the host, %.1f us in all a token\n", outcome.nodes,
         (unsigned)plan.nbytes, (unsigned)plan.requested, host / TOKENS * 1e6, total / TOKENS * 1e6);
  check(hipMemcpy(out_said, e->said, sizeof places, hipMemcpyDeviceToHost), "hipMemcpy");
  hiprt_step_release(step);
  hiprt_arena_release(arena);
}

int main(void) {
  static int in_memory[TOKENS], by_address[TOKENS], moved[TOKENS], eagerly[TOKENS];
  engine e = {0};
  open_engine(&e);
  decode(&e, "device memory", HIPRT_RUNGS, SAME, in_memory);
  decode(&e, "addresses", HIPRT_RUNGS & ~(1u << HIPRT_UPDATE), ANOTHER, by_address);
  decode(&e, "moves", HIPRT_RUNGS, TOLD, moved);
  decode(&e, "eager", 1u << HIPRT_EAGER, SAME, eagerly);
  close_engine(&e);
  printf("tokens:");
  for (int i = 0; i < 16; i++) printf(" %d", eagerly[i]);
  printf(" ...\n");
  const int is_same = !memcmp(in_memory, eagerly, sizeof eagerly) && !memcmp(by_address, eagerly, sizeof eagerly) &&
                      !memcmp(moved, eagerly, sizeof eagerly);
  printf("%s\n", is_same ? "the same tokens each time" : "OTHER TOKENS");
  return is_same ? 0 : 1;
}
