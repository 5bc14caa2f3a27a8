// Attention of up to 8 query heads that read the same keys, whose rows come through threadgroup memory while earlier ones are
// multiplied. Scores are logarithms to base 2, and sums are kept relative to the largest score so far, as in one_pass.h.
namespace metal {

// Two neighbouring elements of a head, put together from parts in the parts' order: `width` sums, the largest score and the
// sum of weights each. All loads of AT_ONCE parts are on their way together.
struct pair_of_sums {
  float top = -3.0e38f, norm = 0.0f, sums[2] = {0.0f, 0.0f};

  template <uint AT_ONCE, typename From>
  HIPRT_INLINE void add(From parts, uint count, size_t apart, uint width, uint element) {
    typedef pack<float, 2> two;
#pragma unroll 1
    for (uint begin = 0; begin < count; begin += AT_ONCE) {
      two last[AT_ONCE], part[AT_ONCE];
#pragma unroll
      for (uint s = 0; s < AT_ONCE; s++) {
        last[s] = {{-3.0e38f, 0.0f}}, part[s] = {{0.0f, 0.0f}};
        if (begin + s < count) {
          last[s] = *(const two*)(parts + (begin + s) * apart + width);
          part[s] = *(const two*)(parts + (begin + s) * apart + element);
        }
      }
      float higher = top;
#pragma unroll
      for (uint s = 0; s < AT_ONCE; s++) higher = max(higher, last[s].values[0]);
      const float fade = power_of_two(top - higher);
      top = higher, norm *= fade, sums[0] *= fade, sums[1] *= fade;
#pragma unroll
      for (uint s = 0; s < AT_ONCE; s++) {
        const float weight = power_of_two(last[s].values[0] - higher);
        norm = mad(last[s].values[1], weight, norm);
        for (uint j = 0; j < 2; j++) sums[j] = mad(part[s].values[j], weight, sums[j]);
      }
    }
  }

  // What the sums are multiplied by for the answer, which is zero where no position was taken.
  HIPRT_INLINE float scale() { return norm == 0.0f ? 0.0f : 1.0f / norm; }
};

// What a simdgroup has of the heads, and the rows that it has on their way: STAGES times RUN keys and as many values, by bulk
// copies of TOGETHER rows. Copies lie 16 bytes further apart than they are long, and a square of 8 lines has one row of each,
// so that its lines do not meet in the banks: the matrices' lines are the rows of a run in the order of `row_of`.
template <typename T, int WIDTH, int HEADS, int STAGES>
struct streamed_rows {
  enum {
    RUN = 16,
    TOGETHER = 2,
    LOTS = RUN / TOGETHER,
    PIECES = WIDTH / 8,
    LINE = WIDTH * 2,                // bytes of a row
    LOT = TOGETHER * LINE + 16,      // of a copy
    HALF = LOTS * LOT,               // of the keys of a run, which its values follow
    BYTES = STAGES * 2 * HALF,       // of all that is on its way
    STEPS = WIDTH / 16,
    LEFT = WIDTH + 2,                // numbers that are left of a head: the sums, the largest score, the sum of weights
  };
  shared_place ring, full;  // `full`: barriers of the keys and the values of each stage
  threadgroup pack<uint, 4>* held;  // the memory of `ring`
  const device T* keys;
  const device T* values;
  int cached, limit;  // the positions in the caches, and those that there are
  int apart;          // from a run to the simdgroup's next
  uint lane, query[STEPS][2];
  float sums[STEPS][4], top[2], norm[2];

  static HIPRT_INLINE uint row_of(uint line, uint square) { return line % LOTS * TOGETHER + line / LOTS + square * (8 / LOTS); }
  static HIPRT_INLINE uint place_in_half(uint row) { return row / TOGETHER * LOT + row % TOGETHER * LINE; }

  // The rows of a run that a cache has. Half 0 of a stage is keys, half 1 values, whose other rows are cleared meanwhile: zero
  // times what is no number is none.
  HIPRT_INLINE void fetch(uint slot, uint half, int start) {
    const int there = min(cached - start, int(RUN)), own = min(there - int(lane) * TOGETHER, int(TOGETHER));
    if (half && start < limit) {
#pragma unroll 1
      for (uint row = uint(max(there, 0)) + lane / PIECES; row < RUN; row += 32 / PIECES) {
        held[((slot * 2 + half) * HALF + place_in_half(row)) / 16 + lane % PIECES] = {{0, 0, 0, 0}};
      }
    }
    if (there <= 0) return;
    const shared_place bar = full + (slot * 2 + half) * 8, to = ring + (slot * 2 + half) * HALF + lane * LOT;
    if (lane == 0) expect_bytes(bar, uint(there) * LINE);
    if (own > 0) copy_bulk(to, (half ? values : keys) + size_t(start + int(lane) * TOGETHER) * WIDTH, uint(own) * LINE, bar);
  }

