// Included before every program that hiprtc compiles for the CPU device: HIP's device language in plain C++. No system headers.
#pragma once

#include "cpu_abi.h"
#include "cpu_language.h"
#include "cpu_vector.h"
#include "cpu_integer.h"
#include "cpu_math.h"
#include "cpu_math_host.h"
#include "cpu_atomic.h"
#include "cpu_warp.h"
#include "cpu_kernel.h"
#ifdef __HIPRT_CHECK__
#include "cpu_check.h"
#endif
