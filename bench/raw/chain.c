/* A chain of kernel nodes is built, updated, patched and launched with nothing around the driver's calls: what `hiprt bench
 * graph` is compared with.
 *
 * chain LIBRARY API CODE NODES CHANGED: LIBRARY is the library to open, API is cuda (the driver's) or hip, CODE is a file
 * with a module that has the kernel link(const int *x, int *y, int by, int n). It prints one JSON object with the
 * microseconds that each call took on the host, the median of ROUNDS. As a shared library it makes the calls in a process
 * that measures something else in turn: see chain_open. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 31, WIDTH = 32 };

typedef struct {
  unsigned x, y, z;
} dim;
typedef struct {
  void *function;
  dim grid, block;
  unsigned shared;
  void **params, **extra;
} cuda_params;
typedef struct {
  dim block;
  void **extra, *function;
  dim grid;
  void **params;
  unsigned shared;
} hip_params;

static void *library;
static int is_cuda;

static void *find(const char *hip, const char *cuda) {
  void *symbol = dlsym(library, is_cuda ? cuda : hip);
  if (!symbol) {
    fprintf(stderr, "%s is not in the library\n", is_cuda ? cuda : hip);
    exit(1);
  }
  return symbol;
}

#define CALL(type, hip, cuda, ...)                                                       \
  do {                                                                                   \
    static int(*call) type;                                                              \
    if (!call) *(void **)&call = find(hip, cuda);                                        \
    int status = call(__VA_ARGS__);                                                      \
    if (status) {                                                                        \
      fprintf(stderr, "%s failed with %d\n", is_cuda ? cuda : hip, status);              \
      exit(1);                                                                           \
    }                                                                                    \
  } while (0)

static void start(void) {
  if (is_cuda) {
    CALL((unsigned), "", "cuInit", 0);
    void *context;
    CALL((void **, int), "", "cuDevicePrimaryCtxRetain", &context, 0);
    CALL((void *), "", "cuCtxSetCurrent", context);
  } else {
    CALL((int), "hipSetDevice", "", 0);
  }
}

static void *kernel_of(const char *path) {
  FILE *file = fopen(path, "rb");
  static char code[1 << 20];
  size_t size = file ? fread(code, 1, sizeof code - 1, file) : 0;
  void *module, *function;
  if (!file) exit(1);
  fclose(file);
  code[size] = 0;
  CALL((void **, const void *), "hipModuleLoadData", "cuModuleLoadData", &module, code);
  CALL((void **, void *, const char *), "hipModuleGetFunction", "cuModuleGetFunction", &function, module, "link");
  return function;
}

static void *memory(void) {
  void *made;
  CALL((void **, size_t), "hipMalloc", "cuMemAlloc_v2", &made, WIDTH * sizeof(int));
  return made;
}

static void *function, *stream, *x, *y;
static int by = 1, n = WIDTH;
static void *arguments[] = {&x, &y, &by, &n};

/* Whichever the library takes; both are kept until it has read them. */
static const void *params(void) {
  static cuda_params cuda;
  static hip_params hip;
  cuda = (cuda_params){function, {1, 1, 1}, {WIDTH, 1, 1}, 0, arguments, 0};
  hip = (hip_params){{WIDTH, 1, 1}, 0, function, {1, 1, 1}, arguments, 0};
  return is_cuda ? (const void *)&cuda : &hip;
}

static void *build(int nodes, void **handles) {
  void *graph;
  CALL((void **, unsigned), "hipGraphCreate", "cuGraphCreate", &graph, 0);
  for (int i = 0; i < nodes; i++)
    CALL((void **, void *, void *const *, size_t, const void *), "hipGraphAddKernelNode", "cuGraphAddKernelNode",
         handles + i, graph, i ? handles + i - 1 : 0, i > 0, params());
  return graph;
}

static void *instantiate(void *graph) {
  void *exec;
  if (is_cuda)
    CALL((void **, void *, unsigned long long), "", "cuGraphInstantiateWithFlags", &exec, graph, 0);
  else
    CALL((void **, void *, void *, void *, size_t), "hipGraphInstantiate", "", &exec, graph, 0, 0, 0);
  return exec;
}

static void update(void *exec, void *graph) {
  struct {
    int result;
    void *node, *from;
  } info = {0, 0, 0};
  if (is_cuda)
    CALL((void *, void *, void *), "", "cuGraphExecUpdate_v2", exec, graph, &info);
  else
    CALL((void *, void *, void **, int *), "hipGraphExecUpdate", "", exec, graph, &info.node, &info.result);
}

static void patch(void *exec, void *node) {
  CALL((void *, void *, const void *), "hipGraphExecKernelNodeSetParams", "cuGraphExecKernelNodeSetParams", exec, node,
       params());
}

static void change(void *node) {
  CALL((void *, const void *), "hipGraphKernelNodeSetParams", "cuGraphKernelNodeSetParams", node, params());
}

static void launch(void) {
  CALL((void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **),
       "hipModuleLaunchKernel", "cuLaunchKernel", function, 1, 1, 1, WIDTH, 1, 1, 0, stream, arguments, 0);
}

static void relaunch(void *exec) { CALL((void *, void *), "hipGraphLaunch", "cuGraphLaunch", exec, stream); }
static void wait_for(void) { CALL((void *), "hipStreamSynchronize", "cuStreamSynchronize", stream); }
static void drop(void *graph) { CALL((void *), "hipGraphDestroy", "cuGraphDestroy", graph); }
static void drop_exec(void *exec) { CALL((void *), "hipGraphExecDestroy", "cuGraphExecDestroy", exec); }

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1e6 + at.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b) {
  double difference = *(const double *)a - *(const double *)b;
  return (difference > 0) - (difference < 0);
}

