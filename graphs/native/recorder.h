/* Recorders: the nodes of one step in program order, each with a payload of its own, and the edges from their byte
 * ranges.
 *
 * A recorder belongs to one thread at a time. It holds a reference to each of its kernels. */
#pragma once
#include <stdint.h>

#include "captured.h"
#include "captured_pointers.h"
#include "deps.h"
#include "kernel.h"
#include "move.h"
#include "order.h"
#include "stream.h"

/* cffi begin */
typedef struct hiprt_recorder hiprt_recorder;

/* An opaque node is a kernel of other code whose arguments only HIP can read. */
enum hiprt_node_kind { HIPRT_NODE_KERNEL, HIPRT_NODE_COPY, HIPRT_NODE_FILL, HIPRT_NODE_EMPTY, HIPRT_NODE_OPAQUE };

/* The payload of a copy node, and of a fill node. */
typedef struct {
  uint64_t dst, src, nbytes;
} hiprt_copy_args;
typedef struct {
  uint64_t dst, count;
  uint32_t value, width;
} hiprt_fill_args;

/* A node as it is shown; pointers are borrowed from the recorder. */
typedef struct {
  uint32_t kind;        /* hiprt_node_kind */
  hiprt_kernel *kernel; /* NULL unless a kernel, as the next */
  const char *name;
  const char *payload; /* of a kernel as in kernel.h, of an opaque one as in captured.h; an empty node has none */
  uint32_t payload_size;
  uint64_t function;    /* hipFunction_t; 0 unless a kernel */
  const uint32_t *deps; /* earlier nodes this one waits for, ascending */
  uint32_t n_deps;
  const hiprt_range *ranges; /* the memory that the node declares; may point to `own` */
  const uint8_t *access;     /* of each range: hiprt_access */
  uint32_t n_ranges;
  const uint32_t *addresses; /* where a kernel's payload holds addresses that are no buffers */
  uint32_t n_addresses;
  uint32_t may_overlap; /* it waits itself, and nothing before it wrote what it reads ahead of that */
  uint32_t is_barrier;  /* it waits for all before it, and all behind it wait for it */
  void *source;         /* of other code's work: the hipGraphNode_t that was captured; NULL for our own */
  hiprt_range own[2];
} hiprt_node;

int hiprt_recorder_create(uint32_t edges, hiprt_recorder **out_recorder);
void hiprt_recorder_release(hiprt_recorder *recorder);
/* Set the bounds after which recording says HIPRT_E_FULL; 0: none. bytes: of distinct memory declared. */
void hiprt_recorder_limit(hiprt_recorder *recorder, uint32_t nodes, uint64_t bytes);
/* Call `added` with `owner` for each node that is recorded from now on, in the thread that launches it, before the
 * launch returns; NULL ends that. */
void hiprt_recorder_watch(hiprt_recorder *recorder, void (*added)(void *owner), void *owner);
int hiprt_recorder_is_full(const hiprt_recorder *recorder);
/* Whether a node could not be recorded for want of memory: what is recorded is not all that was launched. */
int hiprt_recorder_is_broken(const hiprt_recorder *recorder);
/* Take what this thread, or with is_shared every thread, puts on a stream as nodes, until hiprt_stream_stop. */
int hiprt_recorder_start(hiprt_recorder *recorder, hiprt_stream *stream, int is_shared);
/* Expect the nodes of an earlier recording again, which costs less: as long as kernels, dimensions and memory are the same,
 * the edges are taken from there. Memory that no node writes may be other such memory. Behind the first node that differs in
 * more they are found as ever. The recorder must be empty; a recording that cannot be followed is not. */
void hiprt_recorder_follow(hiprt_recorder *recorder, hiprt_recorder *like);
/* Let go of what is followed: no more is recorded, or what is has no edges in common with it. */
void hiprt_recorder_end(hiprt_recorder *recorder);
/* Say HIPRT_E_CAPTURED from now on where work that other code put on the stream, which is being captured, is to become
 * nodes first; 0 for the handle ends that. */
void hiprt_recorder_listen(hiprt_recorder *recorder, uint64_t handle);
/* Return the number of nodes that are work of other code. */
uint32_t hiprt_recorder_foreign(const hiprt_recorder *recorder);
/* Note what the nodes do (hiprt_access) with memory that other streams may use too; their launches are ordered by it. */
int hiprt_recorder_touch(hiprt_recorder *recorder, hiprt_uses *uses, uint32_t access);
/* Set apart what is noted of the memory of the step's next argument, so that hiprt_recorder_retouch can put other memory
 * in its place. is_shared: the nodes use that memory in another way as well. */
int hiprt_recorder_set_apart(hiprt_recorder *recorder, hiprt_uses *uses, int is_shared);
/* Order a stream as before a launch of the nodes, and note it, for work that others put on the stream next. */
int hiprt_recorder_order(const hiprt_recorder *recorder, hiprt_stream *stream);
/* Append nodes [begin, end) to another recorder, with edges among themselves; all nodes keep the edges they have. */
int hiprt_recorder_slice(const hiprt_recorder *from, uint32_t begin, uint32_t end, hiprt_recorder *into);
/* List the nodes with a buffer that begins in [start, end), or another address in it; out_nodes has room for all
 * nodes. */
