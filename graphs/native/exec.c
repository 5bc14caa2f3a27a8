/* Execs: an executable graph made from a recording, launched, and patched node by node. */
#include <stdlib.h>

#include "recorder.h"
#include "status.h"
#include "stream.h"

struct hiprt_exec {
  int device;
  hiprt_recorder *recorder; /* the arguments the exec carries */
  hipGraph_t graph;         /* kept: per-node setters name its nodes (G4) */
  hipGraphNode_t *nodes;
  hipGraphExec_t handle;
  hipEvent_t done; /* recorded behind the last launch */
  int launched;
};

static hipMemsetParams memset_params(const hiprt_fill_args *f) {
  hipMemsetParams p = {0};
  p.dst = (void *)(uintptr_t)f->dst;
  p.elementSize = f->width;
  p.value = f->value;
  p.width = f->count;
  p.height = 1;
  return p;
}

static int add_node(hiprt_exec *e, uint32_t index, const hipGraphNode_t *deps, size_t n_deps) {
  hiprt_node n;
  int status = hiprt_recorder_node(e->recorder, index, &n);
  if (status) return status;
  hipGraphNode_t *out = e->nodes + index;
  if (n.kind == HIPRT_NODE_KERNEL) {
    void *cells[HIPRT_MAX_ARGS];
    hipKernelNodeParams p = hiprt_kernel_params(n.kernel, n.payload, cells);
    HIPRT_TRY(hipGraphAddKernelNode, out, e->graph, deps, n_deps, &p);
  } else if (n.kind == HIPRT_NODE_COPY) {
    const hiprt_copy_args *c = (const hiprt_copy_args *)n.payload;
    HIPRT_TRY(hipGraphAddMemcpyNode1D, out, e->graph, deps, n_deps, (void *)(uintptr_t)c->dst,
              (const void *)(uintptr_t)c->src, c->nbytes, hipMemcpyDeviceToDevice);
  } else if (n.kind == HIPRT_NODE_FILL) {
    hipMemsetParams p = memset_params((const hiprt_fill_args *)n.payload);
    HIPRT_TRY(hipGraphAddMemsetNode, out, e->graph, deps, n_deps, &p);
  } else {
    HIPRT_TRY(hipGraphAddEmptyNode, out, e->graph, deps, n_deps);
  }
  return 0;
}

/* One root: with several, CLR's segment scheduler may start a branch before earlier work of the stream (G6). */
static int add_root(hiprt_exec *e, hipGraphNode_t *out_root) {
  uint32_t roots = 0, size = hiprt_recorder_size(e->recorder);
  for (uint32_t i = 0; i < size; i++) {
    hiprt_node n;
    hiprt_recorder_node(e->recorder, i, &n);
    roots += n.n_deps == 0;
  }
  *out_root = 0;
  if (roots > 1) HIPRT_TRY(hipGraphAddEmptyNode, out_root, e->graph, 0, 0);
  return 0;
}

static int build(hiprt_exec *e) {
  HIPRT_TRY(hipSetDevice, e->device);
  HIPRT_TRY(hipGraphCreate, &e->graph, 0);
  hipGraphNode_t root, *deps = 0;
  int status = add_root(e, &root);
  uint32_t size = hiprt_recorder_size(e->recorder);
  size_t capacity = 0;
  for (uint32_t i = 0; !status && i < size; i++) {
    hiprt_node n;
    hiprt_recorder_node(e->recorder, i, &n);
    if (n.n_deps > capacity || !deps) {
      free(deps);
      capacity = n.n_deps * 2 + 8;
      deps = malloc(capacity * sizeof *deps);
      if (!deps) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_exec_create", 0);
    }
    size_t n_deps = n.n_deps;
    for (uint32_t k = 0; k < n.n_deps; k++) deps[k] = e->nodes[n.deps[k]];
    if (!n_deps && root) deps[n_deps++] = root;
    status = add_node(e, i, n_deps ? deps : 0, n_deps);
  }
  free(deps);
  if (status) return status;
  HIPRT_TRY(hipGraphInstantiate, &e->handle, e->graph, 0, 0, 0);
  HIPRT_TRY(hipEventCreateWithFlags, &e->done, hipEventDisableTiming);
  return 0;
}

