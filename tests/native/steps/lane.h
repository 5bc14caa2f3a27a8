/* What the programs of this folder share: three kernels, a lane (a stream with three buffers), and a step of four nodes on it.
 *
 * Each program runs on the CPU device and prints "ok", unless it says otherwise; a check that fails ends it. */
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hip/hip_runtime_api.h"
#include "hip/hiprtc.h"
#include "hiprt/hiprt.h"

enum { SIZE = 256 };

static const char source[] =
    "extern \"C\" __global__ void scale(const int* x, int* y, int by) { y[threadIdx.x] = x[threadIdx.x] * by; }\n"
    "extern \"C\" __global__ void add(const int* x, int* y) { y[threadIdx.x] += x[threadIdx.x]; }\n"
    "struct line { int by; const int* x; int plus; };\n"
    "extern \"C\" __global__ void put(line from, int* y) { y[threadIdx.x] = from.x[threadIdx.x] * from.by + from.plus; }\n"
    "extern \"C\" __global__ void canary(unsigned* word, unsigned value) { *word = value; }\n";

#define CHECK(fine)                                                                                                    \
  do {                                                                                                                 \
    if (fine) break;                                                                                                   \
    fprintf(stderr, "%s:%d: %s (%s: %s)\n", __FILE__, __LINE__, #fine, hiprt_failure_call(), hiprt_failure_detail());   \
    exit(1);                                                                                                           \
  } while (0)

static hipModule_t module;
static hiprt_kernel *scale, *add, *canary;
static const hiprt_dims dims = {.grid = {1, 1, 1}, .block = {SIZE, 1, 1}};
static const uint64_t extents[] = {SIZE * sizeof(int), SIZE * sizeof(int)};

static inline void compile(void) {
  hiprtcProgram program = 0;
  size_t size = 0;
  CHECK(!hiprtcCreateProgram(&program, source, "steps.hip", 0, 0, 0) && !hiprtcCompileProgram(program, 0, 0));
  CHECK(!hiprtcGetCodeSize(program, &size));
  char *code = malloc(size);
  CHECK(!hiprtcGetCode(program, code) && !hipModuleLoadData(&module, code));
  free(code);
  hiprtcDestroyProgram(&program);
}

static inline hiprt_kernel *declare(const char *name, uint32_t count, const hiprt_argument *arguments) {
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

static inline void open_lane(lane *l) {
  int ones[SIZE];
  for (int i = 0; i < SIZE; i++) ones[i] = i;
  CHECK(!hipStreamCreateWithFlags(&l->handle, hipStreamNonBlocking));
  CHECK(!hiprt_stream_create((uintptr_t)l->handle, 0, &l->stream));
  CHECK(!hipMalloc((void **)&l->x, sizeof ones) && !hipMalloc((void **)&l->y, sizeof ones) &&
        !hipMalloc((void **)&l->z, sizeof ones));
  CHECK(!hipMemcpy(l->x, ones, sizeof ones, hipMemcpyHostToDevice));
}

static inline void close_lane(lane *l) {
  hiprt_stream_close(l->stream, 1);
  hiprt_stream_release(l->stream);
  CHECK(!hipStreamDestroy(l->handle) && !hipFree(l->x) && !hipFree(l->y) && !hipFree(l->z));
}

static inline void launch(const lane *l, hiprt_kernel *kernel, const int *x, int *y, int by) {
  CHECK(!hiprt_launch_kernel(l->stream, kernel, &dims, (void *[]){&x, &y, &by}, extents));
}

/* y = x * by; z = y + 1 in each byte; z += y: a kernel, a copy, a fill and another kernel. */
static inline void issue(const lane *l, int by) {
  launch(l, scale, l->x, l->y, by);
  CHECK(!hiprt_fill(l->stream, (uintptr_t)l->z, 0x01010101, 4, SIZE / 2));
  CHECK(!hiprt_copy(l->stream, (uintptr_t)(l->z + SIZE / 2), (uintptr_t)l->y, SIZE / 2 * sizeof(int), hipMemcpyDeviceToDevice));
  launch(l, add, l->y, l->z, 0);
}

/* z is what that makes of x. */
static inline void expect(const lane *l, int by) {
  int z[SIZE];
  CHECK(!hiprt_stream_synchronize(l->stream));
  CHECK(!hipMemcpy(z, l->z, sizeof z, hipMemcpyDeviceToHost));
  for (int i = 0; i < SIZE; i++) CHECK(z[i] == (i < SIZE / 2 ? 0x01010101 : (i - SIZE / 2) * by) + i * by);
}

/* A step of these four nodes. */
static inline hiprt_outcome step_by(hiprt_step *step, const lane *l, int by) {
  hiprt_outcome outcome;
  int ran = 0;
  CHECK(!hiprt_step_begin(step, l->stream));
  issue(l, by);
  CHECK(!hiprt_step_end(step, &outcome, &ran) && ran == 1 && outcome.nodes == 4);
  return outcome;
}

/* A step that has one executable graph of a topology; with a budget of 0, the usual one. */
static inline hiprt_step *make_step(uint32_t rungs, uint32_t budget) {
  hiprt_rules rules;
  hiprt_rules_default(&rules);
  rules.rungs = rungs;
  rules.slots = 1;
  if (budget) rules.budget_nodes = budget;
  hiprt_step *step = hiprt_step_create("test", &rules);
  CHECK(step);
  return step;
}

/* The graph of such a step behind a fill, as other code captures it; with is_refused it has a copy that no step takes. */
static inline hipGraph_t captured(const lane *l, int by, int is_refused) {
  hipGraph_t graph = 0;
  CHECK(!hipStreamBeginCapture(l->handle, hipStreamCaptureModeRelaxed));
  CHECK(!hipMemsetAsync(l->z, 0, SIZE * sizeof(int), l->handle));
  issue(l, by);
  if (is_refused) CHECK(!hipMemcpyAsync(l->x, l->host, sizeof l->host, hipMemcpyHostToDevice, l->handle));
  CHECK(!hipStreamEndCapture(l->handle, &graph));
  return graph;
}

/* Open HIP and a lane, with the kernels compiled. */
static inline void start(lane *l) {
  CHECK(!hiprt_open(0, HIPRT_ABI));
  compile();
  scale = declare("scale", 3, (hiprt_argument[]){{8, 8, HIPRT_READ}, {8, 8, HIPRT_WRITE}, {4, 4, HIPRT_BY_VALUE}});
  add = declare("add", 2, (hiprt_argument[]){{8, 8, HIPRT_READ}, {8, 8, HIPRT_READ_WRITE}});
  canary = declare("canary", 2, (hiprt_argument[]){{8, 8, HIPRT_READ_WRITE}, {4, 4, HIPRT_BY_VALUE}});
  open_lane(l);
}

static inline void finish(lane *l) {
  close_lane(l);
  hiprt_kernel_release(scale);
  hiprt_kernel_release(add);
  hiprt_kernel_release(canary);
  CHECK(!hipModuleUnload(module));
}
