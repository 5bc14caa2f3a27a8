// Products of tiles that lie in threadgroup memory, shared by the lanes of a wave: with matrix instructions where the
// target has them for T. A line of a tile is LINE elements, so long that the lanes' accesses fall into different banks.
namespace metal {

// Matrix instructions of AMD. RUN elements of a lane are its part of a factor of 16 rows, DEPTH deep; SUMS its part of the
// product of two, 16 by 16.
#if HIPRT_TARGET_AMD && defined(__GFX12__)
#define HIPRT_TILE_FACTORS 1
enum : int { TILE_WAVE = 32, TILE_RUN = 8, TILE_DEPTH = 16, TILE_SUMS = 8 };
#elif HIPRT_TARGET_AMD && defined(__GFX11__)
#define HIPRT_TILE_FACTORS 1
enum : int { TILE_WAVE = 32, TILE_RUN = 16, TILE_DEPTH = 16, TILE_SUMS = 8 };
#elif HIPRT_TARGET_AMD && (defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__))
#define HIPRT_TILE_FACTORS 1
enum : int { TILE_WAVE = 64, TILE_RUN = 8, TILE_DEPTH = 32, TILE_SUMS = 4 };
#endif

// The lanes that share a tile: a simdgroup, or a whole wave where matrix instructions have 64 lanes.
template <typename T>
constexpr uint tile_lanes() {
#if defined(HIPRT_TILE_FACTORS)
  return sizeof(T) == 2 ? uint(TILE_WAVE) : 32u;
#else
  return 32u;
#endif
}

template <typename T, int WIDTH>
constexpr int tile_line() {
  return (WIDTH + 15) / 16 * 16 + 16 / int(sizeof(T));
}

// 16 bytes from memory to a tile; they have arrived behind wait_for_tiles() and a barrier.
template <typename T>
inline void copy_to_tile(threadgroup T* to, const device T* from) {
#if HIPRT_HAS_MMA
  hiprt::copy_async(to, from);
#else
  *(threadgroup pack<T, 16 / sizeof(T)>*)to = *(const device pack<T, 16 / sizeof(T)>*)from;
#endif
}
inline void wait_for_tiles() {
#if HIPRT_HAS_MMA
  hiprt::wait_for_copies();
#endif
}

// 16 bytes from memory to four registers, and from there to a tile.
template <typename T>
inline void load_run(thread uint* held, const device T* from) {
  const pack<uint, 4> run = *(const device pack<uint, 4>*)from;
#pragma unroll
  for (int i = 0; i < 4; i++) held[i] = run.values[i];
}
template <typename T>
inline void store_run(threadgroup T* to, thread const uint* held) {
  *(threadgroup pack<uint, 4>*)to = {{held[0], held[1], held[2], held[3]}};
}

// ROWS rows of WIDTH elements to a tile; those behind `last` are zeros, as is what fills a row up.
template <typename T, int WIDTH, int ROWS, uint THREADS>
inline void load_rows(threadgroup T* to, const device T* from, size_t apart, int last, uint index) {
  constexpr int RUN = 16 / sizeof(T);
  constexpr int LINE = tile_line<T, WIDTH>();
  constexpr int FILLED = (WIDTH + 15) / 16 * 16;
  for (int i = int(index); i < ROWS * (FILLED / RUN); i += THREADS) {
    const int row = i / (FILLED / RUN), at = i % (FILLED / RUN) * RUN;
    if (WIDTH % RUN == 0 && row <= last && (WIDTH % 16 == 0 || at < WIDTH)) {
      copy_to_tile(to + row * LINE + at, from + row * apart + at);
    } else {
      for (int j = at; j < at + RUN; j++) {
        to[row * LINE + j] = T(0.0f);
        if (row <= last && j < WIDTH) to[row * LINE + j] = from[row * apart + j];
      }
    }
  }
}

// A sum, rounded.
template <typename T>
inline T rounded(float value) { return T(value); }
// Eight neighbours of a tile, rounded.
template <typename T>
inline void store_to_tile(threadgroup T* to, thread const float* values) {
#pragma unroll
  for (int i = 0; i < 8; i++) to[i] = T(values[i]);
}
#if defined(HIPRT_TILE_FACTORS)
// Two neighbours in a word, rounded to nearest: the upper halves of the float32s behind an addition. Of what lies in the
// middle, the lower one loses and the upper one gains, which needs no look at what stays and favours neither. A NaN stays
// one if its own lower half is zero, as in all that is computed from numbers of 16 bits.
HIPRT_INLINE uint pair_of(float first, float second, bfloat16_t) {
#if defined(__gfx942__) || defined(__gfx950__)
  // These add 64 bits in one instruction, which the compiler would take apart. Nothing is carried from word to word.
  ulong both = ulong(as_type<uint>(second)) << 32 | as_type<uint>(first);
  asm("v_lshl_add_u64 %0, %0, 0, %1" : "+v"(both) : "s"(0x800000007fffUL));
  return __builtin_amdgcn_perm(uint(both >> 32), uint(both), 0x07060302u);
#else
  return __builtin_amdgcn_perm(as_type<uint>(second) + 0x8000u, as_type<uint>(first) + 0x7fffu, 0x07060302u);
#endif
}
HIPRT_INLINE uint pair_of(float first, float second, half) {
  return uint(as_type<ushort>(half(first))) | uint(as_type<ushort>(half(second))) << 16;
}
#endif
#if HIPRT_HAS_MMA || defined(HIPRT_TILE_FACTORS)
template <typename T>
inline void store_pairs(T* to, const float* values) {
  pack<uint, 4> pairs;
#pragma unroll
  for (int i = 0; i < 4; i++) pairs.values[i] = pair_of(values[2 * i], values[2 * i + 1], T());
  *(pack<uint, 4>*)to = pairs;
}
template <>
inline void store_to_tile(bfloat16_t* to, const float* values) { store_pairs(to, values); }
template <>
inline void store_to_tile(half* to, const float* values) { store_pairs(to, values); }
#endif

// The wave's part of a product: M rows, N columns, both multiples of 16; element i of a lane is at row(i), column(i).
template <typename T, int M, int N, bool NARROW = sizeof(T) == 2>
struct tile {
  enum : int { COUNT = M * N / 32 };
  float sums[COUNT];

