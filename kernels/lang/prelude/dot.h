// The parts of products of packed codes: pairs of 16-bit numbers, loads of data that is read once, matrix instructions.
namespace metal {
namespace hiprt {

// A code put below the exponent of a power of two is that power plus the code, exactly. CODE_BITS is the number of bits for
// which the type has room there, so wider codes come in two halves; POWER is the power.
template <typename T>
struct numbers {};
template <>
struct numbers<half> {
  static constexpr int CODE_BITS = 8;
  static constexpr uint WORD = 0x64006400u;
  static constexpr float POWER = 1024.0f;
};
template <>
struct numbers<bfloat16_t> {
  static constexpr int CODE_BITS = 4;
  static constexpr uint WORD = 0x43004300u;
  static constexpr float POWER = 128.0f;
};

// A word of codes becomes registers of two numbers each. Of a wide code's two halves, the upper one is multiplied with 16
// times x.
template <typename T, int BITS>
struct coded {
  static constexpr bool HALVES = BITS > numbers<T>::CODE_BITS;
  static constexpr int REGISTERS = HALVES || BITS == 4 ? 4 : 2;
  static constexpr int FIELD = REGISTERS == 4 ? 4 : 8;
  // The share of the powers of two in a sum of products, as a multiple of the sum of x.
  static constexpr float OFFSET = numbers<T>::POWER * (HALVES ? 17.0f : 1.0f);
};
template <typename T, int BITS>
HIPRT_INLINE void numbers_of(uint word, uint (&pairs)[coded<T, BITS>::REGISTERS]) {
  constexpr int FIELD = coded<T, BITS>::FIELD;
  constexpr uint MASK = FIELD == 4 ? 0x000f000fu : 0x00ff00ffu;
#pragma unroll
  for (int i = 0; i < coded<T, BITS>::REGISTERS; i++) {
#if HIPRT_TARGET_NVIDIA
    // One instruction, of which the compiler would make two: not both words can be part of it.
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(pairs[i]) : "r"(word >> (i * FIELD)), "r"(MASK), "r"(numbers<T>::WORD));
#else
    pairs[i] = ((word >> (i * FIELD)) & MASK) | numbers<T>::WORD;
#endif
  }
}

template <typename T>
HIPRT_INLINE T number_of_bits(uint bits) {
  return as_type<T>(ushort(bits));
}
template <typename T>
HIPRT_INLINE uint pair_of(T low, T high) {
  return uint(as_type<ushort>(low)) | uint(as_type<ushort>(high)) << 16;
}
template <typename T>
HIPRT_INLINE float low_of(uint pair) {
  return float(number_of_bits<T>(pair & 0xffffu));
}
template <typename T>
HIPRT_INLINE float high_of(uint pair) {
  return float(number_of_bits<T>(pair >> 16));
}

// x in the order of the registers of its codes: eight values fill 8 * BITS / 32 words' worth of registers.
template <typename T, int BITS>
HIPRT_INLINE void arrange(const T (&x)[8], uint (&pairs)[BITS / 4 * coded<T, BITS>::REGISTERS]) {
  constexpr int APART = 16 / BITS, REPEATS = coded<T, BITS>::HALVES ? 2 : 1;
  for (int w = 0; w < BITS / 4; w++) {
    for (int i = 0; i < APART; i++) {
      T low = x[w * 2 * APART + i], high = x[w * 2 * APART + i + APART];
      pairs[(w * APART + i) * REPEATS] = pair_of(low, high);
      if (REPEATS == 2) {
        pairs[(w * APART + i) * REPEATS + REPEATS - 1] = pair_of(T(16.0f * float(low)), T(16.0f * float(high)));
      }
    }
  }
}

// Two numbers in a word: a * b + c, rounded once, where the device has an instruction for two.
#if HIPRT_TARGET_NVIDIA && __CUDA_ARCH__ >= 800
template <typename T>
HIPRT_INLINE uint pair_mad(uint a, uint b, uint c) {
  uint pair;
  if (same<T, half>::value) {
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(pair) : "r"(a), "r"(b), "r"(c));
  } else {
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(pair) : "r"(a), "r"(b), "r"(c));
  }
  return pair;
}
#else
template <typename T>
HIPRT_INLINE uint pair_mad(uint a, uint b, uint c) {
  return pair_of(T(mad(low_of<T>(a), low_of<T>(b), low_of<T>(c))), T(mad(high_of<T>(a), high_of<T>(b), high_of<T>(c))));
}
#endif
template <typename T>
HIPRT_INLINE uint pair_product(uint a, uint b) { return pair_mad<T>(a, b, 0x80008000u); }  // -0 keeps the sign of 0

