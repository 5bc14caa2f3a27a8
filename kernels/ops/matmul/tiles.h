// Products of tiles that lie in threadgroup memory, shared by the lanes of a wave: with matrix instructions where the
// target has them for T. A line of a tile is LINE elements, so long that the lanes' accesses fall into different banks.
namespace metal {

constant constexpr uint TILE_LANES = 32;

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

// Byte j of a word as a number.
inline float byte_of(uint word, uint j) {
#if HIPRT_HAS_MMA
  // The byte becomes the low bits of 2^23's mantissa: two instructions at full rate, where a conversion has a quarter.
  return as_type<float>(__byte_perm(word, 0x4b000000u, 0x7650u + j)) - 8388608.0f;
#else
  return float((word >> (8 * j)) & 255u);
#endif
}

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
#elif HIPRT_TARGET_AMD && (defined(__GFX11__) || defined(__GFX12__))
// A lane's part of 16 by 16 factors: on gfx11 a whole row, in both halves of the wave; on gfx12 half a row.
#if defined(__GFX12__)
constexpr int TILE_RUN = 8;
#define HIPRT_WMMA(type) __builtin_amdgcn_wmma_f32_16x16x16_##type##_w32_gfx12
#else
constexpr int TILE_RUN = 16;
#define HIPRT_WMMA(type) __builtin_amdgcn_wmma_f32_16x16x16_##type##_w32
#endif
typedef float TileSums __attribute__((ext_vector_type(8)));
template <typename T>
struct tile_factor {
  typedef _Float16 type __attribute__((ext_vector_type(TILE_RUN)));
  static HIPRT_INLINE TileSums product(type a, type b, TileSums c) { return HIPRT_WMMA(f16)(a, b, c); }
};
template <>
struct tile_factor<bfloat16_t> {
  typedef short type __attribute__((ext_vector_type(TILE_RUN)));
  static HIPRT_INLINE TileSums product(type a, type b, TileSums c) { return HIPRT_WMMA(bf16)(a, b, c); }
};
#undef HIPRT_WMMA

// Blocks of 16 by 16: a lane has eight rows of column lane % 16.
template <typename T, int M, int N>
struct tile<T, M, N, true> {
  typedef typename tile_factor<T>::type Factor;
  enum : int { COUNT = M * N / 32 };
  float sums[COUNT];

  static uint row(int i, uint lane) {
    return uint(i / 8 / (N / 16)) * 16 + (TILE_RUN == 8 ? uint(i % 8) + lane / 16 * 8 : uint(i % 8) * 2 + lane / 16);
  }
  static uint column(int i, uint lane) { return uint(i / 8 % (N / 16)) * 16 + lane % 16; }

  template <bool TURNED>
  void add(const T* a, int a_line, const T* b, int b_line, int depth, uint lane) {
    static_assert(!TURNED, "b is [N][depth]");
    const int own = int(lane % 16), start = TILE_RUN == 8 ? int(lane / 16) * 8 : 0;
    for (int k = start; k < depth; k += 16) {
      Factor left[M / 16], right[N / 16];
#pragma unroll
      for (int i = 0; i < M / 16; i++) left[i] = factor(a + (i * 16 + own) * a_line + k);
#pragma unroll
      for (int i = 0; i < N / 16; i++) right[i] = factor(b + (i * 16 + own) * b_line + k);
#pragma unroll
      for (int i = 0; i < COUNT / 8; i++) {
        TileSums part;
#pragma unroll
        for (int e = 0; e < 8; e++) part[e] = sums[i * 8 + e];
        part = tile_factor<T>::product(left[i / (N / 16)], right[i % (N / 16)], part);
#pragma unroll
        for (int e = 0; e < 8; e++) sums[i * 8 + e] = part[e];
      }
    }
  }

  static Factor factor(const T* from) {
    pack<pack<T, 8>, TILE_RUN / 8> run;
#pragma unroll
    for (int i = 0; i < TILE_RUN / 8; i++) run.values[i] = ((const pack<T, 8>*)from)[i];
    return as_type<Factor>(run);
  }
};
#endif

}  // namespace metal
