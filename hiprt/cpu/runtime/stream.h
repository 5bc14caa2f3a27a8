// Streams: queues of work, and the one device thread that executes them.
//
// Every API call that means device work makes a Work and submits it. The device thread takes the head of a random stream
// that is ready (seeded by HIPRT_CPU_SEED), so that a missing dependency shows up in a test. Null-stream semantics are
// HIP's: the legacy null stream waits for, and holds back, all blocking streams of the device.
#pragma once

#include <memory>

#include "hip/hip_runtime_api.h"
#include "runtime/work.h"

namespace cpu {

struct Capture;  // capture.h
struct Stream;   // scheduler.h

// Queue work, or make it a node of the graph being captured. hipErrorInvalidHandle for a destroyed stream.
hipError_t submit(hipStream_t stream, std::shared_ptr<Work> work);

// Queue a copy or fill, by the same rules but on a stream that does not capture, and wait for it. It may run on the
// calling thread.
hipError_t execute(hipStream_t stream, std::shared_ptr<Work> work);

// Queue work even if the stream captures (used by the capture machinery and by graph launches it has vetted).
hipError_t enqueue(hipStream_t stream, std::shared_ptr<Work> work);

// Block until everything queued so far on the stream (or on all streams) has run; returns the stream's error, if any.
hipError_t wait(hipStream_t stream);
hipError_t wait_all();

bool is_valid(hipStream_t stream);
bool is_legacy(hipStream_t stream);
// The stream's own handle: hipStreamPerThread means another stream in each thread, this does not.
hipStream_t canonical(hipStream_t stream);
// The stream behind a handle, or null.
std::shared_ptr<Stream> find_stream(hipStream_t stream);
// Destroy all streams of a device that the application made.
void destroy_streams(int device);

// The capture this stream belongs to, or null. set_capture is called by capture.cpp only.
Capture *capture_of(hipStream_t stream);
void set_capture(hipStream_t stream, Capture *capture);

// A seeded random number source shared by everything that shuffles (stream choice, graph node order).
uint32_t shuffle_next(uint32_t bound);

}  // namespace cpu
