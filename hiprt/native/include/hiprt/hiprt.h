/* libhiprt: steps of HIP work that are launched as one graph, for engines in C, C++ or any language that calls C.
 *
 * An engine opens the HIP library, wraps its streams and functions, and puts each step's launches between
 * hiprt_step_begin and hiprt_step_end. The step becomes a graph whose edges follow from what each kernel reads and
 * writes, and is launched by the first rung that serves: replay, patch, update, instantiate, eager.
 *
 * What holds for every function, unless its comment says otherwise:
 * - A function returns 0, a hipError_t (positive) or a HIPRT_E_* (negative). One that returns a pointer returns NULL
 *   where it fails. hiprt_failure_call and hiprt_failure_detail say more, for the thread that called.
 * - Addresses of device memory and HIP's handles are numbers of 64 bits.
 * - Pointers that are passed are read during the call and not kept. What a create function returns belongs to its
 *   caller, who gives it up with the release function of the same noun; NULL is released without effect.
 * - Releasing is legal in any order: what a step still needs it keeps alive by itself, but for HIP's own objects, which
 *   the engine destroys after the last step that used them has finished and was released. */
#ifndef HIPRT_HIPRT_H
#define HIPRT_HIPRT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef HIPRT_BUILDS_LIBRARY
#pragma GCC visibility push(default)
#endif

/* cffi begin */

/* ---- versions ---- */

#define HIPRT_VERSION 100 /* 10000 * major + 100 * minor + patch of this header */
#define HIPRT_ABI 1       /* it grows when a function or a structure here changes; what is only added leaves it */

/* Return the HIPRT_VERSION of the library.
 * Ownership: none. Threads: any. Errors: none. */
int hiprt_version(void);

/* ---- statuses ---- */

#define HIPRT_E_LIBRARY -1   /* the library or one of its symbols cannot be loaded */
#define HIPRT_E_CLOSED -2    /* no library is open, or the stream is closed */
#define HIPRT_E_MEMORY -3    /* the host is out of memory */
#define HIPRT_E_ARGUMENT -4  /* an argument is out of range */
#define HIPRT_E_RECORDING -5 /* the call is not legal while the stream records */
#define HIPRT_E_FULL -6      /* the recording has reached its bound of nodes or bytes */
#define HIPRT_E_LIMIT -7     /* a limit in bytes would be exceeded */
#define HIPRT_E_STALE -8     /* an executable graph does not carry a change that HIP reported as made */
#define HIPRT_E_FORKED -9    /* the process was forked from one that had opened a library */
#define HIPRT_E_CAPTURED -10 /* other code put work on the stream that records, which is to be taken in first */
#define HIPRT_E_FOREIGN -11  /* work of other code cannot be a node */
#define HIPRT_E_ABI -12      /* the program was compiled for another HIPRT_ABI */

/* Return the status of the failure that was the last on this thread, the name of the call, and what else is known about
 * it; 0 and empty texts before the first one. A function that returns NULL leaves its status here.
 * Ownership: the texts are the thread's; they are valid until its next failure. Threads: any; each has its own.
 * Errors: none. */
int hiprt_failure_status(void);
const char *hiprt_failure_call(void);
const char *hiprt_failure_detail(void);
/* Return the name of a status; all of HIP's have the name hipError_t.
 * Ownership: the text is static. Threads: any. Errors: none. */
const char *hiprt_status_name(int status);

/* ---- the library ---- */

/* Open the HIP library that all work goes to.
 * provider: `cpu`, `null` or `nvidia` for the libraries of hiprt; `rocm` for the libamdhip64.so that the dynamic linker
 * finds; a path; or NULL for the HIP library that the process has loaded. abi: HIPRT_ABI.
 * Ownership: the library stays open for the process. Threads: any; the first choice is final.
 * Errors: HIPRT_E_ABI, HIPRT_E_LIBRARY, HIPRT_E_ARGUMENT where NULL finds no library. */
int hiprt_open(const char *provider, uint32_t abi);

/* ---- streams ---- */

typedef struct hiprt_stream hiprt_stream;

