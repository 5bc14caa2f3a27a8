// hiprtc includes the device language before every program (cpu_prelude.h): nothing is left for programs that ask for it.
// Programs for hipcc get the host's interface and the device language here.
#pragma once

#ifdef __HIPRT_HIPCC__
#pragma clang force_cuda_host_device begin
#include "../cpu_abi.h"
#pragma clang force_cuda_host_device end

// The standard library's templates of two numbers call these, and look for them where they are defined themselves.
#define __hiprt_forward(name) __attribute__((device)) double name(double, double);
HIPRT_CPU_HOST_BINARY(__hiprt_forward)
__hiprt_forward(copysign) __hiprt_forward(fmin) __hiprt_forward(fmax) __hiprt_forward(fdim)
#undef __hiprt_forward
__attribute__((device)) double fma(double, double, double);

// HIP's own header includes these, and programs use them without a word.
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <new>
#include <tuple>

#include_next <hip/hip_runtime.h>

#include "../cpu_prelude.h"
#include "hip/channel_descriptor.h"
#include "hip/hip_launch_kernel.h"
#include "hip/hip_textures.h"
#endif
