#include "kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"

static int is_valid(const hiprt_argument *a) {
  int power_of_two = a->alignment && !(a->alignment & (a->alignment - 1));
  return a->size && power_of_two && a->access <= HIPRT_READ_WRITE && (!a->access || a->size == 8);
}

static int refuse(const hiprt_kernel *kernel, uint32_t argument) {
  const hiprt_argument *a = kernel->args + argument;
  char text[256];
  snprintf(text, sizeof text,
           "%s, argument %u: size %u, alignment %u, access %u; a buffer has 8 bytes, an alignment is a power of two",
           kernel->name, argument, a->size, a->alignment, a->access);
  return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_kernel_create", text);
}

static int refuse_size(const hiprt_kernel *kernel) {
  char text[256];
  snprintf(text, sizeof text, "%s: the arguments take more than %u bytes, the most that HIP passes: pass the address of some",
           kernel->name, HIPRT_MAX_ARG_BYTES);
  return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_kernel_create", text);
}

/* Find where the arguments lie, as the C ABI has it, and the sizes that follow from that. */
static int lay_out(hiprt_kernel *kernel) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < kernel->n_args; i++) {
    const hiprt_argument *a = kernel->args + i;
    if (!is_valid(a)) return refuse(kernel, i);
    at = (at + a->alignment - 1) / a->alignment * a->alignment;
    kernel->offsets[i] = (uint32_t)at;
    at += a->size;
    if (at > HIPRT_MAX_ARG_BYTES) return refuse_size(kernel);
    kernel->n_written += (a->access & HIPRT_WRITE) != 0;
    if (a->access) kernel->access[kernel->n_buffers++] = (uint8_t)a->access;
  }
  kernel->args_size = (uint32_t)(at + 7) / 8 * 8;
  kernel->payload_size = (uint32_t)(sizeof(hiprt_dims) + kernel->args_size + kernel->n_buffers * sizeof(hiprt_range));
  return 0;
}

int hiprt_kernel_create(uint64_t function, const char *name, uint32_t n_args, const hiprt_argument *args,
                        hiprt_kernel **out_kernel) {
  *out_kernel = 0;
  if (n_args > HIPRT_MAX_ARGS) return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_kernel_create", "more than 64 arguments");
  hiprt_kernel *kernel = calloc(1, sizeof *kernel);
  if (!kernel) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_kernel_create", 0);
  atomic_init(&kernel->references, 1);
  kernel->function = (hipFunction_t)(uintptr_t)function;
  snprintf(kernel->name, sizeof kernel->name, "%s", name);
  kernel->n_args = n_args;
  if (n_args) memcpy(kernel->args, args, n_args * sizeof *args);
  const int status = lay_out(kernel);
  if (status)
    free(kernel);
  else
    *out_kernel = kernel;
  return status;
}

hiprt_kernel *hiprt_kernel_create_foreign(hipFunction_t function, const char *name, uint32_t n_args,
                                          const uint32_t *offsets, const uint32_t *sizes, size_t packed) {
  hiprt_kernel *kernel;
  if (hiprt_kernel_create((uint64_t)(uintptr_t)function, name, 0, 0, &kernel)) return 0;
  uint32_t end = 0;
  kernel->n_args = n_args;
  kernel->packed = packed;
  for (uint32_t i = 0; i < n_args; i++) {
    kernel->offsets[i] = offsets[i];
    kernel->args[i] = (hiprt_argument){sizes[i], 1, HIPRT_BY_VALUE};
    if (end < offsets[i] + sizes[i]) end = offsets[i] + sizes[i];
  }
  kernel->args_size = (end + 7) / 8 * 8;
  kernel->payload_size = (uint32_t)sizeof(hiprt_dims) + kernel->args_size;
  return kernel;
}

void hiprt_kernel_wait_itself(hiprt_kernel *kernel, uint64_t ahead) {
  kernel->waits_itself = 1;
  kernel->ahead = ahead;
}

int hiprt_kernel_lie_over(hiprt_kernel *kernel, uint32_t buffer, uint64_t sources) {
  if (buffer >= kernel->n_buffers || (kernel->n_buffers < 64 && sources >> kernel->n_buffers))
    return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_kernel_lie_over", "there is no such buffer");
  kernel->over[buffer] = sources;
  return 0;
}

static int refuse_address(const hiprt_kernel *kernel, uint32_t argument, uint32_t offset, const char *why) {
  char text[256];
  snprintf(text, sizeof text, "%s, argument %u: 8 bytes at %u %s", kernel->name, argument, offset, why);
  return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_kernel_hold_address", text);
}

int hiprt_kernel_hold_address(hiprt_kernel *kernel, uint32_t argument, uint32_t offset) {
  const hiprt_argument *a = argument < kernel->n_args ? kernel->args + argument : 0;
  if (!a || a->access || offset > a->size || a->size - offset < 8)
    return refuse_address(kernel, argument, offset, "are not in a value");
  const uint32_t at = (uint32_t)sizeof(hiprt_dims) + kernel->offsets[argument] + offset;
  for (uint32_t i = 0; i < kernel->n_addresses; i++) {
    const uint32_t other = kernel->addresses[i];
    if (at == other) return 0;
    if (at < other + 8 && other < at + 8) return refuse_address(kernel, argument, offset, "are partly in another address");
  }
  uint32_t *grown = realloc(kernel->addresses, (kernel->n_addresses + 1) * sizeof *grown);
  if (!grown) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_kernel_hold_address", 0);
  kernel->addresses = grown;
  grown[kernel->n_addresses++] = at;
  return 0;
}

uint32_t hiprt_kernel_count(const hiprt_kernel *kernel) { return kernel->n_args; }
uint32_t hiprt_kernel_size(const hiprt_kernel *kernel, uint32_t argument) { return kernel->args[argument].size; }
uint32_t hiprt_kernel_offset(const hiprt_kernel *kernel, uint32_t argument) { return kernel->offsets[argument]; }

