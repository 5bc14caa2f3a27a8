/* Recorders: the nodes of one step in program order, with the argument bytes each owns. */
#pragma once
#include "hiprt_core.h"
#include "kernel.h"

typedef struct {
  uint64_t dst, src, nbytes;
} hiprt_copy_args;

typedef struct {
  uint64_t dst, count;
  uint32_t value, width;
} hiprt_fill_args;

int hiprt_recorder_kernel(hiprt_recorder *recorder, hiprt_kernel *kernel, const char *payload);
int hiprt_recorder_copy(hiprt_recorder *recorder, uint64_t dst, uint64_t src, uint64_t nbytes);
int hiprt_recorder_fill(hiprt_recorder *recorder, uint64_t dst, uint32_t value, uint32_t width, uint64_t count);
int hiprt_recorder_barrier(hiprt_recorder *recorder);
/* Of this recording alone, in the life of the process. */
uint64_t hiprt_recorder_serial(const hiprt_recorder *recorder);
uint32_t hiprt_recorder_move(const hiprt_recorder *recorder, uint32_t index, uint32_t n_moves, const hiprt_move *moves,
                             char *out_payload);
char *hiprt_recorder_payload(hiprt_recorder *recorder, uint32_t index);
void hiprt_recorder_retain(hiprt_recorder *recorder);
/* Whether node i carries other arguments in b than in a (recordings of one key). */
int hiprt_recorder_differs(const hiprt_recorder *a, const hiprt_recorder *b, uint32_t i);
