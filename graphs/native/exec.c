#include "captured.h"
#include "exec.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "addresses.h"
#include "graph.h"
#include "capture.h"
#include "canary.h"
#include "guards.h"
#include "status.h"
#include "stream.h"
#include "touches.h"

struct hiprt_exec {
  int device;
  hiprt_graph_options options;
  uint32_t overlaps;        /* programmatic edges */
  hiprt_recorder *recorder; /* the arguments that the exec carries */
  hipGraph_t graph;         /* kept: setters name the nodes of the graph that was instantiated (G4), updates take it again */
  hipGraphNode_t *nodes;
  hipGraphExec_t handle;
  hipEvent_t done;      /* behind the last launch, or behind what followed it on the stream before somebody asked */
  hiprt_stream *asked;  /* the stream of the last launch, if it can say whether that is done */
  int is_recorded;      /* `done` is behind the last launch */
  int is_in_flight;     /* as far as is known */
  int is_lost;          /* no event is behind the last launch, and its stream cannot be asked: only the device can */
  atomic_ullong launched; /* the number of the last launch, counted over all execs */
  atomic_ullong on;       /* the number of its stream; 0: there was none */
  pthread_mutex_t lock; /* guards what a launch sets, and what is asked about it */
  hiprt_exec *next;     /* in the list of execs that wait to be destroyed */
  hiprt_canary canary;
  atomic_uint references, holders;
  uint64_t updated_nodes, updated_bytes; /* written by patches and updates: ROCm leaks memory by them (G7) */
};

static atomic_ullong launches;

/* Graphs of one device are built, patched and updated one at a time (G12): HIP's graph objects are not thread safe, and
 * CLR before 7.14 loses nodes of graphs that are built in parallel. Launches of different execs need no lock. */
#define TURNS 64
static pthread_mutex_t turns[TURNS] = {[0 ... TURNS - 1] = PTHREAD_MUTEX_INITIALIZER};

static int take_turn(int device) {
  /* A thread of the parent may have held the lock. */
  if (hiprt_is_forked) return hiprt_fail(HIPRT_E_FORKED, "hiprt_exec", 0);
  pthread_mutex_lock(turns + (unsigned)device % TURNS);
  const int status = (int)hiprt_hip.hipSetDevice(device);
  if (status) pthread_mutex_unlock(turns + (unsigned)device % TURNS);
  return status ? hiprt_fail(status, "hipSetDevice", 0) : 0;
}

static int end_turn(int device, int status) {
  pthread_mutex_unlock(turns + (unsigned)device % TURNS);
  return status;
}

/* Execs that were released when nobody could say whether their last launch was done: its stream was being captured, or
 * the call that asks failed. The next release tries again. */
static struct {
  pthread_mutex_t lock;
  hiprt_exec *first;
} late = {PTHREAD_MUTEX_INITIALIZER, 0};

static int build(hiprt_exec *e) {
  const int status = hiprt_graph_build(e->recorder, &e->options, &e->graph, e->nodes, &e->overlaps);
  if (status) return status;
  /* No node depends on the last one, so the canary may stand behind it. */
  return hiprt_canary_add(&e->canary, e->graph, e->nodes[hiprt_recorder_size(e->recorder) - 1]);
}

static int make(hiprt_exec *e, hiprt_kernel *canary) {
  int status = hiprt_canary_open(&e->canary, canary);
  if (!status) status = build(e);
  if (status) return status;
  hipGraphExec_t handle = 0; /* CLR leaves junk in *handle when it fails */
  HIPRT_TRY(hipGraphInstantiate, &handle, e->graph, 0, 0, 0);
  e->handle = handle;
  HIPRT_TRY(hipEventCreateWithFlags, &e->done, hipEventDisableTiming);
  return 0;
}

static void ask_later(hiprt_exec *e, hiprt_stream *stream) {
  if (e->asked == stream) return;
  if (stream) hiprt_stream_retain(stream);
  hiprt_stream_release(e->asked);
  e->asked = stream;
}

static int put_fence(hiprt_exec *e, hipEvent_t *out_event) {
  *out_event = 0;
  if (e->is_in_flight && e->is_lost) {
    int status = hiprt_wait_for_device(e->device);
    if (status) return status;
    e->is_in_flight = e->is_lost = 0;
  }
  if (e->is_in_flight) *out_event = e->done;
  if (!*out_event || !e->asked || hiprt_guards_off & HIPRT_GUARD_FENCE) return 0;
  int status = hiprt_stream_fence(e->asked, e->is_recorded, out_event);
  if (status) return status;
  e->is_in_flight = *out_event != 0;
  e->is_recorded = *out_event == e->done;
  if (!*out_event) ask_later(e, 0);
  return 0;
}