/* Wrap a HIP stream (hipStream_t) of a device.
 * Ownership: the HIP stream stays the caller's. Each wrapper of one HIP stream is a stream of its own; make one.
 * Threads: any. Errors: HIPRT_E_ARGUMENT where an open library has no such device; HIPRT_E_MEMORY. */
int hiprt_stream_create(uint64_t handle, int device, hiprt_stream **out_stream);
/* Give up a wrapper; the HIP stream stays.
 * Ownership: ends. Threads: any. Errors: none. */
void hiprt_stream_release(hiprt_stream *stream);
/* Promise that the HIP stream stays valid until hiprt_stream_close, which makes replays cheaper: no event is recorded
 * behind them.
 * Ownership: unchanged. Threads: before the first launch. Errors: none. */
void hiprt_stream_own(hiprt_stream *stream);
/* Say that nothing more comes, before the HIP stream is destroyed. is_valid: it can still be used now.
 * Ownership: unchanged. Threads: any. Errors: none. */
void hiprt_stream_close(hiprt_stream *stream, int is_valid);
/* Wait for the stream's work.
 * Ownership: unchanged. Threads: any. Errors: HIPRT_E_RECORDING, HIPRT_E_CLOSED, a hipError_t. */
int hiprt_stream_synchronize(hiprt_stream *stream);

/* ---- kernels ---- */

typedef struct hiprt_kernel hiprt_kernel;

/* What a kernel does with an argument. A buffer is an address of 8 bytes. */
enum hiprt_access { HIPRT_BY_VALUE = 0, HIPRT_READ = 1, HIPRT_WRITE = 2, HIPRT_READ_WRITE = 3 };

typedef struct {
  uint32_t size, alignment; /* in bytes */
  uint32_t access;          /* hiprt_access */
} hiprt_argument;

/* The dimensions of a launch: blocks, threads of a block, and bytes of dynamic shared memory. */
typedef struct {
  uint32_t grid[3], block[3];
  uint32_t shared;
  uint32_t zero;
} hiprt_dims;

/* Declare a kernel: a hipFunction_t, a name for messages, and its arguments, at most 64 of 4096 bytes together. The
 * declaration is believed: where it is not the kernel's, launches read and write other memory, as those of
 * hipModuleLaunchKernel do.
 * Ownership: the function's module stays the caller's. Threads: any. Errors: HIPRT_E_ARGUMENT, HIPRT_E_MEMORY. */
int hiprt_kernel_create(uint64_t function, const char *name, uint32_t n_args, const hiprt_argument *args,
                        hiprt_kernel **out_kernel);
/* Say that a value has an address in it, 8 bytes at `offset` bytes from its start: a member of a structure, or all of a number.
 * Where hiprt_step_move moves the memory that it points to, it follows; nothing else in a value is ever changed. It makes no
 * edge: where other nodes write that memory, a buffer or hiprt_barrier has to.
 * Ownership: unchanged. Threads: before the first launch. Errors: HIPRT_E_ARGUMENT where no value has 8 bytes there, or a part
 * of them is in another address; HIPRT_E_MEMORY. */
int hiprt_kernel_hold_address(hiprt_kernel *kernel, uint32_t argument, uint32_t offset);
/* Take one more reference to a kernel, or give one up; recordings and executable graphs hold some.
 * Ownership: counted. Threads: any. Errors: none. */
void hiprt_kernel_retain(hiprt_kernel *kernel);
void hiprt_kernel_release(hiprt_kernel *kernel);

/* ---- work: the next four queue it, or record it as a node while this thread records on the stream ---- */

/* Launch a kernel. args: a pointer to each argument, as for hipModuleLaunchKernel. nbytes: for each buffer, in order of
 * the arguments, how many bytes from its address the kernel may touch.
 * Ownership: arguments are copied. Threads: any; a recording takes only its own thread's work. Errors: HIPRT_E_ARGUMENT
 * where memory would end past the last address, HIPRT_E_MEMORY, HIPRT_E_FULL, HIPRT_E_CAPTURED, HIPRT_E_CLOSED, a
 * hipError_t. */
