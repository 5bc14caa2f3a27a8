/* The C core: everything Python may call. The text between the markers is what cffi reads; there is no other copy.
 *
 * Boundary: functions return a status (0, a hipError_t, or a negative HIPRT_E_*); the thread's last failure names the
 * call and the detail. Nothing here raises, prints or exits. The GIL is released around every call.
 * Ownership: *_create returns one reference, *_release gives it back; a recorder holds references to its kernels.
 * Threads: a recorder and a stream wrapper belong to one thread at a time; kernels may be shared. */
#pragma once
#include <stdint.h>

/* cffi begin */
typedef struct hiprt_kernel hiprt_kernel;
typedef struct hiprt_stream hiprt_stream;
typedef struct hiprt_recorder hiprt_recorder;
typedef struct hiprt_exec hiprt_exec;

#define HIPRT_E_LIBRARY -1   /* the library or one of its symbols cannot be loaded */
#define HIPRT_E_CLOSED -2    /* no library is open */
#define HIPRT_E_MEMORY -3    /* the host is out of memory */
#define HIPRT_E_ARGUMENT -4  /* an argument is out of range */
#define HIPRT_E_STALE -8     /* an executable graph does not carry a change that HIP reported as made */
#define HIPRT_E_FULL -6      /* the recording has reached its bound of nodes or bytes */
#define HIPRT_E_RECORDING -5 /* the call is not legal while the stream records, or needs a recording */

const char *hiprt_failure_call(void);
const char *hiprt_failure_detail(void);
const char *hiprt_status_name(int status);

/* Library: dlopen `path` and fill the function table. Final for the process. */
int hiprt_library_open(const char *path);
/* The same with the functions of hiprtc; once, before the first of them is called. */
int hiprt_compiler_open(const char *path);

/* Kernels. access[i]: 0 by value, 1 read, 2 write, 3 read and write. Buffers are 8-byte addresses. */
typedef struct {
  uint32_t size, alignment; /* bytes */
  uint32_t access;
} hiprt_argument;
hiprt_kernel *hiprt_kernel_create(uint64_t function, const char *name, uint32_t n_args, const hiprt_argument *args);
/* The kernel waits for earlier nodes by itself, in every thread, and before that reads only the buffers (counted without
 * values) whose bits are set: its node may start while the one before it still runs. Before the first launch. */
void hiprt_kernel_wait_itself(hiprt_kernel *kernel, uint64_t ahead);
/* A value holds an address, `offset` bytes from its start, which moves with the memory it points to. Nothing else in a
 * value is ever changed. Before the first launch. */
int hiprt_kernel_hold_address(hiprt_kernel *kernel, uint32_t argument, uint32_t offset);
void hiprt_kernel_retain(hiprt_kernel *kernel);
void hiprt_kernel_release(hiprt_kernel *kernel);
uint32_t hiprt_kernel_references(const hiprt_kernel *kernel); /* at this moment: recordings and execs hold some */
/* A launch is a payload, which is also what a node keeps: uint32 grid[3] block[3] shared zero | the arguments as the
 * kernel reads them, each at its alignment, with zeros between them and up to a multiple of 8 | uint64 {start, end} for
 * each buffer, in argument order: the bytes that the kernel may touch through it. A payload is aligned to 16. */

/* Memory [start, end) moves to `to`. Several moves are ascending and disjoint. */
typedef struct {
  uint64_t start, end, to;
} hiprt_move;
/* Where an address is after the moves. */
uint64_t hiprt_moved(uint64_t address, uint32_t n_moves, const hiprt_move *moves);
/* Give a payload the addresses it has after the moves. */
void hiprt_kernel_move(const hiprt_kernel *kernel, char *payload, uint32_t n_moves, const hiprt_move *moves);

/* Streams: a HIP stream and, while it records, its recorder. */
hiprt_stream *hiprt_stream_create(uint64_t handle, int device);
void hiprt_stream_release(hiprt_stream *stream); /* the wrapper, not the stream */
/* The handle stays valid until hiprt_stream_close, which comes before the stream is destroyed. */
void hiprt_stream_own(hiprt_stream *stream);
void hiprt_stream_close(hiprt_stream *stream);
int hiprt_stream_record(hiprt_stream *stream, hiprt_recorder *recorder); /* NULL ends the recording */
int hiprt_stream_synchronize(hiprt_stream *stream);
uint64_t hiprt_stream_launches(const hiprt_stream *stream); /* kernels and graphs handed to HIP so far */
int hiprt_launch(hiprt_stream *stream, hiprt_kernel *kernel, const char *payload, uint32_t nbytes);
/* kind: 1 host to device, 2 device to host, 3 device to device. Only 3 can be recorded. */
int hiprt_copy(hiprt_stream *stream, uint64_t dst, uint64_t src, uint64_t nbytes, int kind);
/* Fill count elements of width 1, 2 or 4 bytes. */
int hiprt_fill(hiprt_stream *stream, uint64_t dst, uint32_t value, uint32_t width, uint64_t count);
/* Work that declares nothing orders itself after everything before it and before everything after it. */
int hiprt_barrier(hiprt_stream *stream);

