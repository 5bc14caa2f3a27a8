/* Captured work: what a stream capture took in of other code, kept as long as nodes are made of it.
 *
 * The nodes of one capture share what the program said that all of it reads and writes. Their arguments, and attributes
 * that HIP tells nobody, stay in the nodes of the captured graph.
 *
 * It is counted by references, one of each node, and owns the captured graph, which goes with the last. Any thread may give
 * one up; ranges are claimed before there are nodes. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#include "kernel.h"

/* What is kept of a kernel whose arguments have sizes that the HIP library does not tell: it is launched, and given to
 * nodes, by the parameters of the node that was captured. */
typedef struct {
  hiprt_dims dims;
  uint64_t function; /* hipFunction_t */
  uint64_t source;   /* the captured node */
  uint64_t serial;   /* a number that no other node has: whether two carry the same arguments is not known */
  char name[128];
} hiprt_opaque;

typedef struct {
  atomic_uint references;
  int device;
  hipGraph_t graph;
  int is_barrier; /* the program did not say what the work reads and writes */
  uint32_t n_ranges;
  hiprt_range *ranges; /* what it said, and what copies and fills touch */
  uint8_t *access;     /* of each range: hiprt_access */
} hiprt_captured;

/* Return one reference, which destroys the graph when it ends; NULL, with the failure noted, if there is no memory. */
hiprt_captured *hiprt_captured_create(hipGraph_t graph, int device);
hiprt_captured *hiprt_captured_retain(hiprt_captured *captured);
void hiprt_captured_release(hiprt_captured *captured);
/* Say that the work touches a range. HIPRT_E_ARGUMENT: it ends before it starts. */
int hiprt_captured_claim(hiprt_captured *captured, hiprt_range range, uint8_t access);
/* Give the parameters of an opaque kernel, as its captured node has them: they are only read (G4). */
int hiprt_captured_params(const hiprt_opaque *opaque, hipKernelNodeParams *out_params);