int hiprt_launch_kernel(hiprt_stream *stream, hiprt_kernel *kernel, const hiprt_dims *dims, void *const *args,
                        const uint64_t *nbytes);
/* Copy nbytes. kind: a hipMemcpyKind. Only copies within the device can be recorded.
 * Ownership: none. Threads and errors: as hiprt_launch_kernel, and HIPRT_E_RECORDING. */
int hiprt_copy(hiprt_stream *stream, uint64_t dst, uint64_t src, uint64_t nbytes, int kind);
/* Fill count elements of width 1, 2 or 4 bytes.
 * Ownership: none. Threads and errors: as hiprt_launch_kernel. */
int hiprt_fill(hiprt_stream *stream, uint64_t dst, uint32_t value, uint32_t width, uint64_t count);
/* Order everything recorded after it behind everything before it, for work whose memory is not declared; eager work is
 * in order anyway.
 * Ownership: none. Threads and errors: as hiprt_launch_kernel. */
int hiprt_barrier(hiprt_stream *stream);

/* ---- memory: a pool, for engines that have none ---- */

typedef struct hiprt_pool hiprt_pool;

/* Memory that a pool gave out: where it is, and its bytes, at least those that were asked for. */
typedef struct {
  uint64_t address, nbytes;
} hiprt_block;

/* What a pool holds; in bytes, but for the last two. */
typedef struct {
  uint64_t allocated;    /* in the hands of the engine */
  uint64_t reserved;     /* taken from HIP */
  uint64_t peak;         /* the most that was allocated at once */
  uint64_t largest_free; /* the largest block that is free */
  uint64_t retiring;     /* free, and as far as is known still in use on the stream that it was allocated for */
  uint32_t blocks, chunks;
} hiprt_pool_stats;

/* Make a pool of a device's memory. It takes memory from HIP with hipMalloc where it has none that fits, keeps what is freed,
 * and gives it out again in the order of the streams. limit: the most bytes that it takes from HIP; 0: no bound.
 * Ownership: the caller's. Threads: any. Errors: HIPRT_E_CLOSED, HIPRT_E_ARGUMENT where there is no such device,
 * HIPRT_E_MEMORY. */
int hiprt_pool_create(int device, uint64_t limit, hiprt_pool **out_pool);
/* Give up a pool. Its memory goes back to HIP with the last block that is freed.
 * Ownership: ends. Threads: any. Errors: none. */
void hiprt_pool_release(hiprt_pool *pool);
/* Allocate memory for work that is put on the stream from now on; what it holds is not defined. A block that was freed on the
 * same stream is used at once; one of another stream once the work before its free is known to be done. A sequence of calls
 * that comes again gets the addresses that it had before. nbytes is rounded up, by at most an eighth of it, to 512 at least.
 * Only where no block fits and HIP has no memory left, or `limit` is reached, other streams are waited for.
 * Ownership: the block is the caller's until hiprt_pool_free, and the stream must not be closed before hiprt_pool_leave.
 * Threads: any. Errors: HIPRT_E_ARGUMENT where the stream is of another device; HIPRT_E_LIMIT, HIPRT_E_MEMORY, HIPRT_E_CLOSED,
 * hipErrorOutOfMemory: nothing is allocated. */
int hiprt_pool_allocate(hiprt_pool *pool, hiprt_stream *stream, uint64_t nbytes, hiprt_block **out_block);
/* Free a block behind the work that is on its stream by now. Work of other streams with it is to be ordered before that. What
 * a step has in its nodes stays allocated as long as the step launches them.
 * Ownership: ends. Threads: any. Errors: none; NULL is freed without effect. */
void hiprt_pool_free(hiprt_pool *pool, hiprt_block *block);
/* Say that nothing more is allocated for a stream, before it is closed: others may have its blocks once its work is done.
 * Ownership: unchanged; blocks that are out stay valid. Threads: any that does not allocate for the stream. Errors: none. */
void hiprt_pool_leave(hiprt_pool *pool, hiprt_stream *stream);
/* Give memory of which no block is out back to HIP, which may wait for the device. *out_nbytes, unless NULL: how much.
 * Ownership: unchanged. Threads: any. Errors: HIPRT_E_RECORDING while work of other code is being captured. */