// The lower halves of two words in one, and the upper ones; then the lower bytes of four halves, and the upper ones.
#if HIPRT_TARGET_NVIDIA
HIPRT_INLINE uint low_pair(uint a, uint b) { return __byte_perm(a, b, 0x5410u); }
HIPRT_INLINE uint high_pair(uint a, uint b) { return __byte_perm(a, b, 0x7632u); }
HIPRT_INLINE uint low_bytes(uint a, uint b) { return __byte_perm(a, b, 0x6420u); }
HIPRT_INLINE uint high_bytes(uint a, uint b) { return __byte_perm(a, b, 0x7531u); }
#else
HIPRT_INLINE uint low_pair(uint a, uint b) { return (a & 0xffffu) | b << 16; }
HIPRT_INLINE uint high_pair(uint a, uint b) { return a >> 16 | (b & 0xffff0000u); }
HIPRT_INLINE uint low_bytes(uint a, uint b) {
  return (a & 255u) | (a >> 16 & 255u) << 8 | (b & 255u) << 16 | (b >> 16 & 255u) << 24;
}
HIPRT_INLINE uint high_bytes(uint a, uint b) { return low_bytes(a >> 8, b >> 8); }
#endif

// A pair of subnormal halves holds two codes in units of 2^-24. Every other pair of 4-bit codes is 16 times as large, and
// `arranged` divides its factors by 16. Codes i and i + 16 / BITS of a word make a pair.
template <int BITS>
HIPRT_INLINE pack<uint, 16 / BITS> halves_of(uint word) {
  pack<uint, 16 / BITS> pairs;
  if (BITS == 4) {
    pairs.values[0] = word & 0x000f000fu;
    pairs.values[1] = word & 0x00f000f0u;
    pairs.values[16 / BITS - 2] = (word >> 8) & 0x000f000fu;
    pairs.values[16 / BITS - 1] = (word >> 8) & 0x00f000f0u;
  } else {
    pairs.values[0] = word & 0x00ff00ffu;
    pairs.values[1] = (word >> 8) & 0x00ff00ffu;
  }
  return pairs;
}
// The values that the codes of one word are multiplied with, in the order of the codes.
template <int BITS>
HIPRT_INLINE pack<uint, 16 / BITS> arranged(const half* x) {
  pack<uint, 16 / BITS> pairs;
  for (int i = 0; i < 16 / BITS; i++) {
    const float factor = BITS == 4 && i % 2 ? 0.0625f : 1.0f;
    pairs.values[i] = pair_of(half(float(x[i]) * factor), half(float(x[i + 16 / BITS]) * factor));
  }
  return pairs;
}

// These loads stay in their place in the program: the compiler may not defer them to where the value is used.
#if HIPRT_TARGET_NVIDIA
#define HIPRT_LOAD_FOUR(name, instruction)                                                   \
  HIPRT_INLINE pack<uint, 4> name(const pack<uint, 4>* from) {                               \
    pack<uint, 4> v;                                                                         \
    asm volatile(instruction ".v4.u32 {%0, %1, %2, %3}, [%4];"                               \
                 : "=r"(v.values[0]), "=r"(v.values[1]), "=r"(v.values[2]), "=r"(v.values[3]) \
                 : "l"(from));                                                               \
    return v;                                                                                \
  }