  static uint row(int i, uint lane) { return lane / 4 + uint(i / (N / 4)) * 8; }
  static uint column(int i, uint lane) { return lane % 4 + uint(i % (N / 4)) * 4; }

  // sums += a * b over some depth, a multiple of 16. a is [M][depth]; b is [N][depth], or [depth][N] where it is TURNED.
  template <bool TURNED>
  void add(const threadgroup T* a, int a_line, const threadgroup T* b, int b_line, int depth, uint lane) {
    for (int k = 0; k < depth; k++) {
      float left[M / 8], right[N / 4];
#pragma unroll
      for (int i = 0; i < M / 8; i++) left[i] = float(a[(lane / 4 + i * 8) * a_line + k]);
#pragma unroll
      for (int i = 0; i < N / 4; i++) {
        int n = int(lane % 4) + i * 4;
        right[i] = float(TURNED ? b[k * b_line + n] : b[n * b_line + k]);
      }
#pragma unroll
      for (int i = 0; i < COUNT; i++) sums[i] = mad(left[i / (N / 4)], right[i % (N / 4)], sums[i]);
    }
  }
};

#if HIPRT_HAS_MMA
template <>
inline bfloat16_t rounded(float value) { return as_type<bfloat16_t>(ushort(pair_of(value, value, bfloat16_t()))); }

// Blocks of 16 by 8: a lane has two neighbours of row lane / 4 and two of the row 8 below.
template <typename T, int M, int N>
struct tile<T, M, N, true> {
  enum : int { COUNT = M * N / 32 };
  float sums[COUNT];

  static uint row(int i, uint lane) { return uint(i / (N / 2)) * 16 + lane / 4 + uint(i % 4 / 2) * 8; }
  static uint column(int i, uint lane) { return uint(i / 4 % (N / 8)) * 8 + lane % 4 * 2 + uint(i % 2); }

