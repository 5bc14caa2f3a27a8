/* Upload: bytes of files and of the host's memory, on their way to the device through pinned memory. */
#pragma once
#include "library.h"

/* cffi begin */
/* Bytes that lie in a row: in an open file from an offset on, or, where `file` is -1, in memory from an address on. */
typedef struct {
  uint64_t source, nbytes;
  int file;
} hiprt_upload_part;

/* Copy parts to the device, one behind the other, on a stream. `size` bytes of pinned memory are two halves: each time
 * that one is full, or all parts are read, it is copied and its event is recorded; it is filled again once that has
 * happened, and the other one meanwhile. A thread needs memory and events of its own.
 * Return 0 or a status. *out_failed is the number of the part that could not be read, and *out_errno says why, or is 0
 * where the file has ended; `count` where it was not a read that failed. */
int hiprt_upload(int device, uint64_t stream, uint64_t target, const hiprt_upload_part *parts, uint32_t count,
                 uint64_t pinned, uint64_t size, const uint64_t events[2], uint32_t *out_failed, int *out_errno);
/* cffi end */
