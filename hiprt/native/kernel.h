/* A kernel function with its declared arguments, and the payload of one launch of it.
 *
 * Payload: dimensions | argument block as the kernel reads it, padded to 8 | one range per buffer. Everything a node
 * needs; two nodes do the same work exactly when dimensions and argument block are the same bytes. */
#pragma once
#include <stdatomic.h>
#include <stddef.h>

#include "hiprt_core.h"
#include "library.h"

#define HIPRT_MAX_ARGS 64

typedef struct {
  uint32_t grid[3], block[3], shared, zero;
} hiprt_dims;

typedef struct {
  uint64_t start, end;
} hiprt_range;

struct hiprt_kernel {
  atomic_uint references;
  hipFunction_t function;
  char name[128];
  uint32_t n_args, n_buffers, n_written;
  uint32_t args_size;    /* bytes of the argument block, padded to 8 */
  uint32_t payload_size; /* bytes of a launch */
  hiprt_argument args[HIPRT_MAX_ARGS];
  uint32_t offsets[HIPRT_MAX_ARGS]; /* of each argument in the block */
  uint8_t access[HIPRT_MAX_ARGS];   /* of each buffer, in order: 1 read, 2 write, 3 both */
  int waits_itself;                 /* hiprt_kernel_wait_itself was called */
  uint64_t ahead;                   /* then: a bit for each buffer that is read before the wait */
  uint32_t *addresses, n_addresses; /* where a payload holds addresses that are no buffers, in bytes from its start */
};

/* The number of addresses in a payload that the moves change; out_payload, unless NULL, receives the new ones. */
uint32_t hiprt_kernel_moved(const hiprt_kernel *kernel, const char *payload, uint32_t n_moves, const hiprt_move *moves,
                            char *out_payload);
/* Whether the moves change an address, which is then changed. */
int hiprt_move_address(uint64_t *address, uint32_t n_moves, const hiprt_move *moves);
/* Fill `cells` with the addresses of the arguments in a payload and return the HIP parameters (G4: fresh each time). */
hipKernelNodeParams hiprt_kernel_params(const hiprt_kernel *kernel, const char *payload, void **cells);
const hiprt_range *hiprt_kernel_ranges(const hiprt_kernel *kernel, const char *payload);