int hiprt_pool_trim(hiprt_pool *pool, uint64_t *out_nbytes);
/* Tell what the pool holds.
 * Ownership: none. Threads: any. Errors: none. */
void hiprt_pool_count(hiprt_pool *pool, hiprt_pool_stats *out_stats);

/* ---- rungs ---- */

/* How a step is launched; a set of rungs has the bit 1 << rung. */
enum hiprt_rung { HIPRT_REPLAY = 0, HIPRT_PATCH = 1, HIPRT_UPDATE = 2, HIPRT_INSTANTIATE = 3, HIPRT_EAGER = 4 };

#define HIPRT_RUNGS 31u     /* all of them */
#define HIPRT_REASON 160    /* bytes of a reason's text */
#define HIPRT_OF_KERNEL 128 /* bytes of a kernel's name */

/* What a step may do. */
typedef struct {
  uint32_t rungs;           /* the set of rungs that the machine is trusted with; without instantiate, all is eager */
  uint32_t slots;           /* the most executable graphs of one topology that take turns */
  uint32_t keys;            /* the most topologies that are kept; the one used longest ago is dropped */
  uint32_t fanout;          /* the most edges that leave a node, at least 2; 0: no bound, and as many roots as there */
                            /* are, whose order some releases of ROCm do not keep, and hiprt_rules_probe does not see */
  uint32_t overlap;         /* whether kernels that wait by themselves may start early */
  uint32_t zero;
  uint64_t budget_nodes;    /* the most nodes, and bytes of arguments, that are patched or updated in the life of an */
  uint64_t budget_bytes;    /* executable graph: ROCm leaks memory by each */
  hiprt_kernel *canary;     /* a kernel (uint32_t *word, uint32_t value) that writes the value, to find changes that */
                            /* HIP reports and does not make; or NULL */
} hiprt_rules;

/* Fill in what a step does that was given no rules: all rungs, and the defaults of HIPRT_GRAPH_* in docs/flags.md.
 * Ownership: none. Threads: any. Errors: none. */
void hiprt_rules_default(hiprt_rules *out_rules);
#define HIPRT_PROBE_WORDS 5 /* numbers of 32 bits that a probe writes */

/* Find out which rungs the stream's HIP library and device do right: small graphs are made, and patched and updated 64 times,
 * and each launch must see the newest value. store: a kernel (uint32_t *word, uint32_t value) that writes the value, as a
 * canary is; its first argument is declared as written. words: device memory for HIPRT_PROBE_WORDS numbers, which nothing else
 * uses meanwhile. *out_rungs: the set of rungs, for hiprt_rules; replay and eager are always in it. Whether structures that are
 * passed by value survive a patch is not looked at. It waits for the stream, and for no other, and takes milliseconds.
 * Ownership: the memory stays the caller's. Threads: any, on a stream on which no other thread works. Errors: HIPRT_E_ARGUMENT
 * where the kernel is declared in another way; HIPRT_E_RECORDING, HIPRT_E_CLOSED, HIPRT_E_MEMORY, hipErrorOutOfMemory: nothing
 * is known then. What HIP refuses in another way is a rung that it does not do right, which is no error. */
int hiprt_rules_probe(hiprt_stream *stream, hiprt_kernel *store, uint64_t words, uint32_t *out_rungs);

/* How a step was launched. */
typedef struct {
  uint32_t rung;    /* hiprt_rung */
  uint32_t nodes;   /* of the step */
  uint32_t changed; /* nodes with other arguments than those of the nearest executable graph */
  uint32_t first;   /* the first of them */
  double seconds;   /* what the patch, the update or the instantiation took on the host */
  char reason[HIPRT_REASON]; /* why it was no replay; empty for a replay */
  char node[HIPRT_OF_KERNEL]; /* the kernel of the first node with other arguments; empty if there is none */
} hiprt_outcome;