/* Give the event that says whether the last launch is done; NULL: it is done. */
static int fence(hiprt_exec *e, hipEvent_t *out_event) {
  HIPRT_TRY(hipSetDevice, e->device);
  pthread_mutex_lock(&e->lock);
  int status = put_fence(e, out_event);
  pthread_mutex_unlock(&e->lock);
  return status;
}

static int wait_for(hiprt_exec *e) {
  hipEvent_t event;
  int status = fence(e, &event);
  if (status) return status;
  return event ? hiprt_wait_for_event(event) : 0;
}

static void destroy(hiprt_exec *e) {
  /* CLR up to 6.1 frees the arguments of a running exec at once, so its last launch is waited for. */
  if (e->is_in_flight && wait_for(e)) {
    pthread_mutex_lock(&late.lock);
    e->next = late.first;
    late.first = e;
    pthread_mutex_unlock(&late.lock);
    return;
  }
  hiprt_hip.hipSetDevice(e->device);
  ask_later(e, 0);
  if (e->handle) hiprt_hip.hipGraphExecDestroy(e->handle);
  if (e->graph) hiprt_hip.hipGraphDestroy(e->graph);
  if (e->done) hiprt_hip.hipEventDestroy(e->done);
  hiprt_canary_close(&e->canary);
  hiprt_recorder_release(e->recorder);
  pthread_mutex_destroy(&e->lock);
  free(e->nodes);
  free(e);
}

int hiprt_exec_create(hiprt_recorder *recorder, int device, uint32_t fanout, int overlap, hiprt_kernel *canary,
                      hiprt_exec **out_exec) {
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
  atomic_init(&e->references, 1);
  e->device = device;
  e->options = (hiprt_graph_options){fanout, overlap};
  e->recorder = recorder;
  pthread_mutex_init(&e->lock, 0);
  hiprt_recorder_retain(recorder);
  int status = take_turn(device);
  if (!status) status = end_turn(device, make(e, canary));
  if (status) {
    destroy(e);
    return status;
  }
  *out_exec = e;
  return 0;
}

uint32_t hiprt_exec_hold(hiprt_exec *e, int by) { return atomic_fetch_add(&e->holders, (uint32_t)by) + (uint32_t)by; }

void hiprt_exec_retain(hiprt_exec *e) { atomic_fetch_add_explicit(&e->references, 1, memory_order_relaxed); }

void hiprt_exec_release(hiprt_exec *e) {
  if (!e || hiprt_is_forked) return; /* of a forked process the exec is the parent's */
  if (atomic_fetch_sub_explicit(&e->references, 1, memory_order_acq_rel) != 1) return;
  pthread_mutex_lock(&late.lock);
  hiprt_exec *others = late.first;
  late.first = 0;
  pthread_mutex_unlock(&late.lock);
  destroy(e);
  while ((e = others)) {
    others = e->next;
    destroy(e);
  }
}

/* See to it that the end of the launch just made can be asked for. */
static int follow(hiprt_exec *e, hiprt_stream *stream, int is_fenced) {
  e->is_in_flight = 1;
  e->is_lost = e->is_recorded = 0;
  if (is_fenced || !stream->is_own) e->is_recorded = !hiprt_hip.hipEventRecord(e->done, stream->handle);
  /* The handle of a stream of somebody else may name nothing by the time of a question. */
  ask_later(e, stream->is_own ? stream : 0);
  if (e->is_recorded || stream->is_own) return 0;
  /* A stream of somebody else may be gone when it is asked later, so it is asked now. */
  int status = hiprt_wait_for_stream(stream->handle);
  e->is_in_flight = e->is_lost = status != 0;
  return status;
}

static int launch(hiprt_exec *e, hiprt_stream *stream, int is_fenced, int *out_ran) {
  int status = (int)hiprt_hip.hipGraphLaunch(e->handle, stream->handle);
  if (hiprt_is_refused(status)) return hiprt_fail(status, "hipGraphLaunch", 0);
  *out_ran = 1;
  e->on = stream->number;
  int followed = follow(e, stream, is_fenced);
  if (status) return hiprt_fail(status, "hipGraphLaunch", 0);
  e->canary.is_due = 1;
  e->launched = ++launches;
  atomic_fetch_add_explicit(&stream->launches, 1, memory_order_relaxed);
  return followed;
}

