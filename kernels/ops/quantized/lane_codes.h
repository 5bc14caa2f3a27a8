// What a lane reads of a row of codes at a time, a piece: 128 bits of codes of 4 or 8 bits, or 32 codes of others.
namespace metal {

template <int BITS>
struct lane_codes {
  enum : int { COUNT = BITS % 4 == 0 ? 128 / BITS : 32, WORDS = COUNT * BITS / 32, EACH_LOAD = WORDS & -WORDS };
  uint words[WORDS];

  // The piece in which code `at` of a matrix comes first.
  void load(const device uint* weight, size_t at) {
    const device uint* const from = weight + (BITS % 4 == 0 ? at / (32 / BITS) : at / 32 * BITS);
#pragma unroll
    for (int i = 0; i < WORDS; i += EACH_LOAD) {
      const pack<uint, EACH_LOAD> loaded = *(const device pack<uint, EACH_LOAD>*)(from + i);
#pragma unroll
      for (int j = 0; j < EACH_LOAD; j++) words[i + j] = loaded.values[j];
    }
  }
};

}  // namespace metal
