// HIP's device language for the CPU device. It is included before every program that hiprtc compiles, as plain C++ without
// system headers, and by the hip_runtime.h of programs for hipcc, which are in clang's HIP mode (__HIPRT_HIPCC__).
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
#if defined(__HIPRT_HIPCC__) && defined(__HIPRT_SCAN__)
#include "cpu_scan.h"
#else
#include "cpu_words.h"
#endif
#if defined(__HIPRT_CHECK__) && !defined(__HIPRT_HIPCC__)
#include "cpu_check.h"
#endif
#if defined(__HIPRT_HIPCC__) ? defined(__HIPRT_SCAN__) : defined(__HIPRT_CHECK__)
#include "cpu_orders.h"
#endif
