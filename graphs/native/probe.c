#include "probe.h"

#include "capture.h"
#include "exec.h"
#include "recording.h"
#include "status.h"

/* A change that is lost need not show every time: CLR flushes arguments at instantiate only. */
enum { REPEATS = 64, OTHERS = HIPRT_PROBE_WORDS - 1, WORD = sizeof(uint32_t) };

/* Add three empty nodes, the last of which waits for the one that `parent` names. */
static int add_three(hipGraph_t graph, int parent) {
  hipGraphNode_t nodes[3];
  HIPRT_TRY(hipGraphAddEmptyNode, nodes, graph, 0, 0);
  HIPRT_TRY(hipGraphAddEmptyNode, nodes + 1, graph, nodes, 1);
  HIPRT_TRY(hipGraphAddEmptyNode, nodes + 2, graph, nodes + parent, 1);
  return 0;
}

static int update(hipGraph_t from, hipGraph_t to, int *out_refused) {
  hipGraphExec_t exec;
  hipGraphNode_t error_node = 0;
  hipGraphExecUpdateResult result = hipGraphExecUpdateSuccess;
  int status = add_three(from, 0);
  if (!status) status = add_three(to, 1);
  if (status) return status;
  HIPRT_TRY(hipGraphInstantiate, &exec, from, 0, 0, 0);
  *out_refused = hiprt_hip.hipGraphExecUpdate(exec, to, &error_node, &result) != hipSuccess;
  HIPRT_TRY(hipGraphExecDestroy, exec);
  return 0;
}

int hiprt_probe_wiring(int device, int *out_refused) {
  hipGraph_t from, to;
  HIPRT_TRY(hipSetDevice, device);
  HIPRT_TRY(hipGraphCreate, &from, 0);
  int status = (int)hiprt_hip.hipGraphCreate(&to, 0);
  if (status) {
    hiprt_fail(status, "hipGraphCreate", 0);
  } else {
    status = update(from, to, out_refused);
    hiprt_hip.hipGraphDestroy(to);
  }
  hiprt_hip.hipGraphDestroy(from);
  return status;
}

/* What a probe of a rung works with. */
typedef struct {
  hiprt_stream *stream;
  hiprt_kernel *store;
  uint64_t words; /* the address of one for the graph, and of one for each of the others */
} bench;

/* Record one launch that writes a word. */
static int record(const bench *b, uint32_t index, uint32_t value, hiprt_recorder **out_recorder) {
  static const hiprt_dims one = {.grid = {1, 1, 1}, .block = {1, 1, 1}};
  static const uint64_t nbytes = WORD;
  uint64_t word = b->words + index * nbytes;
  void *const args[] = {&word, &value};
  int status = hiprt_recorder_create(HIPRT_EDGES_DATA, out_recorder);
  if (status) return status;
  status = hiprt_recorder_start(*out_recorder, b->stream, 0);
  if (!status) {
    status = hiprt_launch_kernel(b->stream, b->store, &one, args, &nbytes);
    hiprt_stream_stop(b->stream);
  }
  if (!status) return 0;
  hiprt_recorder_release(*out_recorder);
  *out_recorder = 0;
  return status;
}

static int make(const bench *b, uint32_t index, uint32_t value, hiprt_exec **out_exec) {
  hiprt_recorder *recorder;
  *out_exec = 0;
  int status = record(b, index, value, &recorder);
  if (!status) status = hiprt_exec_create(recorder, b->stream->device, 4, 0, 0, out_exec);
  hiprt_recorder_release(recorder);
  return status;
}

static int change(const bench *b, hiprt_exec *exec, uint32_t rung, uint32_t value) {
  hiprt_recorder *recorder;
  uint32_t patched;
  int status = record(b, 0, value, &recorder);
  if (!status && rung == HIPRT_PATCH) status = hiprt_exec_patch(exec, recorder, &patched);
  if (!status && rung == HIPRT_UPDATE) status = hiprt_exec_update(exec, recorder);
  hiprt_recorder_release(recorder);
  return status;
}

