// Products of the gated delta rule by chunks, with float32's precision, of factors that lie in memory.
namespace metal {

// The steps of a chunk, the elements of a line with a number for each of them, and the numbers that are kept of a chunk.
enum : uint { CHUNK = 32, CHUNK_LINE = CHUNK + 8, FACTORS = (2 * CHUNK + 2) * CHUNK };

// A product of a simdgroup, 16 rows and N columns, a multiple of 8, over DEPTH, a multiple of 8: sum i of a lane is at row(i),
// column(i). a is [16][DEPTH]; b is [N][DEPTH], or [DEPTH][N] where it is TURNED. A and B are the types that their
// numbers had: what had 16 bits is not taken apart.
#if HIPRT_HAS_MMA
// A number as the sum of two with 11 bits each. What is left out of a product is 2^-22 of it.
template <typename T>
struct two_parts {
  enum : int { COUNT = sizeof(T) == 2 ? 1 : 2 };
  uint part[2];

  HIPRT_INLINE void set(float value) {
    part[0] = as_type<uint>(value);
    if (COUNT == 1) return;
    part[0] = (part[0] + 0x1000u) & 0xffffe000u;
    part[1] = as_type<uint>(value - as_type<float>(part[0]));
  }
};
HIPRT_INLINE void multiply_parts(float* c, const uint* a, const uint* b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// The lane's part of a: of each 8 of the depth two neighbours, or two places that are 4 apart where b is TURNED, whose lines
// so fall into different banks.
template <typename A, int DEPTH, bool TURNED, typename P>
struct chunk_rows {
  float values[DEPTH / 2];

  HIPRT_INLINE void load(P a, uint line, uint lane) {
    a += lane / 4 * line + lane % 4 * (TURNED ? 1 : 2);
#pragma unroll
    for (int k = 0; k < DEPTH; k += 8) {
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const float* from = a + i * 8 * line + k;
        const pack<float, 2> two = TURNED ? pack<float, 2>{{from[0], from[4]}} : *(const pack<float, 2>*)from;
        values[k / 2 + i] = two.values[0];
        values[k / 2 + 2 + i] = two.values[1];
      }
    }
  }
};

template <int N>
struct chunk_product {
  enum : int { COUNT = N / 2 };
  float sums[COUNT];

  static HIPRT_INLINE uint row(int i, uint lane) { return lane / 4 + uint(i % 4 / 2) * 8; }
  static HIPRT_INLINE uint column(int i, uint lane) { return uint(i / 4) * 8 + lane % 4 * 2 + uint(i % 2); }

  template <typename B, typename A, int DEPTH, bool TURNED, typename P>
  HIPRT_INLINE void set(const chunk_rows<A, DEPTH, TURNED, P>& a, const float* b, uint b_line, uint lane) {
    typedef two_parts<A> Left;
    typedef two_parts<B> Right;
    float small[2][COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; i++) sums[i] = small[0][i] = small[1][i] = 0.0f;
    b += TURNED ? lane % 4 * b_line + lane / 4 : lane / 4 * b_line + lane % 4 * 2;
#pragma unroll
    for (int k = 0; k < DEPTH; k += 8) {
      uint left[2][4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        Left parts;
        parts.set(a.values[k / 2 + i]);
        left[0][i] = parts.part[0];
        if (Left::COUNT == 2) left[1][i] = parts.part[1];
      }
#pragma unroll
      for (int n = 0; n < N; n += 8) {
        const float* from = b + (TURNED ? k * b_line + n : n * b_line + k);
        const pack<float, 2> two = TURNED ? pack<float, 2>{{from[0], from[4 * b_line]}} : *(const pack<float, 2>*)from;
        uint right[2][2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
          Right parts;
          parts.set(two.values[i]);
          right[0][i] = parts.part[0];
          if (Right::COUNT == 2) right[1][i] = parts.part[1];
        }
        multiply_parts(sums + n / 2, left[0], right[0]);
        if (Right::COUNT == 2) multiply_parts(small[0] + n / 2, left[0], right[1]);
        if (Left::COUNT == 2) multiply_parts(small[1] + n / 2, left[1], right[0]);
      }
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++) sums[i] += small[0][i] + small[1][i];
  }
};
#else
// Where the lane's part of a is.
template <typename A, int DEPTH, bool TURNED, typename P>
struct chunk_rows {
  P from;
  uint line;

  void load(P a, uint a_line, uint lane) {
    from = a + lane / 4 * a_line;
    line = a_line;
  }
};

template <int N>
struct chunk_product {
  enum : int { COUNT = N / 2 };
  float sums[COUNT];

  static uint row(int i, uint lane) { return lane / 4 + uint(i / (N / 4)) * 8; }
  static uint column(int i, uint lane) { return lane % 4 + uint(i % (N / 4)) * 4; }

  template <typename B, typename A, int DEPTH, bool TURNED, typename P, typename Q>
  void set(thread const chunk_rows<A, DEPTH, TURNED, P>& a, Q b, uint b_line, uint lane) {
    for (int i = 0; i < COUNT; i++) sums[i] = 0.0f;
    for (uint k = 0; k < uint(DEPTH); k++) {
      float left[2], right[N / 4];
#pragma unroll
      for (uint i = 0; i < 2; i++) left[i] = a.from[i * 8 * a.line + k];
#pragma unroll
      for (uint i = 0; i < N / 4; i++) {
        const uint n = lane % 4 + i * 4;
        right[i] = TURNED ? b[k * b_line + n] : b[n * b_line + k];
      }
#pragma unroll
      for (int i = 0; i < COUNT; i++) sums[i] = mad(left[i / (N / 4)], right[i % (N / 4)], sums[i]);
    }
  }
};
#endif

}  // namespace metal