  // Before begin(), and before the position is known.
  HIPRT_INLINE void open() {
    if (lane == 0) {
      for (uint i = 0; i < STAGES * 2; i++) begin_stage(full + i * 8, 1);
      stages_begun();
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }

  HIPRT_INLINE void begin(int start) {
#pragma unroll 1
    for (uint i = 0; i < STAGES * 2; i++) fetch(i / 2, i % 2, start + int(i / 2) * apart);
  }

  // Waits for what fetch() brings, and puts one row behind it that no cache has yet, at `from`, where `newest` is its position.
  HIPRT_INLINE void wait(uint slot, uint half, uint turn, int start, int newest, const threadgroup T* from) {
    if (start < cached) wait_for_stage(full + (slot * 2 + half) * 8, turn);
    const int row = newest - start;
    if (row >= 0 && row < RUN && lane < PIECES) {
      held[((slot * 2 + half) * HALF + place_in_half(uint(row))) / 16 + lane] = ((const threadgroup pack<uint, 4>*)from)[lane];
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }

  // Takes the runs from `start` on. `newest` is the position of a key and a value that lie behind the caches, at `key` and
  // `value`, or -1.
  HIPRT_INLINE void take(int start, float scale, int newest, const threadgroup T* key, const threadgroup T* value) {
    const uint g = lane / 4, line = lane % 8;
    const shared_place key_line = ring + place_in_half(row_of(line, lane / 8 % 2)) + lane / 16 * 16;
    const shared_place value_line = ring + HALF + place_in_half(row_of(line, lane / 16)) + lane / 8 % 2 * 16;
    uint slot = 0, turn = 0;
#pragma unroll
    for (uint i = 0; i < STEPS; i++) {
      for (uint e = 0; e < 4; e++) sums[i][e] = 0.0f;
    }
    for (uint j = 0; j < 2; j++) top[j] = -3.0e38f, norm[j] = 0.0f;
#pragma unroll 1
    for (; start < limit; start += apart) {
      wait(slot, 0, turn, start, newest, key);
      float scores[2][4] = {};
#pragma unroll
      for (uint i = 0; i < STEPS; i++) {
        uint a[4];
        load_squares<false>(a, key_line + slot * (2 * HALF) + i * 32);
        mma<T>(scores[i % 2], a[0], a[1], a[2], a[3], query[i][0], query[i][1]);
      }
      simdgroup_barrier(mem_flags::mem_threadgroup);
      fetch(slot, 0, start + STAGES * apart);
      // Lane (g, t) has two positions, of lines g of both squares, of the heads 2t and 2t + 1.
      float weights[4];
#pragma unroll
      for (uint e = 0; e < 4; e++) {
        weights[e] = start + int(row_of(g, e / 2)) < limit ? scale * (scores[0][e] + scores[1][e]) : -3.0e38f;
      }
      float fade[2];
#pragma unroll
      for (uint j = 0; j < 2; j++) {
        float higher = max(weights[j], weights[2 + j]);
        higher = max(higher, word_across<4>(higher));
        higher = max(higher, word_across<8>(higher));
        higher = max(top[j], max(higher, word_across<16>(higher)));
        fade[j] = power_of_two(top[j] - higher);
        top[j] = higher;
        for (uint e = j; e < 4; e += 2) weights[e] = power_of_two(weights[e] - higher);
        norm[j] = mad(norm[j], fade[j], weights[j] + weights[2 + j]);
      }
      // A weight is two numbers of 16 bits: what rounding took from the first.
      uint whole[2], rest[2];
#pragma unroll
      for (uint j = 0; j < 2; j++) {
        whole[j] = pair_of(T(weights[2 * j]), T(weights[2 * j + 1]));
        rest[j] = pair_of(T(weights[2 * j] - low_of<T>(whole[j])), T(weights[2 * j + 1] - high_of<T>(whole[j])));
        whole[j] = turned_square(whole[j]);
        rest[j] = turned_square(rest[j]);
      }
      wait(slot, 1, turn, start, newest, value);
#pragma unroll
      for (uint i = 0; i < STEPS; i++) {
        uint a[4];
        load_squares<true>(a, value_line + slot * (2 * HALF) + i * 32);
        for (uint e = 0; e < 4; e++) sums[i][e] *= fade[e % 2];
        mma<T>(sums[i], a[0], a[1], a[2], a[3], whole[0], whole[1]);
        mma<T>(sums[i], a[0], a[1], a[2], a[3], rest[0], rest[1]);
      }
      simdgroup_barrier(mem_flags::mem_threadgroup);
      fetch(slot, 1, start + STAGES * apart);
      if (++slot == STAGES) slot = 0, turn ^= 1;
    }
  }

  // Leaves LEFT numbers of each head for the threadgroup.
  HIPRT_INLINE void leave(threadgroup float* left) {
    const uint g = lane / 4, t = lane % 4;
#pragma unroll
    for (uint j = 0; j < 2; j++) {
      norm[j] += word_across<4>(norm[j]);
      norm[j] += word_across<8>(norm[j]);
      norm[j] += word_across<16>(norm[j]);
      threadgroup float* const of_head = left + (2 * t + j) * LEFT;
      if (2 * t + j >= HEADS) continue;
      if (g == 0) of_head[WIDTH] = top[j], of_head[WIDTH + 1] = norm[j];
#pragma unroll
      for (uint i = 0; i < STEPS; i++) of_head[i * 16 + g] = sums[i][j], of_head[i * 16 + 8 + g] = sums[i][2 + j];
    }
  }
};

// As arrives_last, with one thread that orders what its threadgroup wrote and reads with what others did: a fence costs each
// thread that calls it the way to memory and back.
HIPRT_INLINE bool comes_last(device uint* arrived, uint count, uint thread_index, threadgroup uint* answer) {
#if HIPRT_TARGET_NVIDIA
  threadgroup_barrier(mem_flags::mem_device);
  if (thread_index == 0) {
    uint before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(arrived) : "memory");
    if (before == count - 1) *arrived = 0;
    *answer = before == count - 1;
  }
  threadgroup_barrier(mem_flags::mem_device);
  return *answer != 0;
#else
  return arrives_last(arrived, count, thread_index, answer);
#endif
}

// What leaves heads where head_results says, two elements of each at a time.
template <typename T, int WIDTH, int HEADS, int SIMDGROUPS>
struct paired_results {
  head_results<T> to;