/* Launch behind what other streams do with the memory that the nodes touch. */
static int launch_in_order(hiprt_exec *e, hiprt_stream *stream, int is_fenced, int *out_ran) {
  uint32_t count;
  const hiprt_touch *touches = hiprt_recorder_touches(e->recorder, &count);
  const int is_ordered = hiprt_order_is_needed(stream);
  int status = is_ordered ? hiprt_order_begin(stream, touches, count) : 0;
  if (status) return status;
  status = (int)hiprt_hip.hipSetDevice(e->device);
  status = status ? hiprt_fail(status, "hipSetDevice", 0) : launch(e, stream, is_fenced, out_ran);
  if (is_ordered)
    hiprt_order_end(stream, touches, count);
  else if (hiprt_order_is_needed(stream))
    hiprt_order_note(stream, touches, count);
  return status;
}

int hiprt_exec_launch(hiprt_exec *e, hiprt_stream *stream, int is_fenced, int *out_ran) {
  *out_ran = 0;
  if (hiprt_stream_records(stream))
    return hiprt_fail(HIPRT_E_RECORDING, "hiprt_exec_launch", "the stream is recording");
  int status = hiprt_stream_is_open(stream, "hiprt_exec_launch");
  if (status) return status;
  pthread_mutex_lock(&e->lock);
  status = launch_in_order(e, stream, is_fenced, out_ran);
  pthread_mutex_unlock(&e->lock);
  return status;
}

int hiprt_exec_busy(hiprt_exec *e) {
  hipEvent_t event;
  int status = fence(e, &event);
  if (status) return status == HIPRT_E_RECORDING ? 1 : status;
  status = event ? hiprt_ask_event(event) : 0;
  if (status == hipErrorNotReady) return 1;
  return status ? status : hiprt_canary_check(&e->canary);
}

int hiprt_exec_may_launch(hiprt_exec *e, const hiprt_stream *stream) {
  const uint64_t on = e->on;
  if (!on || on == stream->number || hiprt_guards_off & HIPRT_GUARD_STREAM) return 1;
  const int busy = hiprt_exec_busy(e);
  return busy == 0 || busy == 1 ? !busy : busy;
}

int hiprt_exec_wait(hiprt_exec *e) {
  int status = wait_for(e);
  return status ? status : hiprt_canary_check(&e->canary);
}

static void carry(hiprt_exec *e, hiprt_recorder *recorder) {
  hiprt_recorder_retain(recorder);
  hiprt_recorder_release(e->recorder);
  e->recorder = recorder;
}

static int same_key(const hiprt_exec *e, const hiprt_recorder *recorder, const char *call) {
  if (hiprt_recorder_same_key(e->recorder, recorder)) return 0;
  return hiprt_fail(HIPRT_E_ARGUMENT, call, "the recording has another key");
}

static int patch_node(hiprt_exec *e, const hiprt_node *n, uint32_t index) {
  if (n->kind == HIPRT_NODE_KERNEL) {
    void *cells[HIPRT_MAX_ARGS];
    hipKernelNodeParams p = hiprt_kernel_params(n->kernel, n->payload, cells);
    HIPRT_TRY(hipGraphExecKernelNodeSetParams, e->handle, e->nodes[index], &p);
  } else if (n->kind == HIPRT_NODE_COPY) {
    const hiprt_copy_args *c = (const hiprt_copy_args *)n->payload;
    HIPRT_TRY(hipGraphExecMemcpyNodeSetParams1D, e->handle, e->nodes[index], (void *)(uintptr_t)c->dst,
              (const void *)(uintptr_t)c->src, c->nbytes, hipMemcpyDeviceToDevice);
  } else if (n->kind == HIPRT_NODE_FILL) {
    hipMemsetParams p = hiprt_fill_params((const hiprt_fill_args *)n->payload);
    HIPRT_TRY(hipGraphExecMemsetNodeSetParams, e->handle, e->nodes[index], &p);
  } else if (n->kind == HIPRT_NODE_OPAQUE) {
    hipKernelNodeParams p;
    int status = hiprt_captured_params((const hiprt_opaque *)n->payload, &p);
    if (status) return status;
    HIPRT_TRY(hipGraphExecKernelNodeSetParams, e->handle, e->nodes[index], &p);
  }
  e->updated_nodes++;
  e->updated_bytes += n->payload_size;
  return 0;
}

