#include "runtime/status.h"

#include "quirks/quirks.h"

namespace cpu {
namespace {

// The last failure that was not read yet, and the status of the last call, whatever it was.
thread_local hipError_t last_error = hipSuccess;
thread_local hipError_t last_status = hipSuccess;

}  // namespace

hipError_t done(hipError_t status) noexcept {
  last_status = status;
  // Before HIP 7.0 every call overwrites what the one before left.
  const bool is_kept = status == hipSuccess || status == hipErrorNotReady;
  if (!is_kept || quirk(Quirk::LasterrorOverwrite)) last_error = status;
  return status;
}

hipError_t peek_last_error() noexcept { return last_error; }

hipError_t take_last_error() noexcept { return std::exchange(last_error, hipSuccess); }

hipError_t take_last_status() noexcept { return std::exchange(last_status, hipSuccess); }

}  // namespace cpu