/* Recorders: nodes in program order, edges from their byte ranges. */
#define HIPRT_NODE_KERNEL 0
#define HIPRT_NODE_COPY 1
#define HIPRT_NODE_FILL 2
#define HIPRT_NODE_EMPTY 3
typedef struct {
  uint32_t kind;
  hiprt_kernel *kernel;   /* borrowed; NULL unless a kernel */
  const char *name;       /* borrowed */
  const char *payload;    /* borrowed; a kernel's starts with uint32 grid[3] block[3] shared zero */
  uint32_t payload_size;
  const uint32_t *deps;   /* borrowed; earlier nodes this one waits for, ascending */
  uint32_t n_deps;
  const uint64_t *ranges; /* borrowed, or own: {start, end} of each piece of memory the node declares */
  const uint8_t *access;  /* of each piece: 1 read, 2 write, 3 both */
  const uint32_t *addresses; /* borrowed: where the payload of a kernel holds addresses that are no buffers */
  uint32_t n_addresses;
  uint32_t may_overlap;   /* it waits itself, and nothing before it wrote what it reads ahead of that */
  uint32_t n_ranges;
  uint64_t own[4];
} hiprt_node;
/* edges: 1 data (what must wait, waits), 2 chain (program order), 3 both, with nothing reduced. */
hiprt_recorder *hiprt_recorder_create(uint32_t edges);
void hiprt_recorder_release(hiprt_recorder *recorder);
void hiprt_recorder_reset(hiprt_recorder *recorder);
/* Bounds after which recording says HIPRT_E_FULL; 0: none. bytes: of distinct memory declared. */
void hiprt_recorder_limit(hiprt_recorder *recorder, uint32_t nodes, uint64_t bytes);
/* Append nodes [begin, end) of a recording to another, with edges among themselves; all of them: with the same edges. */
int hiprt_recorder_slice(const hiprt_recorder *from, uint32_t begin, uint32_t end, hiprt_recorder *into);
/* Nodes with a buffer that begins in [start, end), or another address in it; out_nodes has room for all nodes. */
uint32_t hiprt_recorder_users(const hiprt_recorder *recorder, uint64_t start, uint64_t end, uint32_t *out_nodes);
uint32_t hiprt_recorder_size(const hiprt_recorder *recorder);
uint64_t hiprt_recorder_edges(const hiprt_recorder *recorder);
int hiprt_recorder_node(const hiprt_recorder *recorder, uint32_t index, hiprt_node *out_node);
/* Hash of the topology key (functions, dimensions, shared memory, edges); equal keys need hiprt_recorder_same_key too. */
uint64_t hiprt_recorder_key(const hiprt_recorder *recorder);
/* Hash of the argument bytes of all nodes: arguments that come back are recognised by it. */
uint64_t hiprt_recorder_arguments(const hiprt_recorder *recorder);
int hiprt_recorder_same_key(const hiprt_recorder *a, const hiprt_recorder *b);
uint64_t hiprt_recorder_bytes(const hiprt_recorder *recorder); /* of all payloads */
/* Number of nodes whose arguments differ between two recordings of one key, the first of them, and the bytes of all. */
uint32_t hiprt_recorder_changed(const hiprt_recorder *a, const hiprt_recorder *b, uint32_t *out_first, uint64_t *out_bytes);
/* Give all nodes the addresses they have after the moves. */
void hiprt_recorder_relocate(hiprt_recorder *recorder, uint32_t n_moves, const hiprt_move *moves);
/* Launch every node in program order on a stream that does not record. */
int hiprt_recorder_run(const hiprt_recorder *recorder, hiprt_stream *stream);

/* Execs: an executable graph, the graph it was instantiated from, and the recording both were made of. */
/* fanout: the most edges that leave a node, at least 2; 0: no bound, and as many roots as there are. overlap: nodes that
 * may start before the one they depend on has finished do, where the library has programmatic edges. canary: a kernel
 * (uint32_t *word, uint32_t value) that writes the value, to find changes that HIP reports and does not make; or NULL:
 * with one, busy, wait, patch, update and move may return HIPRT_E_STALE. Takes references to recorder and canary. */
int hiprt_exec_create(hiprt_recorder *recorder, int device, uint32_t fanout, int overlap, hiprt_kernel *canary,
                      hiprt_exec **out_exec);
void hiprt_exec_release(hiprt_exec *exec);     /* waits for its last launch */
/* is_fenced: an event follows, that says when this launch is done. Without, on an own stream, who asks later hears when
 * all is done that is on the stream by then. */
int hiprt_exec_launch(hiprt_exec *exec, hiprt_stream *stream, int is_fenced);
uint64_t hiprt_exec_launched(const hiprt_exec *exec); /* number of its last launch, counted over all execs; 0: none */
int hiprt_exec_busy(hiprt_exec *exec);         /* 1: a launch is in flight, 0: drained, < 0 or hipError_t: failure */
int hiprt_exec_wait(hiprt_exec *exec);         /* until it is drained */
/* Make the exec carry the arguments of `recorder` (same key): node by node where they differ, or all by
 * hipGraphExecUpdate. The exec must be drained, and discarded when this fails: some nodes may be changed already. */
