#define _GNU_SOURCE /* pread */
#include "upload.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "lookout.h"
#include "status.h"

/* Read bytes that a part holds from `at` on. Return 0, errno, or -1 at the end of the file. */
static int read_part(const hiprt_upload_part *part, uint64_t at, char *into, uint64_t nbytes) {
  if (part->file < 0) {
    memcpy(into, (const char *)(uintptr_t)part->source + at, nbytes);
    return 0;
  }
  while (nbytes) {
    ssize_t n = pread(part->file, into, nbytes, (off_t)(part->source + at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n ? errno : -1;
    into += n, at += (uint64_t)n, nbytes -= (uint64_t)n;
  }
  return 0;
}

int hiprt_upload(int device, uint64_t stream, uint64_t target, const hiprt_upload_part *parts, uint32_t count,
                 uint64_t pinned, uint64_t size, const uint64_t events[2], uint32_t *out_failed, int *out_errno) {
  *out_failed = count, *out_errno = 0;
  if (size < 2) return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_upload", "the pinned memory has no two halves");
  HIPRT_TRY(hipSetDevice, device);
  uint64_t half = size / 2, at = 0; /* of the part */
  for (uint32_t i = 0, turn = 0; i < count; turn = !turn) {
    hipEvent_t copied = (hipEvent_t)(uintptr_t)events[turn];
    char *memory = (char *)(uintptr_t)pinned + turn * half;
    HIPRT_TRY(hipEventSynchronize, copied);
    uint64_t filled = 0;
    while (filled < half && i < count) {
      uint64_t left = parts[i].nbytes - at, n = left < half - filled ? left : half - filled;
      int error = read_part(&parts[i], at, memory + filled, n);
      if (error) {
        *out_failed = i, *out_errno = error < 0 ? 0 : error;
        return hiprt_fail(hipErrorOperatingSystem, "pread", 0);
      }
      filled += n, at += n;
      if (at == parts[i].nbytes) i++, at = 0;
    }
    hipStream_t on = (hipStream_t)(uintptr_t)stream;
    HIPRT_TRY(hipMemcpyAsync, (void *)(uintptr_t)target, memory, filled, hipMemcpyHostToDevice, on);
    /* The next upload asks about it, when the stream may be gone. */
    const int status = (int)hiprt_lookout_record(device, on, copied);
    if (status) return hiprt_fail(status, "hipEventRecord", 0);
    target += filled;
  }
  return 0;
}
