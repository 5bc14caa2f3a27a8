/* A HIP stream, its device, and the recorder that takes its work while it records. */
#pragma once
#include "hiprt_core.h"
#include "library.h"

struct hiprt_stream {
  hipStream_t handle;
  int device;
  hiprt_recorder *recorder;
  uint64_t launches; /* kernels and graphs handed to HIP; copies and fills are not counted */
};

/* Launch eagerly what a payload describes (kernel.h); the stream must not record. */
int hiprt_launch_payload(hiprt_stream *stream, const hiprt_kernel *kernel, const char *payload);