enum { EAGER, BUILD, INSTANTIATE, UPDATE, PATCH, RELAUNCH, WHOLE, SET, AFTER_SET, ANEW, KEPT, SET_ALL, PARTS };
static const char *const names[PARTS] = {"eager",    "build", "instantiate", "update",      "patch",       "relaunch",
                                         "whole",    "set",   "after_set",   "update_anew", "update_kept", "update_set"};
static double taken[PARTS][ROUNDS];

static void measure(int round, int nodes, int changed, void **handles, void **others) {
  double at[PARTS + 1];
  at[0] = now();
  for (int i = 0; i < nodes; i++) launch();
  at[1] = now();
  wait_for();
  taken[EAGER][round] = at[1] - at[0];
  at[0] = now();
  void *graph = build(nodes, handles);
  at[1] = now();
  void *exec = instantiate(graph);
  at[2] = now();
  relaunch(exec);
  wait_for();
  by = round + 2;
  at[3] = now();
  void *other = build(nodes, others);
  at[4] = now();
  update(exec, other);
  at[5] = now();
  drop(other);
  at[6] = now();
  for (int i = 0; i < changed; i++) patch(exec, handles[(long)i * nodes / changed]);
  relaunch(exec);
  at[7] = now();
  wait_for();
  taken[BUILD][round] = at[1] - at[0];
  taken[INSTANTIATE][round] = at[2] - at[1];
  taken[UPDATE][round] = at[5] - at[4];
  taken[PATCH][round] = at[7] - at[6];
  at[0] = now();
  relaunch(exec);
  at[1] = now();
  wait_for();
  at[2] = now();
  taken[RELAUNCH][round] = at[1] - at[0];
  taken[WHOLE][round] = at[2] - at[0];
  drop_exec(exec);
  drop(graph);
}

/* Change some nodes of an executable graph that was changed and launched before, then all of them in each of three ways,
 * with the launch behind it: from a graph that is built for it, from the graph that it was made of, and node by node. */
static void measure_changes(int round, int nodes, int changed, void *graph, void *exec, void **handles, void **others) {
  double at[4];
  by = 4 * round;
  at[0] = now();
  for (int i = 0; i < changed; i++) patch(exec, handles[(long)i * nodes / changed]);
  at[1] = now();
  relaunch(exec);
  at[2] = now();
  wait_for();
  taken[SET][round] = at[1] - at[0];
  taken[AFTER_SET][round] = at[2] - at[1];
  for (int way = ANEW; way <= SET_ALL; way++) {
    by++;
    at[0] = now();
    void *other = way == ANEW ? build(nodes, others) : graph;
    for (int i = 0; way == KEPT && i < nodes; i++) change(handles[i]);
    for (int i = 0; way == SET_ALL && i < nodes; i++) patch(exec, handles[i]);
    if (way != SET_ALL) update(exec, other);
    if (way == ANEW) drop(other);
    relaunch(exec);
    taken[way][round] = now() - at[0];
    wait_for();
  }
}

/* Open the library and make what the kernels need; 0 if the library cannot be opened. */
static int prepare(const char *path, const char *api, const char *code) {
  is_cuda = !strcmp(api, "cuda");
  library = dlopen(path, RTLD_NOW);
  if (!library) return 0;
  start();
  function = kernel_of(code);
  x = memory();
  y = memory();
  CALL((void **, unsigned), "hipStreamCreateWithFlags", "cuStreamCreate", &stream, 1);
  return 1;
}

static struct {
  int nodes;
  void *exec, **handles;
} opened;

/* Make the executable graph that chain_update changes, of this many nodes, at least 1; 0 if that fails. */
int chain_open(const char *path, const char *api, const char *code, int nodes) {
  opened.nodes = nodes;
  opened.handles = calloc((size_t)nodes, sizeof *opened.handles);
  if (!opened.handles || !prepare(path, api, code)) return 0;
  opened.exec = instantiate(build(nodes, opened.handles));
  relaunch(opened.exec);
  wait_for();
  return 1;
}

/* Build a graph with other arguments, update the executable graph by it and launch that; return the microseconds. */
double chain_update(void) {
  by++;
  const double at = now();
  void *other = build(opened.nodes, opened.handles);
  update(opened.exec, other);
  drop(other);
  relaunch(opened.exec);
  const double us = now() - at;
  wait_for();
  return us;
}

int main(int argc, char **argv) {
  if (argc != 6) return 2;
  int nodes = atoi(argv[4]), changed = atoi(argv[5]);
  void **handles = calloc((size_t)nodes, sizeof *handles), **others = calloc((size_t)nodes, sizeof *others);
  if (nodes < 1 || changed < 1 || !handles || !others) {
    fprintf(stderr, "NODES and CHANGED are at least 1\n");
    return 1;
  }
  if (!prepare(argv[1], argv[2], argv[3])) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  for (int round = 0; round < ROUNDS; round++) measure(round, nodes, changed, handles, others);
  void *graph = build(nodes, handles), *exec = instantiate(graph);
  for (int round = 0; round < ROUNDS; round++) measure_changes(round, nodes, changed, graph, exec, handles, others);
  printf("{");
  for (int part = 0; part < PARTS; part++) {
    qsort(taken[part], ROUNDS, sizeof(double), ascending);
    printf("%s\"%s_us\": %.3f", part ? ", " : "", names[part], taken[part][ROUNDS / 2]);
  }
  printf("}\n");
  return 0;
}
