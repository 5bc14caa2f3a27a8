// The k largest of `experts` logits of a token, and their shares. One simdgroup a token; a lane holds every 32nd logit.
uint token = threadgroup_position_in_grid.x;
const device T* from = logits + size_t(token) * experts;
device int* places = indices + size_t(token) * chosen;
device T* shares = weights + size_t(token) * chosen;
#if HIPRT_CPU_LOOPS
constexpr uint LANES = 1;
uint lane = 0;
#else
constexpr uint LANES = 32;
uint lane = thread_index_in_simdgroup;
#endif
float top = -INFINITY;
for (uint i = lane; i < experts; i += LANES) top = max(top, float(from[i]));
#if !HIPRT_CPU_LOOPS
top = simd_max(top);
#endif
float sum = 0.0f;
for (uint i = lane; i < experts; i += LANES) sum += exp(float(from[i]) - top);
#if !HIPRT_CPU_LOOPS
sum = simd_sum(sum);
#endif
// Each round takes the largest behind the last one taken: by value, then by place. Shares of the chosen alone need a
// pass of its own for their sum, because what was stored is rounded.
float kept = 1.0f;
for (uint pass = is_normalised ? 0u : 1u; pass < 2; pass++) {
  int last_key = 0x7fffffff;
  uint last_place = 0u;
  float total = 0.0f;
  for (uint round = 0; round < chosen; round++) {
    int best = LOWEST_KEY;
    uint place = 0xffffffffu;
    for (uint i = lane; i < experts; i += LANES) {
      int key = order_key(float(from[i]));
      bool is_left = round == 0 || key < last_key || (key == last_key && i > last_place);
      if (is_left && (key > best || place == 0xffffffffu)) {
        best = key;
        place = i;
      }
    }
#if !HIPRT_CPU_LOOPS
    int highest = simd_max(place == 0xffffffffu ? LOWEST_KEY : best);
    place = simd_min(best == highest ? place : 0xffffffffu);
    best = highest;
#endif
    last_key = best;
    last_place = place;
    float share = exp(float(from[place]) - top) / sum;
    total += share;
    if (lane == 0 && pass == 1) {
      places[round] = int(place);
      shares[round] = T(share / kept);
    }
  }
  kept = total;
}