int hiprt_exec_create(hiprt_recorder *recorder, int device, hiprt_exec **out_exec) {
  *out_exec = 0;
  uint32_t size = hiprt_recorder_size(recorder);
  if (!hiprt_library_is_open()) return hiprt_fail(HIPRT_E_CLOSED, "hiprt_exec_create", 0);
  if (!size) return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_exec_create", "the recording has no nodes");
  hiprt_exec *e = calloc(1, sizeof *e);
  if (e) e->nodes = calloc(size, sizeof *e->nodes);
  if (!e || !e->nodes) {
    free(e);
    return hiprt_fail(HIPRT_E_MEMORY, "hiprt_exec_create", 0);
  }
  e->device = device;
  e->recorder = recorder;
  hiprt_recorder_retain(recorder);
  int status = build(e);
  if (status) {
    /* The failure already recorded is the one to report. */
    hiprt_exec_release(e);
    return status;
  }
  *out_exec = e;
  return 0;
}

void hiprt_exec_release(hiprt_exec *e) {
  if (!e) return;
  hiprt_hip.hipSetDevice(e->device);
  /* CLR up to 6.1 frees a running exec's arguments at once: wait for its last launch first. */
  if (e->done && e->launched) hiprt_hip.hipEventSynchronize(e->done);
  if (e->handle) hiprt_hip.hipGraphExecDestroy(e->handle);
  if (e->graph) hiprt_hip.hipGraphDestroy(e->graph);
  if (e->done) hiprt_hip.hipEventDestroy(e->done);
  hiprt_recorder_release(e->recorder);
  free(e->nodes);
  free(e);
}

int hiprt_exec_launch(hiprt_exec *e, hiprt_stream *stream) {
  if (stream->recorder) return hiprt_fail(HIPRT_E_RECORDING, "hiprt_exec_launch", "the stream is recording");
  HIPRT_TRY(hipSetDevice, e->device);
  HIPRT_TRY(hipGraphLaunch, e->handle, stream->handle);
  e->launched = 1;
  stream->launches++;
  HIPRT_TRY(hipEventRecord, e->done, stream->handle);
  return 0;
}

int hiprt_exec_busy(hiprt_exec *e) {
  if (!e->launched) return 0;
  HIPRT_TRY(hipSetDevice, e->device);
  hipError_t status = hiprt_hip.hipEventQuery(e->done);
  if (status == hipErrorNotReady) return 1;
  return status ? hiprt_fail((int)status, "hipEventQuery", 0) : 0;
}

static int patch_node(hiprt_exec *e, hiprt_recorder *recorder, uint32_t index) {
  hiprt_node n;
  int status = hiprt_recorder_node(recorder, index, &n);
  if (status) return status;
  if (n.kind == HIPRT_NODE_KERNEL) {
    void *cells[HIPRT_MAX_ARGS];
    hipKernelNodeParams p = hiprt_kernel_params(n.kernel, n.payload, cells);
    HIPRT_TRY(hipGraphExecKernelNodeSetParams, e->handle, e->nodes[index], &p);
  } else if (n.kind == HIPRT_NODE_COPY) {
    const hiprt_copy_args *c = (const hiprt_copy_args *)n.payload;
    HIPRT_TRY(hipGraphExecMemcpyNodeSetParams1D, e->handle, e->nodes[index], (void *)(uintptr_t)c->dst,
              (const void *)(uintptr_t)c->src, c->nbytes, hipMemcpyDeviceToDevice);
  } else if (n.kind == HIPRT_NODE_FILL) {
    hipMemsetParams p = memset_params((const hiprt_fill_args *)n.payload);
    HIPRT_TRY(hipGraphExecMemsetNodeSetParams, e->handle, e->nodes[index], &p);
  }
  return 0;
}

int hiprt_exec_patch(hiprt_exec *e, hiprt_recorder *recorder, uint32_t *out_patched) {
  *out_patched = 0;
  if (!hiprt_recorder_same_key(e->recorder, recorder))
    return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_exec_patch", "the recording has another key");
  HIPRT_TRY(hipSetDevice, e->device);
  uint32_t size = hiprt_recorder_size(recorder);
  for (uint32_t i = 0; i < size; i++) {
    if (!hiprt_recorder_differs(e->recorder, recorder, i)) continue;
    int status = patch_node(e, recorder, i);
    if (status) return status;
    ++*out_patched;
  }
  hiprt_recorder_retain(recorder);
  hiprt_recorder_release(e->recorder);
  e->recorder = recorder;
  return 0;
}

hiprt_recorder *hiprt_exec_recorder(hiprt_exec *e) { return e->recorder; }
