// Functions that the kernels of gated-delta layers share.
namespace metal {

// Returns what is left of a state: exp(-rate * softplus(a + dt_bias)), where the rate is exp(a_log).
inline float decay_of(float a, float dt_bias, float rate) {
  const float step = a + dt_bias;
#if HIPRT_TARGET_NVIDIA
  // By powers of two. The error of the GPU's logarithm is absolute, so that a small power takes two terms of the series.
  const float power = power_of_two(-1.44269504f * fabs(step));
  float grown;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(grown) : "f"(1.0f + power));
  if (power < 0.0078125f) grown = power * mad(-0.72134752f, power, 1.44269504f);
  return power_of_two(-rate * mad(1.44269504f, max(step, 0.0f), grown));
#else
  const float softplus = step > 20.0f ? step : max(step, 0.0f) + log1p_of(exp(-fabs(step)));
  return exp(-rate * softplus);
#endif
}

// Where the power overflows, the result is zero.
inline float sigmoid_of(float x) {
#if HIPRT_TARGET_NVIDIA
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1.0f + power_of_two(-1.44269504f * x)));
  return inverse;
#elif HIPRT_TARGET_AMD
  return __builtin_amdgcn_rcpf(1.0f + power_of_two(-1.44269504f * x));
#else
  return 1.0f / (1.0f + exp(-x));
#endif
}

// The channels of a layer's convolution that a step's threadgroup takes: those of q and k of a head of keys, KEY each, and
// then the neighbouring ones of v from the `first_value`-th on.
template <uint KEY>
struct step_channels {
  uint queries, keys, values;  // what lies before them in the layer's channels, beyond what does here

  HIPRT_INLINE step_channels(uint key_head, uint key_heads, uint first_value)
      : queries(key_head * KEY),
        keys((key_heads + key_head - 1) * KEY),
        values((2 * key_heads - 2) * KEY + first_value) {}

  HIPRT_INLINE uint at(uint c) const { return c + (c < KEY ? queries : c < 2 * KEY ? keys : values); }
};

// What a row of a state takes of a step: in registers its lanes' columns of key and query, each LANES behind the one before.
template <typename T, uint KEY, uint LANES>
struct delta_step {
  static constexpr uint COUNT = (KEY + LANES - 1) / LANES;
#if HIPRT_CPU_LOOPS
  const device T* keys;
  const device T* queries;
#else
  T keys[COUNT], queries[COUNT];
#endif
  T value;
  float kept, corrected;

  HIPRT_INLINE void load(const device T* key, const device T* query, const device T* values, const device float* g,
                         const device float* beta, uint lane) {
#if HIPRT_CPU_LOOPS
    keys = key;
    queries = query;
#else
#pragma unroll
    for (uint j = 0; j < COUNT; j++) {
      const uint column = min(j * LANES + lane, KEY - 1);
      keys[j] = key[column];
      queries[j] = query[column];
    }
#endif
    value = *values;
    kept = *g;
    corrected = *beta;
  }
};

#if !HIPRT_CPU_LOOPS
// A sum of products by chains, none of whose additions waits for those of another. AMD's GPUs have one chain: other waves
// hide its latency, and four would take the registers of some of them.
struct chained_sum {
#if HIPRT_TARGET_AMD
  static constexpr uint CHAINS = 1;
#else
  static constexpr uint CHAINS = 4;
#endif
  float chains[CHAINS] = {};

  HIPRT_INLINE void add(uint i, float a, float b) { chains[i % CHAINS] = mad(a, b, chains[i % CHAINS]); }

  HIPRT_INLINE float total() const {
    float sums[CHAINS];
    for (uint i = 0; i < CHAINS; i++) sums[i] = chains[i];
    for (uint by = CHAINS / 2; by > 0; by /= 2) {
      for (uint i = 0; i < by; i++) sums[i] += sums[i + by];
    }
    return sums[0];
  }
};

// Returns the sum over eight neighbouring lanes, in each of them.
inline float sum_of_eight(float v) {
  return sum_across(sum_across(sum_across(v, 1), 2), 4);
}
#endif

}  // namespace metal
