// Complex numbers as short vectors: hipFloatComplex and hipDoubleComplex, for host and device code.
#pragma once

#ifdef __HIPRT_HIPCC__
#include "hip/hip_runtime.h"
#endif

#define HIPRT_COMPLEX __host__ __device__ static inline

typedef float2 hipFloatComplex;
typedef double2 hipDoubleComplex;
typedef hipFloatComplex hipComplex;

// Products and sums are in the order of HIP's, with its overflow where a divisor's square does not fit.
#define HIPRT_COMPLEX_OF(C, T, suffix, make)                                                                  \
  HIPRT_COMPLEX C make_##C(T a, T b) { return make(a, b); }                                                   \
  HIPRT_COMPLEX T hipCreal##suffix(C z) { return z.x; }                                                       \
  HIPRT_COMPLEX T hipCimag##suffix(C z) { return z.y; }                                                       \
  HIPRT_COMPLEX C hipConj##suffix(C z) { return make(z.x, -z.y); }                                            \
  HIPRT_COMPLEX T hipCsqabs##suffix(C z) { return z.x * z.x + z.y * z.y; }                                    \
  HIPRT_COMPLEX T hipCabs##suffix(C z) { return sqrt##suffix(hipCsqabs##suffix(z)); }                         \
  HIPRT_COMPLEX C hipCadd##suffix(C p, C q) { return make(p.x + q.x, p.y + q.y); }                            \
  HIPRT_COMPLEX C hipCsub##suffix(C p, C q) { return make(p.x - q.x, p.y - q.y); }                            \
  HIPRT_COMPLEX C hipCmul##suffix(C p, C q) { return make(p.x * q.x - p.y * q.y, p.y * q.x + p.x * q.y); }    \
  HIPRT_COMPLEX C hipCdiv##suffix(C p, C q) {                                                                 \
    const T size = hipCsqabs##suffix(q);                                                                      \
    return make((p.x * q.x + p.y * q.y) / size, (p.y * q.x - p.x * q.y) / size);                              \
  }                                                                                                           \
  HIPRT_COMPLEX C hipCfma##suffix(C p, C q, C r) {                                                            \
    return make(p.x * q.x + r.x - p.y * q.y, q.y * p.x + r.y + p.y * q.x);                                    \
  }
HIPRT_COMPLEX_OF(hipFloatComplex, float, f, make_float2)
HIPRT_COMPLEX_OF(hipDoubleComplex, double, , make_double2)
#undef HIPRT_COMPLEX_OF

HIPRT_COMPLEX hipComplex make_hipComplex(float x, float y) { return make_float2(x, y); }
HIPRT_COMPLEX hipFloatComplex hipComplexDoubleToFloat(hipDoubleComplex z) { return make_float2((float)z.x, (float)z.y); }
HIPRT_COMPLEX hipDoubleComplex hipComplexFloatToDouble(hipFloatComplex z) { return make_double2(z.x, z.y); }
#undef HIPRT_COMPLEX
