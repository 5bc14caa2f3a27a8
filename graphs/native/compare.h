/* Comparison: whether two recordings have one topology key (G3), and which of their nodes carry other arguments.
 *
 * Lists of nodes belong to the caller, who frees them. Recordings are only read; any thread may compare two that no other
 * thread changes. */
#pragma once
#include "node.h"

/* cffi begin */
/* Whether two recordings have one key, by content. */
int hiprt_recorder_same_key(const hiprt_recorder *a, const hiprt_recorder *b);
/* Whether two recordings of one key carry the same arguments. */
int hiprt_recorder_same_arguments(const hiprt_recorder *a, const hiprt_recorder *b);
/* Return the number of nodes whose arguments differ between two recordings of one key, the first of them, and the size
 * of their payloads. */
uint32_t hiprt_recorder_changed(const hiprt_recorder *a, const hiprt_recorder *b, uint32_t *out_first, uint64_t *out_bytes);

/* The first argument in which a kernel node differs between two recordings; the recordings own what the pointers show. */
typedef struct {
  const char *name;           /* the kernel's */
  const hiprt_kernel *kernel; /* NULL where it is a kernel of other code */
  const char *was, *now;
  uint32_t argument, size; /* its number, and bytes; the number is UINT32_MAX where no argument differs */
} hiprt_difference;

/* Compare one node of two recordings of one key; 0, and nothing is said, where it is no kernel whose arguments are known. */
int hiprt_recorder_difference(const hiprt_recorder *a, const hiprt_recorder *b, uint32_t index,
                              hiprt_difference *out_difference);
/* cffi end */

/* The nodes whose arguments differ between two recordings of one key, ascending; all zeros at first. */
typedef struct {
  uint32_t *nodes, count, room;
  uint64_t bytes; /* the size of their payloads */
} hiprt_changes;

/* List the nodes to which b gives other arguments than a, which has the same key. */
int hiprt_recorder_compare(const hiprt_recorder *a, const hiprt_recorder *b, hiprt_changes *out_changes);
/* List the nodes to which hiprt_recorder_point would give other arguments than they have, by the table that it has. */
int hiprt_recorder_compare_starts(const hiprt_recorder *recorder, const uint64_t *starts, hiprt_changes *out_changes);