/* What a step has done so far. */
typedef struct {
  uint64_t rungs[5];   /* how often each hiprt_rung was taken */
  uint64_t patched;    /* nodes */
  uint64_t waited;     /* times that every slot was in flight */
  uint64_t replaced;   /* executable graphs whose budget was spent */
  uint64_t topologies; /* that came for which there was no executable graph */
  uint64_t execs;      /* executable graphs that exist now */
} hiprt_step_stats;

/* ---- steps ---- */

typedef struct hiprt_step hiprt_step;

/* Make a step. name: for messages. rules: NULL for those of hiprt_rules_default.
 * Ownership: the caller's; the canary is retained. Threads: any. Errors: NULL for HIPRT_E_CLOSED, HIPRT_E_ARGUMENT,
 * HIPRT_E_MEMORY. */
hiprt_step *hiprt_step_create(const char *name, const hiprt_rules *rules);
/* Give up a step. Its executable graphs are destroyed once their last launches are done, for which this waits.
 * Ownership: ends. Threads: any, when no other uses the step. Errors: none. */
void hiprt_step_release(hiprt_step *step);
/* Record what this thread puts on the stream from now on as the step's nodes. Another thread that begins the step waits
 * until this one has ended it.
 * Ownership: the stream is kept until the end. Threads: any; the one that began ends. Errors: HIPRT_E_RECORDING where
 * the thread has begun the step, or a recording is open on the stream; HIPRT_E_CLOSED, HIPRT_E_MEMORY. */
int hiprt_step_begin(hiprt_step *step, hiprt_stream *stream);
/* Take in work that other code puts on the stream, by stream capture, from now until hiprt_step_captured.
 * Ownership: none. Threads: the one that began. Errors: HIPRT_E_ARGUMENT, HIPRT_E_LIBRARY, a hipError_t. */
int hiprt_step_capture(hiprt_step *step);
/* Make nodes of the work taken in. ranges: what all of it reads and writes, first address and one past the last of each
 * (n_ranges pairs); access: hiprt_access of each. Without any the work is a barrier.
 * Ownership: none. Threads: the one that began. Errors: HIPRT_E_FOREIGN where some of it cannot be a node, and none of it
 * is; HIPRT_E_ARGUMENT, also where a range ends before it starts, HIPRT_E_MEMORY, a hipError_t. The step is then to be
 * cancelled. */
int hiprt_step_captured(hiprt_step *step, uint32_t n_ranges, const uint64_t *ranges, const uint8_t *access);
/* End the recording and launch it by the first rung that serves. out_outcome may be NULL. *out_ran: 0 if the call failed
 * and nothing of the step has run, 1 if some of it has, or may have; NULL where that is not asked.
 * Ownership: none. Threads: the one that began. Errors: where a graph call fails the nodes run eagerly, which is no error;
 * a status says that this failed too, that a node was lost (HIPRT_E_MEMORY), or that the graph may have run before it
 * failed. Either way the recording has ended. */
int hiprt_step_end(hiprt_step *step, hiprt_outcome *out_outcome, int *out_ran);
/* End the recording and launch nothing.
 * Ownership: none. Threads: the one that began. Errors: none; without a recording of this thread it does nothing. */
void hiprt_step_cancel(hiprt_step *step);
/* Launch a graph (hipGraph_t) that other code captured, or made, as the step's nodes, with the edges that it has; NVIDIA's
 * programmatic edges stay such where `overlap` of the rules is set. A later graph of the same work is compared with it, and
 * what differs is patched, instead of being instantiated. Where the HIP library does not tell a kernel's arguments, that
 * kernel counts as changed. out_outcome and out_ran: as for hiprt_step_end. is_given: nonzero gives the graph to the step;
 * with 0 it is copied where it is other work than the last.
 * Ownership: a graph that is given is the step's, also if this fails, and is destroyed when nothing needs it any more.
 * Threads: any, but for one that records the step; the calls take turns. Errors: HIPRT_E_FOREIGN where a node is none
 * that can be launched again (host functions, copies from or to the host, memory that is allocated or freed): nothing has
 * run. HIPRT_E_RECORDING, HIPRT_E_CLOSED; else as hiprt_step_end. */
int hiprt_step_adopt(hiprt_step *step, hiprt_stream *stream, uint64_t graph, int is_given, hiprt_outcome *out_outcome,
                     int *out_ran);
