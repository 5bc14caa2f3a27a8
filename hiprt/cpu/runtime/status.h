// The status of API calls, and what hipGetLastError remembers of them.
#pragma once

#include <new>
#include <utility>

#include "fork.h"
#include "hip/hip_runtime_api.h"

namespace cpu {

// Notes the status of a finished API call for this thread's hipGetLastError, and returns it.
hipError_t done(hipError_t status) noexcept;

// Return the last failure of this thread that nobody has read yet; take_last_error() forgets it.
hipError_t peek_last_error() noexcept;
hipError_t take_last_error() noexcept;
// Returns the status of this thread's last call, failed or not, and forgets it.
hipError_t take_last_status() noexcept;

// Every API function returns through this, so that no exception crosses the C interface. In a process that was forked
// from one that had used the device, nothing is called.
template <class Call>
hipError_t api(Call &&call) noexcept {
  if (is_forked_from_user()) return done(hipErrorNotInitialized);
  try {
    return done(std::forward<Call>(call)());
  } catch (const std::bad_alloc &) {
    return done(hipErrorOutOfMemory);
  } catch (...) {
    return done(hipErrorUnknown);
  }
}

}  // namespace cpu
