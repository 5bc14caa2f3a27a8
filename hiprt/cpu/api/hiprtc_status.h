// How hiprtc's functions return.
#pragma once

#include <cstring>
#include <new>
#include <string>

#include "fork.h"
#include "hip/hiprtc.h"

namespace cpu {

// Every function of hiprtc returns through this, so that no exception crosses the C interface.
template <class Call>
hiprtcResult rtc_api(Call &&call) noexcept {
  if (is_forked_from_user()) return HIPRTC_ERROR_INTERNAL_ERROR;
  try {
    return call();
  } catch (const std::bad_alloc &) {
    return HIPRTC_ERROR_OUT_OF_MEMORY;
  } catch (...) {
    return HIPRTC_ERROR_INTERNAL_ERROR;
  }
}

}  // namespace cpu