/* Launch again what the step launched last, with the same arguments.
 * Ownership: none. Threads: any; the calls take turns. Errors: HIPRT_E_ARGUMENT before the first hiprt_step_end; else as
 * hiprt_step_end. */
int hiprt_step_again(hiprt_step *step, hiprt_stream *stream, hiprt_outcome *out_outcome, int *out_ran);
/* Memory [start, end), of one byte at least, that lies at `to` from now on. */
typedef struct {
  uint64_t start, end, to;
} hiprt_move;

/* Launch again what the step launched last, with buffers at other addresses: every buffer that begins in memory that moves, and
 * every address in it that hiprt_kernel_hold_address has told of.
 * It costs nothing for nodes that use none of it. The moves are ascending and disjoint; memory may take the place of other
 * memory that moves. The edges stay, so that no memory that moves may come to lie where the step has another buffer, whether
 * the step uses that memory or not. It waits for the last launch of the executable graph, which is then patched; where the
 * rules or the budget allow no patch, it is launched by another rung.
 * Ownership: none. Threads: any, but for one that records the step; the calls take turns. Errors: HIPRT_E_ARGUMENT before
 * the first hiprt_step_end, where edges could change, where moves are empty, or not ascending and disjoint, where memory would
 * end past the last address, and where the step has work of other code in it, of which it is not known where its addresses are:
 * nothing has changed. Where HIP refuses a change its status: nothing has run, and the step is to be recorded again. Else as
 * hiprt_step_end. */
int hiprt_step_move(hiprt_step *step, hiprt_stream *stream, uint32_t n_moves, const hiprt_move *moves,
                    hiprt_outcome *out_outcome, int *out_ran);
/* The first difference that hiprt_step_verify found. */
typedef struct {
  uint32_t differs; /* 0: there is none, and the rest is 0 */
  uint32_t node;    /* the first node that differs in a byte which no later node has written over */
  uint64_t address; /* of that byte */
  char name[HIPRT_OF_KERNEL]; /* of the node's kernel, or copy, or fill */
} hiprt_mismatch;

/* Launch again what the step launched last, then run its nodes eagerly from the same state, and compare all that they
 * declare to write. The eager results stay. A graph that differs is dropped, and the next launch makes another one. It
 * copies that memory to the host four times and waits for the stream: it is for tests. What a kernel writes without
 * declaring it is not seen. *out_ran: whether the graph has run, or may have, where it fails.
 * Ownership: none. Threads: any, but for one that records the step; the calls take turns. Errors: HIPRT_E_ARGUMENT before
 * the first hiprt_step_end, where the step ran eagerly, and where a node does not tell what it writes (work of other code,
 * kernels that declare nothing): nothing has run. HIPRT_E_RECORDING, HIPRT_E_MEMORY, HIPRT_E_CLOSED, a hipError_t. */
int hiprt_step_verify(hiprt_step *step, hiprt_stream *stream, hiprt_mismatch *out_mismatch, int *out_ran);
/* Write how the last launch of the step went, as text: the rung, why it was no replay, and the first node and argument
 * that differ from the launch before, in hexadecimal. As much is written as `room` bytes hold, with a zero at the end.
 * *out_size, unless NULL: the bytes that all of it takes.
 * Ownership: the text is the caller's. Threads: any, but for one that records the step. Errors: HIPRT_E_ARGUMENT before the
 * first hiprt_step_end; HIPRT_E_RECORDING. */
int hiprt_step_explain(hiprt_step *step, char *out_text, uint64_t room, uint64_t *out_size);
/* Write what the step launched last as JSON: nodes with dimensions, arguments, the memory they declare and the nodes they
 * wait for, and the edges, by the names that the files of HIPRT_GRAPH_DUMP have.
 * Ownership, threads, errors, and the other arguments: as hiprt_step_explain. */
int hiprt_step_dump(hiprt_step *step, char *out_text, uint64_t room, uint64_t *out_size);
/* Tell what the step has done so far.
 * Ownership: none. Threads: any, but for one that records the step. Errors: none. */