  template <bool TURNED>
  void add(const T* a, int a_line, const T* b, int b_line, int depth, uint lane) {
    // Where the lane's eight elements start of the four 8 by 8 matrices that one load takes.
    a += int(lane % 16) * a_line + int(lane / 16) * 8;
    b += TURNED ? int(lane % 16) * b_line + int(lane / 16) * 8
                : int(lane / 16 * 8 + lane % 8) * b_line + int(lane / 8 % 2) * 8;
#pragma unroll
    for (int k = 0; k < depth; k += 16) {
      uint left[M / 16][4], right[N / 16][4];
#pragma unroll
      for (int i = 0; i < M / 16; i++) load_fragments<false>(left[i], a + i * 16 * a_line + k);
#pragma unroll
      for (int i = 0; i < N / 16; i++) load_fragments<TURNED>(right[i], TURNED ? b + k * b_line + i * 16 : b + i * 16 * b_line + k);
#pragma unroll
      for (int i = 0; i < M / 16; i++) {
#pragma unroll
        for (int j = 0; j < N / 8; j++) multiply_fragments(sums + (i * (N / 8) + j) * 4, left[i], right[j / 2] + j % 2 * 2, T());
      }
    }
  }
};
#elif defined(HIPRT_TILE_FACTORS)

// A lane's part of a factor. Lane l has elements of row l % 16: all 16 of them on gfx11, else those from l / 16 * 8 on.
// MI200 takes what is too small to be normal for zero.
typedef float TileSums __attribute__((ext_vector_type(TILE_SUMS)));
template <typename T>
struct tile_factor {
  typedef _Float16 type __attribute__((ext_vector_type(TILE_RUN)));
};
template <>
struct tile_factor<bfloat16_t> {
  typedef short type __attribute__((ext_vector_type(TILE_RUN)));
};
#if defined(__GFX12__)
#define HIPRT_PRODUCT(wmma, mfma, wide) __builtin_amdgcn_wmma_f32_16x16x16_##wmma##_w32_gfx12(a, b, c)
#elif defined(__GFX11__)
#define HIPRT_PRODUCT(wmma, mfma, wide) __builtin_amdgcn_wmma_f32_16x16x16_##wmma##_w32(a, b, c)
#elif defined(__gfx950__) && __has_builtin(__builtin_amdgcn_mfma_f32_16x16x32_bf16)
typedef __bf16 WideFactor __attribute__((ext_vector_type(TILE_RUN)));
#define HIPRT_PRODUCT(wmma, mfma, wide)                                                                                \
  __builtin_amdgcn_mfma_f32_16x16x32_##wmma(as_type<wide>(a), as_type<wide>(b), c, 0, 0, 0)
#else
// The order of a sum's terms is free: the first instruction takes the first four elements of each lane, whatever their
// places in the row.
#define HIPRT_HALF(x, first) __builtin_shufflevector(x, x, first, first + 1, first + 2, first + 3)
#define HIPRT_MFMA(mfma, first, sums) \
  __builtin_amdgcn_mfma_f32_16x16x16##mfma(HIPRT_HALF(a, first), HIPRT_HALF(b, first), sums, 0, 0, 0)
#define HIPRT_PRODUCT(wmma, mfma, wide) HIPRT_MFMA(mfma, 4, HIPRT_MFMA(mfma, 0, c))
#endif
typedef tile_factor<half>::type HalfFactor;
typedef tile_factor<bfloat16_t>::type BfloatFactor;
HIPRT_INLINE TileSums factor_product(HalfFactor a, HalfFactor b, TileSums c) { return HIPRT_PRODUCT(f16, f16, HalfFactor); }
HIPRT_INLINE TileSums factor_product(BfloatFactor a, BfloatFactor b, TileSums c) {
  return HIPRT_PRODUCT(bf16, bf16_1k, WideFactor);
}
#undef HIPRT_PRODUCT
#undef HIPRT_MFMA
#undef HIPRT_HALF

// Where a lane's elements of a factor start in their row, and the row of sum i of a product's column l % 16.
HIPRT_INLINE int factor_start(uint lane) { return TILE_RUN == TILE_DEPTH ? 0 : int(lane / 16) * TILE_RUN; }
HIPRT_INLINE uint sum_row(int i, uint lane) {
  return TILE_RUN == TILE_DEPTH ? uint(i) * 2 + lane / 16 : lane / 16 * TILE_SUMS + uint(i);
}
template <typename T>
HIPRT_INLINE typename tile_factor<T>::type factor_at(const T* from) {
  pack<pack<T, 8>, TILE_RUN / 8> run;
#pragma unroll
  for (int i = 0; i < TILE_RUN / 8; i++) run.values[i] = ((const pack<T, 8>*)from)[i];
  return as_type<typename tile_factor<T>::type>(run);
}

// Blocks of 16 by 16.
template <typename T, int M, int N>
struct tile<T, M, N, true> {
  typedef typename tile_factor<T>::type Factor;
  enum : int { DOWN = M / 16, BLOCKS = DOWN * (N / 16), COUNT = BLOCKS * TILE_SUMS };
  float sums[COUNT];

  static uint row(int i, uint lane) { return uint(i / TILE_SUMS / (N / 16)) * 16 + sum_row(i % TILE_SUMS, lane); }
  static uint column(int i, uint lane) { return uint(i / TILE_SUMS % (N / 16)) * 16 + lane % 16; }

  template <bool TURNED>
  void add(const T* a, int a_line, const T* b, int b_line, int depth, uint lane) {
    static_assert(!TURNED, "b is [N][depth]");
    a += int(lane % 16) * a_line + factor_start(lane);
#pragma unroll
    for (int k = 0; k < depth; k += TILE_DEPTH) {
      Factor left[M / 16];
#pragma unroll
      for (int i = 0; i < M / 16; i++) left[i] = factor_at(a + i * 16 * a_line + k);
      add_factors(left, b + k, b_line, lane);
    }
  }
  // The same where a's factors, TILE_DEPTH deep, are in registers: of the first so many blocks of rows.
  template <int PRESENT = DOWN>
  HIPRT_INLINE void add_factors(const Factor* left, const T* b, int b_line, uint lane) {
    b += int(lane % 16) * b_line + factor_start(lane);
    Factor right[N / 16];
#pragma unroll
    for (int i = 0; i < N / 16; i++) right[i] = factor_at(b + i * 16 * b_line);
#pragma unroll
    for (int i = 0; i < PRESENT * (N / 16); i++) {
      TileSums part;
#pragma unroll
      for (int e = 0; e < TILE_SUMS; e++) part[e] = sums[i * TILE_SUMS + e];
      part = factor_product(left[i / (N / 16)], right[i % (N / 16)], part);
#pragma unroll
      for (int e = 0; e < TILE_SUMS; e++) sums[i * TILE_SUMS + e] = part[e];
    }
  }
};
#endif

}  // namespace metal
