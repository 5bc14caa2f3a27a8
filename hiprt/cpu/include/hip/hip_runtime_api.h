// The host's interface, which is no part of a program that hiprtc compiles.
#pragma once

#ifdef __HIPRT_HIPCC__
#include_next <hip/hip_runtime_api.h>
#endif