static int launch(const bench *b, hiprt_exec *exec, uint32_t *out_seen) {
  int ran, status = hiprt_exec_launch(exec, b->stream, 1, &ran);
  if (!status) status = hiprt_copy(b->stream, (uintptr_t)out_seen, b->words, WORD, hipMemcpyDeviceToHost);
  return status ? status : hiprt_stream_synchronize(b->stream);
}

/* Make other graphs: a library that keeps pointers to arguments, and not the arguments, finds those of the last one. */
static int make_others(const bench *b, hiprt_exec **execs) {
  int status = 0;
  for (uint32_t i = 0; !status && i < OTHERS; i++) status = make(b, 1 + i, REPEATS + i, execs + i);
  return status;
}

static int try_rung(const bench *b, uint32_t rung, uint32_t *out_wanted, uint32_t *out_seen) {
  hiprt_exec *exec, *others[OTHERS] = {0};
  const uint32_t changes = rung == HIPRT_INSTANTIATE ? 0 : REPEATS - 1;
  *out_wanted = 0;
  int status = make(b, 0, 0, &exec);
  if (!status) status = make_others(b, others);
  if (!status) status = launch(b, exec, out_seen);
  while (!status && *out_seen == *out_wanted && *out_wanted < changes) {
    status = change(b, exec, rung, ++*out_wanted);
    if (!status) status = launch(b, exec, out_seen);
  }
  for (uint32_t i = 0; i < OTHERS; i++) hiprt_exec_release(others[i]);
  hiprt_exec_release(exec);
  return status;
}

static int is_store(const hiprt_kernel *k) {
  return k->n_args == 2 && k->args[0].access & HIPRT_WRITE && !k->args[1].access && k->args[1].size == sizeof(uint32_t);
}

int hiprt_probe_rung(hiprt_stream *stream, hiprt_kernel *store, uint64_t words, uint32_t rung, uint32_t *out_wanted,
                     uint32_t *out_seen) {
  const char *const call = "hiprt_rules_probe";
  const bench b = {stream, store, words};
  *out_wanted = *out_seen = 0;
  if (!is_store(store))
    return hiprt_fail(HIPRT_E_ARGUMENT, call, "the kernel is not declared as (uint32_t *word, uint32_t value)");
  if (hiprt_stream_records(stream)) return hiprt_fail(HIPRT_E_RECORDING, call, "the stream is recording");
  int status = hiprt_stream_ready(stream, call);
  if (status) return status;
  const int mode = hiprt_capture_mode(hipStreamCaptureModeRelaxed);
  status = hiprt_fill(stream, words, UINT32_MAX, WORD, HIPRT_PROBE_WORDS);
  if (!status) status = try_rung(&b, rung, out_wanted, out_seen);
  if (status) hiprt_hip.hipStreamSynchronize(stream->handle); /* the words are the caller's again */
  hiprt_capture_mode(mode);
  return status;
}

/* Whether a rung is right; a status that says nothing about it, or 0. */
static int ask_rung(hiprt_stream *stream, hiprt_kernel *store, uint64_t words, uint32_t rung, int *out_is_right) {
  uint32_t wanted, seen;
  const int status = hiprt_probe_rung(stream, store, words, rung, &wanted, &seen);
  *out_is_right = !status && wanted == seen;
  return status < 0 || status == hipErrorOutOfMemory ? status : 0;
}

int hiprt_rules_probe(hiprt_stream *stream, hiprt_kernel *store, uint64_t words, uint32_t *out_rungs) {
  static const uint32_t rungs[] = {HIPRT_INSTANTIATE, HIPRT_PATCH, HIPRT_UPDATE};
  int is_right = 1;
  *out_rungs = 1u << HIPRT_REPLAY | 1u << HIPRT_EAGER;
  for (uint32_t i = 0; i < sizeof rungs / sizeof *rungs; i++) {
    const int status = ask_rung(stream, store, words, rungs[i], &is_right);
    if (status) return status;
    if (is_right) *out_rungs |= 1u << rungs[i];
    if (!i && !is_right) break; /* without graphs there is nothing to change */
  }
  return 0;
}
