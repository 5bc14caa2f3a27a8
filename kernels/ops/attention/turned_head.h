// Heads of queries or keys that are normed and turned. What was normed is rounded to T before it is turned, as two ops would
// do it.
namespace metal {

#if HIPRT_CPU_LOOPS
// One head by plain loops; `weight` is null where there is no norm.
template <typename T>
void turn(const T* from, T* to, const T* weight, const float2* angles, float eps, uint width, uint half_dims) {
  float ready[256];
  float sum = 0.0f;
  for (uint i = 0; i < width; i++) sum = mad(float(from[i]), float(from[i]), sum);
  const float scale = rsqrt(sum / float(width) + eps);
  for (uint i = 0; i < width; i++) {
    ready[i] = weight ? float(T(float(from[i]) * scale * float(weight[i]))) : float(from[i]);
  }
  for (uint i = 0; i < half_dims; i++) {
    const float a = ready[i], b = ready[i + half_dims];
    to[i] = T(a * angles[i].x - b * angles[i].y);
    to[i + half_dims] = T(b * angles[i].x + a * angles[i].y);
  }
  for (uint i = 2 * half_dims; i < width; i++) to[i] = T(ready[i]);
}
#else
// A simdgroup takes a head: a lane takes pairs of elements that are turned together, then elements that are not turned.
// ITEMS is how many a lane takes at most, of which PAIRS can be pairs.
template <typename T, int ITEMS>
struct turned_head {
  enum { PAIRS = (ITEMS + 1) / 2 };
  ulong frequency[PAIRS];
  float left_weight[ITEMS], right_weight[PAIRS];
  float2 angles[PAIRS];

  // Asks for what depends neither on the head nor on its place: the frequencies, and the weights of the norm where it has one.
  // All of it is on its way at once, because a load that has to wait for another takes as long again.
  void ask(const device ulong* frequencies, const device T* weight, bool has_norm, uint width, uint half_dims, uint lane) {
#pragma unroll
    for (uint j = 0; j < PAIRS; j++) frequency[j] = j * 32 + lane < half_dims ? frequencies[j * 32 + lane] : 0;
#pragma unroll
    for (uint j = 0; j < ITEMS; j++) {
      const uint i = j * 32 + lane;
      const bool is_pair = j < PAIRS && i < half_dims;
      left_weight[j] = has_norm && i < width - half_dims ? float(weight[is_pair ? i : i + half_dims]) : 1.0f;
      if (j < PAIRS) right_weight[j] = has_norm && is_pair ? float(weight[i + half_dims]) : 1.0f;
    }
  }

  // Finds the angles of a place.
  void turn_to(int place) {
#pragma unroll
    for (uint j = 0; j < PAIRS; j++) angles[j] = cos_sin(frequency[j] * ulong(place));
  }

  // Puts the head to where it is wanted.
  template <typename To>
  void put(const device T* from, To to, bool has_norm, bool is_turned, float eps, uint width, uint half_dims, uint lane) {
    const uint items = width - half_dims;
    float left[ITEMS], right[ITEMS];
    float sum = 0.0f;
#pragma unroll
    for (uint j = 0; j < ITEMS; j++) {
      const uint i = j * 32 + lane;
      const bool is_pair = j < PAIRS && i < half_dims;
      left[j] = i < items ? float(from[is_pair ? i : i + half_dims]) : 0.0f;
      right[j] = is_pair ? float(from[i + half_dims]) : 0.0f;
      sum = mad(left[j], left[j], mad(right[j], right[j], sum));
    }
    const float scale = rsqrt(simd_sum(sum) / float(width) + eps);
#pragma unroll
    for (uint j = 0; j < ITEMS; j++) {
      const uint i = j * 32 + lane;
      const bool is_pair = j < PAIRS && i < half_dims;
      if (i >= items) continue;
      float a = left[j], b = right[j];
      if (has_norm) {
        a = float(T(a * scale * left_weight[j]));
        if (is_pair) b = float(T(b * scale * right_weight[j]));
      }
      if (is_pair && is_turned) {
        to[i] = T(a * angles[j].x - b * angles[j].y);
        to[i + half_dims] = T(b * angles[j].x + a * angles[j].y);
      } else {
        to[is_pair ? i : i + half_dims] = T(a);
        if (is_pair) to[i + half_dims] = T(b);
      }
    }
  }
};

#endif

}  // namespace metal
