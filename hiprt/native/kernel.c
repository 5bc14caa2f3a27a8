#include "kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"

static int is_valid(const hiprt_argument *a) {
  int power_of_two = a->alignment && !(a->alignment & (a->alignment - 1));
  return a->size && power_of_two && a->access <= 3 && (!a->access || a->size == 8);
}

/* Offsets in the argument block follow the C ABI; cells of a launch are 24 bytes a buffer and multiples of 8 a value. */
static int lay_out(hiprt_kernel *kernel) {
  uint32_t at = 0, values = 0;
  for (uint32_t i = 0; i < kernel->n_args; i++) {
    const hiprt_argument *a = kernel->args + i;
    if (!is_valid(a)) return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_kernel_create", "size, alignment or access");
    at = (at + a->alignment - 1) / a->alignment * a->alignment;
    kernel->offsets[i] = at;
    at += a->size;
    kernel->n_written += a->access > 1;
    if (a->access)
      kernel->access[kernel->n_buffers++] = (uint8_t)a->access;
    else
      values += (a->size + 7) / 8 * 8;
  }
  kernel->args_size = (at + 7) / 8 * 8;
  kernel->launch_size = (uint32_t)sizeof(hiprt_dims) + kernel->n_buffers * 24 + values;
  return 0;
}

hiprt_kernel *hiprt_kernel_create(uint64_t function, const char *name, uint32_t n_args, const hiprt_argument *args) {
  if (n_args > HIPRT_MAX_ARGS) {
    hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_kernel_create", "more than 64 arguments");
    return 0;
  }
  hiprt_kernel *kernel = calloc(1, sizeof *kernel);
  if (!kernel) {
    hiprt_fail(HIPRT_E_MEMORY, "hiprt_kernel_create", 0);
    return 0;
  }
  atomic_init(&kernel->references, 1);
  kernel->function = (hipFunction_t)(uintptr_t)function;
  snprintf(kernel->name, sizeof kernel->name, "%s", name);
  kernel->n_args = n_args;
  if (n_args) memcpy(kernel->args, args, n_args * sizeof *args);
  if (lay_out(kernel)) {
    free(kernel);
    return 0;
  }
  return kernel;
}

void hiprt_kernel_wait_itself(hiprt_kernel *kernel, uint64_t ahead) {
  kernel->waits_itself = 1;
  kernel->ahead = ahead;
}

uint32_t hiprt_kernel_launch_size(const hiprt_kernel *kernel) { return kernel->launch_size; }

void hiprt_kernel_payload(const hiprt_kernel *kernel, const char *launch, char *payload) {
  const char *buffer = launch + sizeof(hiprt_dims), *value = buffer + kernel->n_buffers * 24;
  char *args = payload + sizeof(hiprt_dims), *range = args + kernel->args_size;
  memcpy(payload, launch, sizeof(hiprt_dims));
  /* Padding takes part in comparisons. */
  memset(args, 0, kernel->args_size);
  for (uint32_t i = 0; i < kernel->n_args; i++) {
    const hiprt_argument *a = kernel->args + i;
    if (a->access) {
      memcpy(args + kernel->offsets[i], buffer, 8);
      memcpy(range, buffer + 8, sizeof(hiprt_range));
      buffer += 24;
      range += sizeof(hiprt_range);
    } else {
      memcpy(args + kernel->offsets[i], value, a->size);
      value += (a->size + 7) / 8 * 8;
    }
  }
}

void hiprt_kernel_retain(hiprt_kernel *kernel) {
  atomic_fetch_add_explicit(&kernel->references, 1, memory_order_relaxed);
}

void hiprt_kernel_release(hiprt_kernel *kernel) {
  if (kernel && atomic_fetch_sub_explicit(&kernel->references, 1, memory_order_acq_rel) == 1) free(kernel);
}

uint32_t hiprt_kernel_references(const hiprt_kernel *kernel) {
  return atomic_load_explicit(&kernel->references, memory_order_acquire);
}

uint32_t hiprt_kernel_payload_size(const hiprt_kernel *kernel) {
  return (uint32_t)(sizeof(hiprt_dims) + kernel->args_size + kernel->n_buffers * sizeof(hiprt_range));
}

hipKernelNodeParams hiprt_kernel_params(const hiprt_kernel *kernel, const char *payload, void **cells) {
  hiprt_dims dims;
  memcpy(&dims, payload, sizeof dims);
  char *args = (char *)payload + sizeof dims;
  for (uint32_t i = 0; i < kernel->n_args; i++) cells[i] = args + kernel->offsets[i];
  hipKernelNodeParams params = {0};
  params.func = (void *)kernel->function;
  params.gridDim = (dim3){dims.grid[0], dims.grid[1], dims.grid[2]};
  params.blockDim = (dim3){dims.block[0], dims.block[1], dims.block[2]};
  params.sharedMemBytes = dims.shared;
  params.kernelParams = kernel->n_args ? cells : 0;
  return params;
}

const hiprt_range *hiprt_kernel_ranges(const hiprt_kernel *kernel, const char *payload) {
  return (const hiprt_range *)(payload + sizeof(hiprt_dims) + kernel->args_size);
}
