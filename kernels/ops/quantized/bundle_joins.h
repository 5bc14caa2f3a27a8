// Numbers of a bundle of 1, 2 or 4 vectors are joined across lanes by the butterflies that join those of one vector, and so with
// its bits. While a lane has numbers of several vectors, it takes from the lane across what that one has of half of them, and
// gives what it has of the other half; in the end it has the number of one vector.
namespace metal {

// The butterflies are FIRST, then twice or half as much until LAST.
template <uint FIRST, uint LAST, uint COUNT, typename Both>
HIPRT_INLINE float joined(const float (&of)[COUNT], uint lane, Both both) {
  constexpr uint LEFT = (COUNT + 1) / 2;
  const bool is_upper = COUNT > 1 && (lane & FIRST) != 0;
  float mine[LEFT];
  for (uint i = 0; i < LEFT; i++) {
    const float upper = of[COUNT / 2 + i], kept = is_upper ? upper : of[i], given = is_upper ? of[i] : upper;
    mine[i] = both(kept, simd_shuffle_xor(given, FIRST));
  }
  if constexpr (FIRST == LAST) {
    return mine[0];
  } else {
    return joined<FIRST < LAST ? FIRST * 2 : FIRST / 2, LAST>(mine, lane, both);
  }
}
// Which of the vectors a lane has the number of, by the first two butterflies.
template <uint FIRST, uint SECOND, uint COUNT>
HIPRT_INLINE uint joined_vector(uint lane) {
  const uint high = (lane & FIRST) != 0 ? 1u : 0u, low = (lane & SECOND) != 0 ? 1u : 0u;
  return COUNT == 4 ? high * 2 + low : COUNT == 2 ? high : 0u;
}
// The first lane that has the number of a vector, where the first two butterflies are 1 and 2.
template <uint COUNT>
HIPRT_INLINE uint joined_lane(uint vector) {
  return COUNT == 4 ? vector / 2 + vector % 2 * 2 : vector;
}

}  // namespace metal