uint32_t hiprt_recorder_users(const hiprt_recorder *recorder, uint64_t start, uint64_t end, uint32_t *out_nodes);
/* Return how many references there are at this moment; execs, and who makes one, hold some. */
uint32_t hiprt_recorder_references(const hiprt_recorder *recorder);
/* Whether an exec, or another recording, has nodes of the capture that this one was made of. */
int hiprt_recorder_is_in_use(const hiprt_recorder *recorder);
uint32_t hiprt_recorder_size(const hiprt_recorder *recorder);
uint64_t hiprt_recorder_edges(const hiprt_recorder *recorder);
int hiprt_recorder_node(const hiprt_recorder *recorder, uint32_t index, hiprt_node *out_node);
/* Return a hash of the topology key (functions, dimensions, shared memory, edges); equal keys need
 * hiprt_recorder_same_key too (G3). */
uint64_t hiprt_recorder_key(const hiprt_recorder *recorder);
/* Return a hash of the argument bytes of all nodes, by which arguments that come back are recognised. */
uint64_t hiprt_recorder_arguments(const hiprt_recorder *recorder);
int hiprt_recorder_same_key(const hiprt_recorder *a, const hiprt_recorder *b);
/* Return the size of all payloads. */
uint64_t hiprt_recorder_bytes(const hiprt_recorder *recorder);
/* Whether two recordings of one key carry the same arguments. */
int hiprt_recorder_same_arguments(const hiprt_recorder *a, const hiprt_recorder *b);
/* Return the number of nodes whose arguments differ between two recordings of one key, the first of them, and the size
 * of their payloads. */
uint32_t hiprt_recorder_changed(const hiprt_recorder *a, const hiprt_recorder *b, uint32_t *out_first, uint64_t *out_bytes);
/* The first argument in which a kernel node differs between two recordings; the recordings own what the pointers show. */
typedef struct {
  const char *name;           /* of the kernel */
  const hiprt_kernel *kernel; /* NULL where it is of other code */
  const char *was, *now;
  uint32_t argument, size; /* its number, and bytes; the number is UINT32_MAX where no argument differs */
} hiprt_difference;

/* Compare one node of two recordings of one key; 0, and nothing is said, where it is no kernel whose arguments are known. */
int hiprt_recorder_difference(const hiprt_recorder *a, const hiprt_recorder *b, uint32_t index,
                              hiprt_difference *out_difference);
/* Give all nodes the addresses they have after the moves; the edges stay. */
void hiprt_recorder_relocate(hiprt_recorder *recorder, uint32_t n_moves, const hiprt_move *moves);
/* Give words the addresses that they have where each memory begins at starts[memory]; the edges stay. Only recordings of
 * the same nodes are pointed by one table. */
int hiprt_recorder_point(hiprt_recorder *recorder, hiprt_pointers *pointers, const uint64_t *starts);
/* cffi end */

/* Make a recorder with the same nodes and edges. */
int hiprt_recorder_copy(const hiprt_recorder *from, hiprt_recorder **out_recorder);
/* Return the device on which all nodes were captured; -1 where they were not. */
int hiprt_recorder_captured_on(const hiprt_recorder *recorder);
/* Return the number of arguments that were set apart. */
uint32_t hiprt_recorder_apart(const hiprt_recorder *recorder);
/* Note that the nodes use other memory through an argument that was set apart. */
void hiprt_recorder_retouch(hiprt_recorder *recorder, uint32_t argument, hiprt_uses *uses);
void hiprt_recorder_retain(hiprt_recorder *recorder);
/* Append a node that was captured; the recorder takes references. deps: the earlier nodes that it waits for, ascending;
 * NULL: they follow from what it touches. All nodes of a recorder are appended in one of these ways. */
int hiprt_recorder_add_captured(hiprt_recorder *recorder, uint32_t kind, hiprt_kernel *kernel, const void *payload,
                                uint32_t size, hiprt_captured *captured, hipGraphNode_t source, const uint32_t *deps,
                                uint32_t n_deps);
/* Return what the nodes do with memory that other streams may use too. */
const hiprt_touch *hiprt_recorder_touches(const hiprt_recorder *recorder, uint32_t *out_count);
/* Give kind, kernel and payload of a node that there is, and nothing else of it. */
void hiprt_recorder_work(const hiprt_recorder *recorder, uint32_t index, hiprt_node *out_node);
char *hiprt_recorder_payload(hiprt_recorder *recorder, uint32_t index);
/* Give a node another payload of the same size. */
void hiprt_recorder_set_payload(hiprt_recorder *recorder, uint32_t index, const void *payload);
/* Return the number of a node's addresses that lie in memory that moves. out_payload, unless NULL, receives them as
 * they are after the moves; it may be the node's payload itself. */
uint32_t hiprt_recorder_moved(const hiprt_recorder *recorder, uint32_t index, uint32_t n_moves, const hiprt_move *moves,
                              char *out_payload);
/* The nodes whose arguments differ between two recordings of one key, ascending; all zeros at first. */
typedef struct {
  uint32_t *nodes, count, room;
  uint64_t bytes; /* the size of their payloads */
} hiprt_changes;

/* Return the table that says where the arguments point, with where each memory begins; NULL where none does. */
const hiprt_pointers *hiprt_recorder_pointers(const hiprt_recorder *recorder, const uint64_t **out_starts);
/* List the nodes to which hiprt_recorder_point would give other arguments than they have, by the table that it has. */
int hiprt_recorder_compare_starts(const hiprt_recorder *recorder, const uint64_t *starts, hiprt_changes *out_changes);
/* Compare two recordings of one key: list the nodes to which b gives other arguments than a. */
int hiprt_recorder_compare(const hiprt_recorder *a, const hiprt_recorder *b, hiprt_changes *out_changes);
