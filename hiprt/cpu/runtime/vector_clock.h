// Vector clocks. They tell which frees of memory are known to come before what a stream does next; events carry the
// knowledge from stream to stream.
//
// Streams are named by stream_key(), which means the same stream in every thread. Until the first free is numbered
// there is no order to keep, and the calls return at once.
#pragma once

#include <cstdint>

#include "hip/hip_runtime_api.h"

namespace cpu {

// Numbers the next free of a stream.
uint64_t clock_tick(hipStream_t key);
// Note that an event was recorded on a stream outside a capture, and that a stream waits for an event from now on.
void clock_recorded(hipEvent_t event, hipStream_t key);
void clock_waited(hipStream_t key, hipEvent_t event);
// Forget an event or a stream that was destroyed.
void clock_forget(hipEvent_t event);
void clock_forget(hipStream_t key);
// Returns whether the free of that number comes before the next operation of a stream.
bool clock_is_before(hipStream_t freed_on, uint64_t tick, hipStream_t key);

}  // namespace cpu