void hiprt_step_count(hiprt_step *step, hiprt_step_stats *out_stats);

/* ---- memory plans: the intermediates of a step in one block ---- */

/* An intermediate of a step: the bytes [start, end), by the addresses that its launches are given. */
typedef struct {
  uint64_t start, end;
  uint32_t is_kept; /* it is read after the step, so that nothing which is used later may lie there */
  uint32_t zero;
} hiprt_intermediate;

/* The size of a plan, in bytes but for the last. */
typedef struct {
  uint64_t nbytes;      /* of the block */
  uint64_t lower_bound; /* no plan is smaller */
  uint64_t requested;   /* all intermediates, side by side */
  uint64_t intermediates;
} hiprt_plan;

/* Plan where the intermediates of what this thread has recorded by now lie in one block. Two share bytes only where the edges
 * order every node that touches one before every node that touches the other, so that the step needs no further edge. The
 * intermediates are ascending and disjoint. *out_offsets: the offset of each in the block, a multiple of 256.
 * Ownership: none. Threads: the one that began the step. Errors: HIPRT_E_ARGUMENT where it has not, or the intermediates are in
 * another order, or have more than 2^62 bytes; HIPRT_E_MEMORY: for n nodes n * n / 4 bytes are needed. */
int hiprt_step_plan(hiprt_step *step, uint32_t count, const hiprt_intermediate *intermediates, uint64_t *out_offsets,
                    hiprt_plan *out_plan);

typedef struct hiprt_arena hiprt_arena;

/* Make an arena: memory for the intermediates of one step, in one block of a pool, which is planned anew where the step is
 * recorded with other work. All launches of the step are on the stream on which it was recorded.
 * Ownership: the caller's; it is released behind the step, which goes on using its block. Threads: any. Errors:
 * HIPRT_E_MEMORY. */
int hiprt_arena_create(hiprt_pool *pool, hiprt_arena **out_arena);
/* Give up an arena. Its block is freed behind the work that is on its stream by now.
 * Ownership: ends. Threads: any, when no other uses the arena. Errors: none. */
void hiprt_arena_release(hiprt_arena *arena);
/* Ask for memory of an intermediate of the step that is being recorded. *out_address stands for it until hiprt_step_settle:
 * only launches, copies and fills that are recorded may be given it, or an address in it, as a buffer, or in a value where
 * hiprt_kernel_hold_address tells of it. is_kept: the engine reads it after the step. What was asked for a recording that was
 * cancelled before it was settled is settled with the next one.
 * Ownership: the arena's. Threads: one at a time. Errors: HIPRT_E_MEMORY; HIPRT_E_LIMIT where no addresses are left. */
int hiprt_arena_request(hiprt_arena *arena, uint64_t nbytes, int is_kept, uint64_t *out_address);
/* Give all that was asked of the arena memory, and what is recorded the addresses of that, before hiprt_step_end; once a
 * recording. The same work as at the last time gets the same addresses, so that it is a replay. Where the block must grow, the
 * step's launches before are forgotten by hiprt_step_again.
 * Ownership: unchanged. Threads: the one that began the step. Errors: HIPRT_E_ARGUMENT where it has not, where the recording
 * was settled before or has work of other code in it, and where the arena is that of another step or stream; HIPRT_E_MEMORY;
 * else as hiprt_pool_allocate. The step is then to be cancelled. */
int hiprt_step_settle(hiprt_step *step, hiprt_arena *arena);
/* Tell where the memory lies that an address stood for. What is kept holds its bytes until the step is recorded again, and
 * nothing else does behind the step.
 * Ownership: the arena's. Threads: one at a time. Errors: HIPRT_E_ARGUMENT where the last hiprt_step_settle gave it none. */
int hiprt_arena_find(const hiprt_arena *arena, uint64_t address, uint64_t *out_address);
/* Tell the size of the last plan; zeros before the first.
 * Ownership: none. Threads: one at a time. Errors: none. */
void hiprt_arena_count(const hiprt_arena *arena, hiprt_plan *out_plan);
/* cffi end */

#ifdef HIPRT_BUILDS_LIBRARY
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
