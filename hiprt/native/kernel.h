/* Kernels: a function of a module with its declared arguments, and the payload of one launch of it.
 *
 * A payload holds three parts, one behind the other: the dimensions, whose `zero` has the launch attributes of a captured
 * kernel; the arguments as the kernel reads them, each at its alignment, with zeros between them and up to a multiple of 8;
 * and one range for each buffer, in argument order. It is written once, by who launches, and a node keeps it as it is: two
 * nodes do the same work exactly when dimensions and arguments are the same bytes.
 *
 * A kernel is counted by references. It does not change behind its first launch, and any thread may launch it. */
#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "hiprt/hiprt.h"
#include "library.h"
#include "move.h"

/* cffi begin */
/* The bytes that a kernel may touch through a buffer: the first address and one past the last. */
typedef struct {
  uint64_t start, end;
} hiprt_range;

/* Declare that the kernel waits for earlier nodes by itself, in every thread, and before that reads only the buffers
 * (counted without values) whose bits are set: its node may start while the one before it still runs. Called before the
 * first launch. */
void hiprt_kernel_wait_itself(hiprt_kernel *kernel, uint64_t ahead);
/* Declare that a buffer (counted without values) may lie over those whose bits are set: each element is read before it is
 * written. Called before the first launch. */
int hiprt_kernel_lie_over(hiprt_kernel *kernel, uint32_t buffer, uint64_t sources);
/* Return how many references there are at this moment; recordings and execs hold some. */
uint32_t hiprt_kernel_references(const hiprt_kernel *kernel);
/* Return the number of arguments, where one lies, from the first, and its size. */
uint32_t hiprt_kernel_count(const hiprt_kernel *kernel);
uint32_t hiprt_kernel_offset(const hiprt_kernel *kernel, uint32_t argument);
uint32_t hiprt_kernel_size(const hiprt_kernel *kernel, uint32_t argument);
/* Give a payload the addresses it has after the moves. */
void hiprt_kernel_move(const hiprt_kernel *kernel, char *payload, uint32_t n_moves, const hiprt_move *moves);
/* cffi end */

#define HIPRT_MAX_ARGS 64
#define HIPRT_MAX_ARG_BYTES 4096 /* of all arguments together: HIP passes no more */
/* The most bytes of a payload. */
#define HIPRT_MOST_PAYLOAD (sizeof(hiprt_dims) + HIPRT_MAX_ARG_BYTES + HIPRT_MAX_ARGS * sizeof(hiprt_range))

struct hiprt_kernel {
  atomic_uint references;
  atomic_ullong recorder; /* the number of the recorder that took a reference last: a hint, so that it takes few */
  hipFunction_t function;
  char name[128];
  uint32_t n_args, n_buffers, n_written;
  uint32_t args_size;    /* bytes of the arguments in a payload, padded to 8 */
  uint32_t payload_size; /* bytes of a payload */
  hiprt_argument args[HIPRT_MAX_ARGS];
  uint32_t offsets[HIPRT_MAX_ARGS]; /* of each argument, from the first */
  uint8_t access[HIPRT_MAX_ARGS];   /* of each buffer, in order */
  uint64_t over[HIPRT_MAX_ARGS];    /* of each buffer: a bit for each other that it may lie over */
  int waits_itself;                 /* hiprt_kernel_wait_itself was called */
  uint64_t ahead;                   /* with this */
  size_t packed;                    /* bytes of one block of arguments that is passed whole; 0: they are passed one by one */
  uint32_t *addresses, n_addresses; /* of addresses that are no buffers, from the payload's start */
};

/* Return one reference to a kernel of other code that takes values, of which offsets and sizes are known; NULL with the
 * failure noted. packed: as in hiprt_kernel. */
hiprt_kernel *hiprt_kernel_create_foreign(hipFunction_t function, const char *name, uint32_t n_args,
                                          const uint32_t *offsets, const uint32_t *sizes, size_t packed);
/* Write a payload of pointers to the arguments, and of how many bytes each buffer has from its address. HIPRT_E_ARGUMENT:
 * a buffer would end past the last address. */
int hiprt_kernel_pack(const hiprt_kernel *kernel, const hiprt_dims *dims, void *const *args, const uint64_t *nbytes,
                      char *out_payload);
/* Return the number of addresses in a payload that lie in memory that moves. out_payload, unless NULL, receives them as
 * they are after the moves; it may be the payload itself. */
uint32_t hiprt_kernel_moved(const hiprt_kernel *kernel, const char *payload, uint32_t n_moves, const hiprt_move *moves,
                            char *out_payload);
/* Fill `cells`, of which there are HIPRT_MAX_ARGS, with where the arguments in a payload lie, and return the HIP
 * parameters (G4: fresh each time). */
hipKernelNodeParams hiprt_kernel_params(const hiprt_kernel *kernel, const char *payload, void **cells);
static inline const hiprt_range *hiprt_kernel_ranges(const hiprt_kernel *kernel, const char *payload) {
  return (const hiprt_range *)(payload + sizeof(hiprt_dims) + kernel->args_size);
}