#else
#define HIPRT_LOAD_FOUR(name, instruction) \
  HIPRT_INLINE pack<uint, 4> name(const pack<uint, 4>* from) { return *from; }
#endif
HIPRT_LOAD_FOUR(load_now, "ld.global")
// This load bypasses the nearest cache, because weights are read once. What it brings is the first to leave the next one, where
// the instructions of the kernels behind and what little they read stay then.
#if HIPRT_TARGET_NVIDIA
// What NVIDIA's createpolicy gives for that; the instruction itself would stand before each load.
constexpr ulong FIRST_TO_LEAVE = 0x12f0000000000000ull;
#endif
#if HIPRT_TARGET_AMD
typedef uint four_words __attribute__((ext_vector_type(4)));
HIPRT_INLINE pack<uint, 4> load_past(const pack<uint, 4>* from) {
  const four_words v = __builtin_nontemporal_load((const four_words*)from);
  return {{v.x, v.y, v.z, v.w}};
}
#elif HIPRT_TARGET_NVIDIA && __CUDA_ARCH__ >= 900
HIPRT_INLINE pack<uint, 4> load_past(const pack<uint, 4>* from) {
  pack<uint, 4> v;
  asm volatile("ld.global.L1::no_allocate.L2::cache_hint.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(v.values[0]), "=r"(v.values[1]), "=r"(v.values[2]), "=r"(v.values[3])
               : "l"(from), "l"(FIRST_TO_LEAVE));
  return v;
}
#else
HIPRT_LOAD_FOUR(load_past, "ld.global.L1::no_allocate.L2::128B")
#endif
#undef HIPRT_LOAD_FOUR
HIPRT_INLINE pack<uint, 4> load_once(const uint* from) { return load_past((const pack<uint, 4>*)from); }
HIPRT_INLINE uint load_now(const uint* from) {
#if HIPRT_TARGET_NVIDIA
  uint v;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(from));
  return v;
#else
  return *from;
#endif
}
HIPRT_INLINE uint load_now(const ushort* from) {
#if HIPRT_TARGET_NVIDIA
  ushort v;
  asm volatile("ld.global.u16 %0, [%1];" : "=h"(v) : "l"(from));
  return v;
#else
  return *from;
#endif
}

// c[16][8] += a[16][16] * b[16][8] of a simdgroup, as mma.m16n8k16 lays them out. With g = lane / 4, t = lane % 4:
// a0, a1: rows g, g + 8, columns 2t, 2t + 1; a2, a3: the same, columns 2t + 8, 2t + 9; b0, b1: rows 2t, 2t + 1 and 2t + 8,
// 2t + 9 of column g; c: row g, columns 2t, 2t + 1, then row g + 8.
#if HIPRT_TARGET_NVIDIA && __CUDA_ARCH__ >= 800
#define HIPRT_MMA(type)                                                                                       \
  asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "      \
      "{%8, %9}, {%0, %1, %2, %3};"                                                                           \
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                        \
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))
template <typename T>
HIPRT_INLINE void mma(float (&c)[4], uint a0, uint a1, uint a2, uint a3, uint b0, uint b1) {
  if (same<T, half>::value) {
    HIPRT_MMA("f16");
  } else {
    HIPRT_MMA("bf16");
  }
}
#undef HIPRT_MMA
#else
// Imitate a matrix instruction: give every product of a register of the lane's row and one of its column to `add`, which
// adds it to c[i], in the order of the columns of a.
template <typename Add>
HIPRT_INLINE void for_each_product(uint a0, uint a1, uint a2, uint a3, uint b0, uint b1, const Add& add) {
  const uint lane = lane_index(), row = lane & ~3u, column = (lane & 3u) * 8u;
  for (uint t = 0; t < 4; t++) {
    const uint a[4] = {simd_shuffle(a0, row + t), simd_shuffle(a2, row + t), simd_shuffle(a1, row + t),
                       simd_shuffle(a3, row + t)};
    const uint b[4] = {simd_shuffle(b0, column + t), simd_shuffle(b1, column + t), simd_shuffle(b0, column + 4u + t),
                       simd_shuffle(b1, column + 4u + t)};
    for (int i = 0; i < 4; i++) {
      for (int k = 0; k < 2; k++) add(i, a[i / 2 * 2 + k], b[i % 2 * 2 + k]);
    }
  }
}
template <typename T>
HIPRT_INLINE void mma(float (&c)[4], uint a0, uint a1, uint a2, uint a3, uint b0, uint b1) {
  for_each_product(a0, a1, a2, a3, b0, b1, [&](int i, uint left, uint right) {
    c[i] = mad(low_of<T>(left), low_of<T>(right), c[i]);
    c[i] = mad(high_of<T>(left), high_of<T>(right), c[i]);
  });
}
#endif

