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
      const float fade = exp2(top - higher);
      top = higher, norm *= fade, sums[0] *= fade, sums[1] *= fade;
#pragma unroll
      for (uint s = 0; s < AT_ONCE; s++) {
        const float weight = exp2(last[s].values[0] - higher);
        norm = mad(last[s].values[1], weight, norm);
        for (uint j = 0; j < 2; j++) sums[j] = mad(part[s].values[j], weight, sums[j]);
      }
    }
  }

  // What attention answers; it is zero where no position was taken.
  HIPRT_INLINE float share(uint j) { return norm == 0.0f ? 0.0f : sums[j] / norm; }
};

// What a simdgroup has of the heads, and the rows that it has on their way: STAGES times RUN keys and as many values. Piece p
// of 16 bytes of row r lies where piece p ^ r % 8 would, so that neither rows nor columns meet in the banks.
template <typename T, int WIDTH, int HEADS, int STAGES>
struct streamed_rows {
  enum {
    RUN = 16,
    PIECES = WIDTH / 8,
    LINE = WIDTH * 2,             // bytes of a row
    HALF = RUN * LINE,            // of the keys of a run, which its values follow
    BYTES = STAGES * 2 * HALF,    // of all that is on its way
    STEPS = WIDTH / 16,
    LEFT = WIDTH + 2,             // numbers that are left of a head: the sums, the largest score, the sum of weights
  };
  shared_place ring;
  const device T* keys;
  const device T* values;
  int cached, limit;  // the positions in the caches, and those that there are
  int apart;          // from a run to the simdgroup's next
  uint lane, query[STEPS][2];
  float sums[STEPS][4], top[2], norm[2];

  // The rows of a run from a cache; what is not there is zero.
  HIPRT_INLINE void fetch(shared_place to, const device T* rows, int start) {
    const device pack<uint, 4>* const from = (const device pack<uint, 4>*)(rows + size_t(start) * WIDTH) + lane;
#pragma unroll
    for (uint i = 0; i < RUN * PIECES / 32; i++) {
      const uint row = (i * 32 + lane) / PIECES, piece = (i * 32 + lane) % PIECES;
      copy_or_clear(to + row * LINE + (piece ^ row % 8) * 16, from + i * 32, start + int(row) < cached);
    }
  }
  HIPRT_INLINE void fetch_keys(uint slot, int start) {
    if (start < limit) fetch(ring + slot * (2 * HALF), keys, start);
    end_copies();
  }
  HIPRT_INLINE void fetch_values(uint slot, int start) {
    if (start < limit) fetch(ring + (slot * 2 + 1) * HALF, values, start);
    end_copies();
  }

  HIPRT_INLINE void begin(int start) {
#pragma unroll
    for (uint slot = 0; slot < STAGES; slot++) {
      fetch_keys(slot, start + int(slot) * apart);
      fetch_values(slot, start + int(slot) * apart);
    }
  }

  // A row that no cache has yet, into a run that has come.
  HIPRT_INLINE void put(threadgroup pack<uint, 4>* to, uint row, const threadgroup T* from) {
    if (lane < PIECES) to[row * PIECES + (lane ^ row % 8)] = ((const threadgroup pack<uint, 4>*)from)[lane];
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }

  // Takes the runs from `start` on. `held` is the memory of `ring`; `newest` is the position of a key and a value that lie
  // behind the caches, at `key` and `value`, or -1.
  HIPRT_INLINE void take(threadgroup pack<uint, 4>* held, int start, float scale, int newest, const threadgroup T* key,
                         const threadgroup T* value) {
    const uint g = lane / 4, t = lane % 4, line = lane % 8;
    const shared_place key_line = ring + (lane / 8 % 2 * 8 + line) * LINE, value_line = ring + HALF + (lane / 16 * 8 + line) * LINE;
    uint slot = 0;
#pragma unroll
    for (uint i = 0; i < STEPS; i++) {
      for (uint e = 0; e < 4; e++) sums[i][e] = 0.0f;
    }
    for (uint j = 0; j < 2; j++) top[j] = -3.0e38f, norm[j] = 0.0f;
#pragma unroll 1
    for (; start < limit; start += apart) {
      const bool has_newest = uint(newest - start) < uint(RUN);
      wait_for_all_but<2 * STAGES - 1>();
      simdgroup_barrier(mem_flags::mem_threadgroup);
      if (has_newest) put(held + slot * (2 * HALF / 16), newest - start, key);
      float scores[2][4] = {};
#pragma unroll
      for (uint i = 0; i < STEPS; i++) {
        uint a[4];
        load_squares<false>(a, key_line + slot * (2 * HALF) + ((i * 2 + lane / 16) ^ line) * 16);
        mma<T>(scores[i % 2], a[0], a[1], a[2], a[3], query[i][0], query[i][1]);
      }
      simdgroup_barrier(mem_flags::mem_threadgroup);
      fetch_keys(slot, start + STAGES * apart);
      // Lane (g, t) has the positions g and g + 8 of the heads 2t and 2t + 1.
      float weights[4];
#pragma unroll
      for (uint e = 0; e < 4; e++) {
        weights[e] = start + int(g + e / 2 * 8) < limit ? scale * (scores[0][e] + scores[1][e]) : -3.0e38f;
      }
      float fade[2];
#pragma unroll
      for (uint j = 0; j < 2; j++) {
        float higher = max(weights[j], weights[2 + j]);
        higher = max(higher, word_across<4>(higher));
        higher = max(higher, word_across<8>(higher));
        higher = max(top[j], max(higher, word_across<16>(higher)));
        fade[j] = exp2(top[j] - higher);
        top[j] = higher;
        for (uint e = j; e < 4; e += 2) weights[e] = exp2(weights[e] - higher);
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
      wait_for_all_but<2 * STAGES - 1>();
      simdgroup_barrier(mem_flags::mem_threadgroup);
      if (has_newest) put(held + (slot * 2 + 1) * (HALF / 16), newest - start, value);
#pragma unroll
      for (uint i = 0; i < STEPS; i++) {
        uint a[4];
        load_squares<true>(a, value_line + slot * (2 * HALF) + ((i * 2 + lane / 8 % 2) ^ line) * 16);
        for (uint e = 0; e < 4; e++) sums[i][e] *= fade[e % 2];
        mma<T>(sums[i], a[0], a[1], a[2], a[3], whole[0], whole[1]);
        mma<T>(sums[i], a[0], a[1], a[2], a[3], rest[0], rest[1]);
      }
      simdgroup_barrier(mem_flags::mem_threadgroup);
      fetch_values(slot, start + STAGES * apart);
      slot = slot + 1 == STAGES ? 0 : slot + 1;
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

// Where a threadgroup leaves its heads, as head_results in one_pass.h has it.
template <typename T, int WIDTH, int HEADS, int SIMDGROUPS>
struct paired_results {
  device T* out;          // of the first head
  const device T* gate;   // of the first head
  device float* parts;    // of the first head, for each of `splits` threadgroups
  device uint* arrived;   // a counter, where the last of the threadgroups puts the parts together
  bool is_gated, is_counted;
  uint split, splits;
  uint active;  // the threadgroups that have positions

  HIPRT_INLINE void put(uint head, uint element, thread pair_of_sums& sum) {
    for (uint j = 0; j < 2; j++) {
      const uint i = head * WIDTH + element + j;
      const float opening = is_gated ? opening_of(float(as_type<T>(ushort(load_now((const device ushort*)gate + i))))) : 1.0f;
      out[i] = T(sum.share(j) * opening);
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
      if (active == 1) {
        put(head, element, sum);
        continue;
      }
      device float* const part = parts + (size_t(head) * splits + split) * EACH;
      *(device pack<float, 2>*)(part + element) = {{sum.sums[0], sum.sums[1]}};
      if (element == 0) *(device pack<float, 2>*)(part + WIDTH) = {{sum.top, sum.norm}};
    }
    if (active == 1 || !is_counted || !arrives_last(arrived, active, index, answer)) return;
    for (uint i = index; i < PAIRS; i += SIMDGROUPS * 32) {
      const uint head = i / (WIDTH / 2), element = i % (WIDTH / 2) * 2;
      pair_of_sums sum;
      sum.template add<16>(parts + size_t(head) * splits * EACH, active, EACH, WIDTH, element);
      put(head, element, sum);
    }
  }
};

}  // namespace metal