void hiprt_kernel_retain(hiprt_kernel *kernel) {
  atomic_fetch_add_explicit(&kernel->references, 1, memory_order_relaxed);
}

void hiprt_kernel_release(hiprt_kernel *kernel) {
  if (!kernel || atomic_fetch_sub_explicit(&kernel->references, 1, memory_order_acq_rel) != 1) return;
  free(kernel->addresses);
  free(kernel);
}

uint32_t hiprt_kernel_references(const hiprt_kernel *kernel) {
  return atomic_load_explicit(&kernel->references, memory_order_acquire);
}

hipKernelNodeParams hiprt_kernel_params(const hiprt_kernel *kernel, const char *payload, void **cells) {
  hiprt_dims dims;
  memcpy(&dims, payload, sizeof dims);
  char *args = (char *)payload + sizeof dims;
  hipKernelNodeParams params = {0};
  if (kernel->packed) {
    void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, args, HIP_LAUNCH_PARAM_BUFFER_SIZE, (void *)&kernel->packed,
                     HIP_LAUNCH_PARAM_END};
    memcpy(cells, extra, sizeof extra);
    params.extra = cells;
  } else {
    for (uint32_t i = 0; i < kernel->n_args; i++) cells[i] = args + kernel->offsets[i];
    params.kernelParams = kernel->n_args ? cells : 0;
  }
  params.func = (void *)kernel->function;
  params.gridDim = (dim3){dims.grid[0], dims.grid[1], dims.grid[2]};
  params.blockDim = (dim3){dims.block[0], dims.block[1], dims.block[2]};
  params.sharedMemBytes = dims.shared;
  return params;
}

/* Copy one argument: most are words, for which a call costs more than the copy. */
static void copy_argument(char *cell, const void *value, uint32_t size) {
  if (size == 4)
    memcpy(cell, value, 4);
  else if (size == 8)
    memcpy(cell, value, 8);
  else
    memcpy(cell, value, size);
}

static int refuse_buffer(const hiprt_kernel *kernel, uint32_t argument, uint64_t address, uint64_t nbytes) {
  char text[320];
  snprintf(text, sizeof text,
           "%s, argument %u: %llu bytes from 0x%llx end past the last address; nbytes says what the kernel may touch",
           kernel->name, argument, (unsigned long long)nbytes, (unsigned long long)address);
  return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_launch_kernel", text);
}

int hiprt_kernel_pack(const hiprt_kernel *kernel, const hiprt_dims *dims, void *const *args, const uint64_t *nbytes,
                      char *out_payload) {
  char *at = out_payload + sizeof *dims;
  hiprt_range *ranges = (hiprt_range *)(at + kernel->args_size);
  const hiprt_dims clean = {.grid = {dims->grid[0], dims->grid[1], dims->grid[2]},
                            .block = {dims->block[0], dims->block[1], dims->block[2]},
                            .shared = dims->shared};
  memcpy(out_payload, &clean, sizeof clean);
  memset(at, 0, kernel->args_size);
  for (uint32_t i = 0, buffer = 0; i < kernel->n_args; i++) {
    char *cell = at + kernel->offsets[i];
    if (!kernel->args[i].access) {
      copy_argument(cell, args[i], kernel->args[i].size);
      continue;
    }
    uint64_t address;
    memcpy(&address, args[i], sizeof address);
    memcpy(cell, &address, sizeof address);
    if (nbytes[buffer] > UINT64_MAX - address) return refuse_buffer(kernel, i, address, nbytes[buffer]);
    ranges[buffer] = (hiprt_range){address, address + nbytes[buffer]};
    buffer++;
  }
  return 0;
}

/* Move the buffers, each by where its range begins: its address may be that of any element. */
static uint32_t move_buffers(const hiprt_kernel *kernel, const char *payload, uint32_t n_moves, const hiprt_move *moves,
                             char *out) {
  const hiprt_range *ranges = hiprt_kernel_ranges(kernel, payload);
  uint32_t moved = 0, buffer = 0;
  for (uint32_t i = 0; i < kernel->n_args; i++) {
    if (!kernel->args[i].access) continue;
    hiprt_range range = ranges[buffer];
    const uint64_t before = range.start;
    if (hiprt_move_address(&range.start, n_moves, moves)) {
      moved++;
      if (out) {
        const uint64_t delta = range.start - before;
        const size_t cell = sizeof(hiprt_dims) + kernel->offsets[i];
        uint64_t address;
        memcpy(&address, payload + cell, sizeof address);
        address += delta;
        range.end += delta;
        memcpy(out + cell, &address, sizeof address);
        memcpy(out + ((const char *)(ranges + buffer) - payload), &range, sizeof range);
      }
    }
    buffer++;
  }
  return moved;
}

uint32_t hiprt_kernel_moved(const hiprt_kernel *kernel, const char *payload, uint32_t n_moves, const hiprt_move *moves,
                            char *out_payload) {
  uint32_t moved = move_buffers(kernel, payload, n_moves, moves, out_payload);
  for (uint32_t i = 0; i < kernel->n_addresses; i++) {
    uint64_t address;
    memcpy(&address, payload + kernel->addresses[i], sizeof address);
    if (!hiprt_move_address(&address, n_moves, moves)) continue;
    moved++;
    if (out_payload) memcpy(out_payload + kernel->addresses[i], &address, sizeof address);
  }
  return moved;
}

void hiprt_kernel_move(const hiprt_kernel *kernel, char *payload, uint32_t n_moves, const hiprt_move *moves) {
  hiprt_kernel_moved(kernel, payload, n_moves, moves, payload);
}