int hiprt_exec_patch(hiprt_exec *exec, hiprt_recorder *recorder, uint32_t *out_patched);
int hiprt_exec_update(hiprt_exec *exec, hiprt_recorder *recorder);
/* Give the listed nodes the addresses they have after the moves; the edges stay. */
int hiprt_exec_move(hiprt_exec *exec, uint32_t n_nodes, const uint32_t *nodes, uint32_t n_moves, const hiprt_move *moves);
uint64_t hiprt_exec_updated_bytes(const hiprt_exec *exec); /* argument bytes written by patches and updates so far */
uint64_t hiprt_exec_updated_nodes(const hiprt_exec *exec);
uint32_t hiprt_exec_overlaps(const hiprt_exec *exec); /* nodes with a programmatic edge */
hiprt_recorder *hiprt_exec_recorder(hiprt_exec *exec); /* borrowed */
/* Whether hipGraphExecUpdate refuses a graph with other edges between the same nodes. */
int hiprt_probe_wiring(int device, int *out_refused);

/* Block pools: memory from somewhere else, taken in chunks and given out in blocks. Thread safe; never calls back.
 * A lane is a stream as a pool sees it; it belongs to its pool. `number` is unique for the life of the process. */
#define HIPRT_E_LIMIT -7     /* a limit in bytes would be exceeded */
typedef struct hiprt_pool hiprt_pool;
typedef struct hiprt_lane hiprt_lane;
typedef struct {
  uint64_t address, nbytes;
} hiprt_block;
typedef struct {
  uint64_t allocated, reserved, peak, largest_free, retiring;
  uint32_t blocks, chunks;
} hiprt_pool_sizes;
typedef struct {
  uint64_t address, nbytes, chunk, lane;
  uint32_t is_used;
} hiprt_pool_entry;
hiprt_pool *hiprt_pool_create(void);
void hiprt_pool_release(hiprt_pool *pool);  /* the books go with the last block that is given back */
uint64_t hiprt_pool_class(uint64_t nbytes); /* size of the block that serves a request */
/* can_fence: the stream's handle is known, and stays valid until hiprt_pool_close. */
hiprt_lane *hiprt_pool_lane(hiprt_pool *pool, uint64_t number, uint64_t stream, int device, int can_fence);
/* The stream is no longer known from now on; the lane is invalid. can_fence: it is still open, and its work so far is
 * fenced now; without, its blocks wait for a forced trim. is_gone: nobody launches on it any more. */
void hiprt_pool_close(hiprt_pool *pool, hiprt_lane *lane, int can_fence, int is_gone);
/* A block of the lane's own, for work behind all that is on the stream by now; NULL if none fits. */
hiprt_block *hiprt_pool_take(hiprt_pool *pool, hiprt_lane *lane, uint64_t nbytes);
/* The same from the other lanes of the device, if what they did with the block is known to be done. Without wait, fences
 * are put behind it, so that a later call knows; with wait, this call waits for them. */
int hiprt_pool_take_over(hiprt_pool *pool, hiprt_lane *lane, uint64_t nbytes, int wait, hiprt_block **out_block);
/* Put fences behind all that is free, and with wait, wait for them. Another lane than `lane` only, unless it is NULL. */
int hiprt_pool_settle(hiprt_pool *pool, const hiprt_lane *lane, int wait);
/* Retiring: bytes that are free, but only for the lane that freed them, as far as is known. `lane`: not counted. */
uint64_t hiprt_pool_retiring(hiprt_pool *pool, const hiprt_lane *lane);
void hiprt_pool_give(hiprt_pool *pool, hiprt_block *block);
/* Grow: reserve, get memory, then add it as a block in use, or cancel. limit: of all chunks, in bytes; 0: none.
 * needs_idle: whoever gets the chunk back does not wait for the work that used it. */
int hiprt_pool_reserve(hiprt_pool *pool, uint64_t nbytes, uint64_t limit);
void hiprt_pool_cancel(hiprt_pool *pool, uint64_t nbytes);
hiprt_block *hiprt_pool_add(hiprt_pool *pool, hiprt_lane *lane, uint64_t number, uint64_t address, uint64_t nbytes,
                            int needs_idle);
/* Forget chunks that nobody uses, at most `capacity`; their numbers tell the owner what to give back. Those that need it
 * stay until they are known to be idle, unless forced: then the caller has waited for the device. */
uint32_t hiprt_pool_trim(hiprt_pool *pool, int force, uint32_t capacity, uint64_t *out_numbers);
void hiprt_pool_measure(hiprt_pool *pool, hiprt_pool_sizes *out_sizes);
uint32_t hiprt_pool_list(hiprt_pool *pool, uint32_t capacity, hiprt_pool_entry *out_entries); /* the number there is */
/* Set this thread's capture mode (hipStreamCaptureMode), where the library has such a thing; returns the one before. In
 * relaxed mode, 2, asking for memory and for events leaves the captures of others alone. */
int hiprt_capture_mode(int mode);
/* cffi end */