// c[16][8] += a[16][32] * b[32][8] of a simdgroup: codes of 8 bits without a sign times numbers of 8 bits, with a sign where
// IS_SIGNED, as mma.m16n8k32 lays them out, four to a register. a0, a1: rows g, g + 8, columns 4t to 4t + 3; a2, a3: the same,
// columns 16 further; b0, b1: rows 4t to 4t + 3 and 16 further, of column g; c as above.
#if HIPRT_TARGET_NVIDIA && __CUDA_ARCH__ >= 800
#define HIPRT_MMA_CODES(type)                                                                                                   \
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8." type ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])                                                                          \
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))
template <bool IS_SIGNED = true>
HIPRT_INLINE void mma_codes(int (&c)[4], uint a0, uint a1, uint a2, uint a3, uint b0, uint b1) {
  if (IS_SIGNED) {
    HIPRT_MMA_CODES("s8");
  } else {
    HIPRT_MMA_CODES("u8");
  }
}
#undef HIPRT_MMA_CODES
#else
template <bool IS_SIGNED = true>
HIPRT_INLINE void mma_codes(int (&c)[4], uint a0, uint a1, uint a2, uint a3, uint b0, uint b1) {
  constexpr uint SIGN = IS_SIGNED ? 128u : 0u;
  for_each_product(a0, a1, a2, a3, b0, b1, [&](int i, uint left, uint right) {
    for (int at = 0; at < 32; at += 8) c[i] += int(left >> at & 255u) * (int((right >> at & 255u) ^ SIGN) - int(SIGN));
  });
}
#endif

// sum plus the dot product of a word of codes, less CODE_CENTRE, with as many digits that have a sign: eight of 4 bits, or
// four of 8 for codes of more than 4. Targets whose dot instructions take both operands with a sign have codes that fill
// their fields from the middle of their range on.
#if HIPRT_TARGET_AMD && (defined(__GFX11__) || defined(__GFX12__))
template <int BITS>
constexpr int CODE_CENTRE = 0;
template <int BITS>
HIPRT_INLINE int dot_codes(uint codes, uint digits, int sum) {
  if (BITS <= 4) return __builtin_amdgcn_sudot8(false, codes, true, digits, sum, false);
  return __builtin_amdgcn_sudot4(false, codes, true, digits, sum, false);
}
#elif HIPRT_TARGET_AMD && (defined(__GFX9__) && !defined(__gfx900__) || defined(__gfx1030__))
template <int BITS>
constexpr int CODE_CENTRE = BITS % 4 == 0 ? 1 << (BITS - 1) : 0;
template <int BITS>
HIPRT_INLINE int dot_codes(uint codes, uint digits, int sum) {
  if (BITS <= 4) return __builtin_amdgcn_sdot8(codes ^ (BITS == 4 ? 0x88888888u : 0u), digits, sum, false);
  return __builtin_amdgcn_sdot4(codes ^ (BITS == 8 ? 0x80808080u : 0u), digits, sum, false);
}
#else
template <int BITS>
constexpr int CODE_CENTRE = 0;
template <int BITS>
HIPRT_INLINE int dot_codes(uint codes, uint digits, int sum) {
  constexpr int FIELD = BITS <= 4 ? 4 : 8, MASK = (1 << FIELD) - 1, SIGN = 1 << (FIELD - 1);
  for (int at = 0; at < 32; at += FIELD) {
    sum += (int(codes >> at) & MASK) * (((int(digits >> at) & MASK) ^ SIGN) - SIGN);
  }
#if HIPRT_TARGET_CPU
  asm("" : "+r"(sum));  // clang 22 makes wrong vectors of several such sums
#endif
  return sum;
}
#endif

