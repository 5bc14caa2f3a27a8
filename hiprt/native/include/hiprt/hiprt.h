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

/* Declare a kernel: a hipFunction_t, a name for messages, and its arguments, at most 64. The declaration is believed:
 * where it is not the kernel's, launches read and write other memory, as those of hipModuleLaunchKernel do.
 * Ownership: the function's module stays the caller's. Threads: any. Errors: HIPRT_E_ARGUMENT, HIPRT_E_MEMORY. */
int hiprt_kernel_create(uint64_t function, const char *name, uint32_t n_args, const hiprt_argument *args,
                        hiprt_kernel **out_kernel);
/* Take one more reference to a kernel, or give one up; recordings and executable graphs hold some.
 * Ownership: counted. Threads: any. Errors: none. */
void hiprt_kernel_retain(hiprt_kernel *kernel);
void hiprt_kernel_release(hiprt_kernel *kernel);

/* ---- work: the next four queue it, or record it as a node while this thread records on the stream ---- */

/* Launch a kernel. args: a pointer to each argument, as for hipModuleLaunchKernel. nbytes: for each buffer, in order of
 * the arguments, how many bytes from its address the kernel may touch.
 * Ownership: arguments are copied. Threads: any; a recording takes only its own thread's work. Errors: HIPRT_E_ARGUMENT,
 * HIPRT_E_MEMORY, HIPRT_E_FULL, HIPRT_E_CAPTURED, HIPRT_E_CLOSED, a hipError_t. */
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
  uint32_t fanout;          /* the most edges that leave a node, at least 2; 0: no bound */
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
 * is; HIPRT_E_ARGUMENT, HIPRT_E_MEMORY, a hipError_t. The step is then to be cancelled. */
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
/* Launch a graph (hipGraph_t) that other code captured, or made, as the step's nodes, with the edges that it has. A later
 * graph of the same work is compared with it, and what differs is patched, instead of being instantiated. Where the HIP
 * library does not tell a kernel's arguments, that kernel counts as changed. out_outcome and out_ran: as for
 * hiprt_step_end. is_given: nonzero gives the graph to the step; with 0 it is copied where it is other work than the last.
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
/* Memory [start, end) that lies at `to` from now on. */
typedef struct {
  uint64_t start, end, to;
} hiprt_move;

/* Launch again what the step launched last, with buffers at other addresses: every buffer that begins in memory that moves.
 * It costs nothing for nodes that use none of it. The moves are ascending and disjoint; memory may take the place of other
 * memory that moves. The edges stay, so that nothing may come to lie where the step has another buffer. It waits for the
 * last launch of the executable graph, which is then patched; where the rules or the budget allow no patch, it is launched
 * by another rung.
 * Ownership: none. Threads: any, but for one that records the step; the calls take turns. Errors: HIPRT_E_ARGUMENT before
 * the first hiprt_step_end, where edges could change, and where the step has work of other code in it, of which it is not
 * known where its addresses are: nothing has changed. Where HIP refuses a change its status: nothing has run, and the step
 * is to be recorded again. Else as hiprt_step_end. */
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
/* cffi end */

#ifdef HIPRT_BUILDS_LIBRARY
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