static int patch_listed(hiprt_exec *e, const hiprt_recorder *recorder, const hiprt_changes *changes) {
  for (uint32_t i = 0; i < changes->count; i++) {
    hiprt_node n;
    hiprt_recorder_work(recorder, changes->nodes[i], &n);
    int status = patch_node(e, &n, changes->nodes[i]);
    if (status) return status;
  }
  return changes->count ? hiprt_canary_patch(&e->canary, e->handle) : 0;
}

static int patch(hiprt_exec *e, hiprt_recorder *recorder, const hiprt_changes *changes) {
  const int status = patch_listed(e, recorder, changes);
  if (!status) carry(e, recorder);
  return status;
}

int hiprt_exec_point(hiprt_exec *e, hiprt_pointers *pointers, const uint64_t *starts, const hiprt_changes *changes) {
  int status = hiprt_recorder_point(e->recorder, pointers, starts);
  if (!status) status = take_turn(e->device);
  return status ? status : end_turn(e->device, patch_listed(e, e->recorder, changes));
}

int hiprt_exec_patch_nodes(hiprt_exec *e, hiprt_recorder *recorder, const hiprt_changes *changes) {
  const int status = take_turn(e->device);
  return status ? status : end_turn(e->device, patch(e, recorder, changes));
}

int hiprt_exec_patch(hiprt_exec *e, hiprt_recorder *recorder, uint32_t *out_patched) {
  hiprt_changes changes = {0};
  int status = same_key(e, recorder, "hiprt_exec_patch");
  if (!status) status = hiprt_recorder_compare(e->recorder, recorder, &changes);
  if (!status) status = hiprt_exec_patch_nodes(e, recorder, &changes);
  *out_patched = changes.count;
  free(changes.nodes);
  return status;
}

static int move(hiprt_exec *e, uint32_t n_nodes, const uint32_t *nodes, uint32_t n_moves, const hiprt_move *moves) {
  const uint32_t size = hiprt_recorder_size(e->recorder);
  for (uint32_t i = 0; i < n_nodes; i++) {
    if (nodes[i] >= size) return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_exec_move", "no such node");
    hiprt_recorder_moved(e->recorder, nodes[i], n_moves, moves, hiprt_recorder_payload(e->recorder, nodes[i]));
    hiprt_node n;
    hiprt_recorder_work(e->recorder, nodes[i], &n);
    const int status = patch_node(e, &n, nodes[i]);
    if (status) return status;
  }
  return n_nodes ? hiprt_canary_patch(&e->canary, e->handle) : 0;
}

int hiprt_exec_move(hiprt_exec *e, uint32_t n_nodes, const uint32_t *nodes, uint32_t n_moves, const hiprt_move *moves) {
  int status = take_turn(e->device);
  return status ? status : end_turn(e->device, move(e, n_nodes, nodes, n_moves, moves));
}

/* Setting the nodes of the kept graph costs less than building another one. */
static int update(hiprt_exec *e, hiprt_recorder *recorder) {
  int status = hiprt_graph_set(recorder, e->nodes);
  if (!status) status = hiprt_canary_set(&e->canary);
  if (status) return status;
  hipGraphNode_t error_node = 0;
  hipGraphExecUpdateResult result = hipGraphExecUpdateError;
  status = (int)hiprt_hip.hipGraphExecUpdate(e->handle, e->graph, &error_node, &result);
  if (status || result != hipGraphExecUpdateSuccess) {
    char detail[64];
    snprintf(detail, sizeof detail, "hipGraphExecUpdateResult %d", (int)result);
    return hiprt_fail(status ? status : (int)hipErrorGraphExecUpdateFailure, "hipGraphExecUpdate", detail);
  }
  e->updated_nodes += hiprt_recorder_size(recorder);
  e->updated_bytes += hiprt_recorder_bytes(recorder);
  carry(e, recorder);
  return 0;
}

int hiprt_exec_update(hiprt_exec *e, hiprt_recorder *recorder) {
  int status = same_key(e, recorder, "hiprt_exec_update");
  if (!status) status = take_turn(e->device);
  return status ? status : end_turn(e->device, update(e, recorder));
}

int hiprt_exec_device(const hiprt_exec *e) { return e->device; }
hiprt_recorder *hiprt_exec_recorder(const hiprt_exec *e) { return e->recorder; }

uint64_t hiprt_exec_launched(const hiprt_exec *e) { return e->launched; }
uint32_t hiprt_exec_overlaps(const hiprt_exec *e) { return e->overlaps; }
uint64_t hiprt_exec_updated_nodes(const hiprt_exec *e) { return e->updated_nodes; }
uint64_t hiprt_exec_updated_bytes(const hiprt_exec *e) { return e->updated_bytes; }