// No instruction moves from one side of this place to the other.
HIPRT_INLINE void keep_order() {
#if HIPRT_TARGET_AMD
  __builtin_amdgcn_sched_barrier(0);
#endif
}

// A number that all lanes have alike, which the compiler is to keep in a scalar register and not to add to that of a lane.
HIPRT_INLINE ulong in_scalar(ulong x) {
#if HIPRT_TARGET_AMD
  asm("" : "+s"(x));
#endif
  return x;
}

// A number that so many neighbouring lanes have alike, in a scalar register where these are a whole wave.
template <int LANES>
HIPRT_INLINE uint alike(uint x) {
#if HIPRT_TARGET_AMD && defined(__GFX9__)
  return LANES % 64 == 0 ? __builtin_amdgcn_readfirstlane(x) : x;
#elif HIPRT_TARGET_AMD
  return LANES % 32 == 0 ? __builtin_amdgcn_readfirstlane(x) : x;
#else
  return x;
#endif
}

HIPRT_INLINE float sum_of_lanes(float v) {
  v = add_near<2>(add_near<1>(v));
  return add_near<16>(add_near<8>(add_near<7>(v)));
}
// The sums over a simdgroup of ROWS numbers of each lane, 1, 2 or 4: a lane gets the one of row lane % 16 / (16 / ROWS).
// Of two rows that a step has, half of the lanes go on with one, and half with the other.
template <int MASK>
HIPRT_INLINE float add_shared(float lower, float upper, bool is_upper) {
  return add_near<MASK>(is_upper ? upper : lower, is_upper ? lower : upper);
}
template <uint ROWS>
HIPRT_INLINE float sums_of_lanes(const float (&v)[ROWS], uint lane) {
  float sum;
  if (ROWS == 4) {
    const bool is_upper = (lane & 8u) != 0;
    const float even = add_shared<8>(v[0], v[2 % ROWS], is_upper), odd = add_shared<8>(v[1 % ROWS], v[3 % ROWS], is_upper);
    sum = add_shared<7>(even, odd, (lane & 4u) != 0);
  } else {
    sum = add_near<7>(ROWS == 2 ? add_shared<8>(v[0], v[1 % ROWS], (lane & 8u) != 0) : add_near<8>(v[0]));
  }
  return add_near<16>(add_near<1>(add_near<2>(sum)));
}

// Four of the eight bytes of two words, by number; those of the lower word are 0 to 3. Each byte of `which` names one.
HIPRT_INLINE uint select_bytes(uint high, uint low, uint which) {
#if HIPRT_TARGET_AMD
  return __builtin_amdgcn_perm(high, low, which);
#else
  const ulong both = ulong(high) << 32 | low;
  uint found = 0;
  for (int at = 0; at < 32; at += 8) found |= (uint(both >> ((which >> at & 7u) * 8u)) & 255u) << at;
  return found;
#endif
}

}  // namespace hiprt
}  // namespace metal