  HIPRT_INLINE void put(uint head, uint element, thread pair_of_sums& sum) {
    const float scale = sum.scale();
    for (uint j = 0; j < 2; j++) {
      const uint i = head * WIDTH + element + j;
      const float opening = to.is_gated ? opening_of(float(as_type<T>(ushort(load_now((const device ushort*)to.gate + i))))) : 1.0f;
      to.out[i] = T(sum.sums[j] * scale * opening);
    }
  }

  // Takes what each simdgroup has left, `apart` numbers from that of the one before.
  HIPRT_INLINE void take(const threadgroup float* left, uint apart, threadgroup uint* answer, uint index) {
    constexpr uint EACH = WIDTH + 2, PAIRS = HEADS * WIDTH / 2;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = index; i < PAIRS; i += SIMDGROUPS * 32) {
      const uint head = i / (WIDTH / 2), element = i % (WIDTH / 2) * 2;
      pair_of_sums sum;
      sum.template add<SIMDGROUPS>(left + head * EACH, SIMDGROUPS, apart, WIDTH, element);
      if (to.active == 1) {
        put(head, element, sum);
        continue;
      }
      device float* const part = to.parts + (size_t(head) * to.splits + to.split) * EACH;
      *(device pack<float, 2>*)(part + element) = {{sum.sums[0], sum.sums[1]}};
      if (element == 0) *(device pack<float, 2>*)(part + WIDTH) = {{sum.top, sum.norm}};
    }
    if (to.active == 1 || !to.is_counted || !comes_last(to.arrived, to.active, index, answer)) return;
    for (uint i = index; i < PAIRS; i += SIMDGROUPS * 32) {
      const uint head = i / (WIDTH / 2), element = i % (WIDTH / 2) * 2;
      pair_of_sums sum;
      sum.template add<16>(to.parts + size_t(head) * to.splits * EACH, to.active, EACH, WIDTH, element);
      put(head, element, sum);
    }
  }
};

}  // namespace metal
