// Functions that the kernels of gated-delta layers share.
namespace metal {

// Returns what is left of a state: exp(-exp(a_log) * softplus(a + dt_bias)).
inline float decay_of(float a, float dt_bias, float a_log) {
  const float step = a + dt_bias;
  const float softplus = step > 20.0f ? step : max(step, 0.0f) + log1p_of(exp(-fabs(step)));
  return exp(-exp(a_log) * softplus);
}

inline float sigmoid_of(float x) { return 1.0f / (1.0f + exp(-x)); }

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
// Returns the sum over eight neighbouring lanes, in each of them.
inline float sum_of_eight(float v) {
  return sum_across(sum_across(sum_across(v, 1), 2), 4);
}
#endif

}  // namespace metal
