// Attention in one pass over the positions of a cache: sums of values that are kept relative to the largest score so far
// and scaled down when a larger one comes. Scores are logarithms to base 2, because exp2 is what GPUs have.
namespace metal {

inline float opening_of(float gate) { return 1.0f / (1.0f + exp(-gate)); }

// The sum of parts of a head that lie `apart` numbers from each other. A part is what one_pass leaves: `width` sums, the
// largest score and the sum of weights. Parts are put together in their order, whoever made them first.
struct summed_parts {
  float top = -3.0e38f, norm = 0.0f, total = 0.0f;

  template <typename From>
  void add(From parts, uint count, uint apart, uint width, uint element) {
    for (uint s = 0; s < count; s++) top = max(top, parts[s * apart + width]);
#pragma unroll 4
    for (uint s = 0; s < count; s++) {
      From part = parts + s * apart;
      const float weight = power_of_two(part[width] - top);
      norm = mad(part[width + 1], weight, norm);
      total = mad(part[element], weight, total);
    }
  }

  // What attention answers; it is zero where no position was taken.
  float share() { return norm == 0.0f ? 0.0f : total / norm; }
};

#if HIPRT_CPU_LOOPS
// Attention of one head by plain loops; `gate` is null where there is none.
template <typename T, int WIDTH, typename Rows>
void attend(const T* query, Rows keys, Rows values, int last, float scale, const T* gate, T* out) {
  constexpr int TILE = 32;
  constexpr int WHOLE = WIDTH / 8 * 8;
  float query_part[WIDTH], totals[WIDTH], weights[TILE];
  float top = -INFINITY;
  float norm = 0.0f;
  for (int i = 0; i < WIDTH; i++) {
    query_part[i] = scale * float(query[i]);
    totals[i] = 0.0f;
  }
  for (int start = 0; start <= last; start += TILE) {
    int count = min(TILE, last + 1 - start);
    float tile_top = top;
    for (int p = 0; p < count; p++) {
      const auto key = keys + size_t(start + p) * WIDTH;
      f32x8 products = splat(0.0f);
      for (int i = 0; i < WHOLE; i += 8) products = mad(load8(query_part + i), load8(key + i), products);
      float score = sum8(products);
      for (int i = WHOLE; i < WIDTH; i++) score = mad(query_part[i], float(key[i]), score);
      weights[p] = score;
      tile_top = max(tile_top, score);
    }
    for (int p = count; p < TILE; p++) weights[p] = -INFINITY;
    float fade = exp(top - tile_top);
    top = tile_top;
    f32x8 sums = splat(0.0f);
    for (int p = 0; p < TILE; p += 8) {
      f32x8 weight = exp_of(load8(weights + p) - splat(top));
      store8(weights + p, weight);
      sums += weight;
    }
    norm = norm * fade + sum8(sums);
    for (int i = 0; i < WIDTH; i++) totals[i] *= fade;
    for (int p = 0; p < count; p++) {
      const auto value = values + size_t(start + p) * WIDTH;
      f32x8 weight = splat(weights[p]);
      for (int i = 0; i < WHOLE; i += 8) store8(totals + i, mad(weight, load8(value + i), load8(totals + i)));
      for (int i = WHOLE; i < WIDTH; i++) totals[i] = mad(weights[p], float(value[i]), totals[i]);
    }
  }
  for (int i = 0; i < WIDTH; i++) {
    out[i] = T(last < 0 ? 0.0f : totals[i] / norm * (gate ? opening_of(float(gate[i])) : 1.0f));
  }
}
#else
// What a simdgroup has of HEADS query heads that read the same keys. LANES lanes hold one position, so that SIDE positions
// are read side by side, UNROLL times over.
template <typename T, int WIDTH, int HEADS>
struct one_pass {
  enum {
    EXACT = WIDTH == 32 || WIDTH == 64 || WIDTH == 128 || WIDTH == 256,
    PER_LANE = EXACT ? 8 : (WIDTH + 31) / 32,
    LANES = EXACT ? WIDTH / 8 : 32,
    SIDE = 32 / LANES,
    UNROLL = 4,
    RUN = SIDE * UNROLL,  // positions that are read at once
    LEFT = WIDTH + 2      // numbers that are left of a head: the sums, the largest score, the sum of weights
  };
  float query[HEADS][PER_LANE], totals[HEADS][PER_LANE], top[HEADS], norm[HEADS];
  uint base;  // the lane's first element
  int side;

  template <typename From>
  void begin(From queries, float scale, uint lane) {
    base = lane % LANES * PER_LANE;
    side = int(lane / LANES);
    for (uint h = 0; h < HEADS; h++) {
      top[h] = -3.0e38f;
      norm[h] = 0.0f;
      for (uint j = 0; j < PER_LANE; j++) {
        query[h][j] = EXACT || base + j < WIDTH ? scale * float(queries[h * WIDTH + base + j]) : 0.0f;
        totals[h][j] = 0.0f;
      }
    }
  }

  template <typename Part>
  float score_of(uint h, thread const Part& key) {
    float score = 0.0f;
    for (uint j = 0; j < PER_LANE; j++) score = mad(query[h][j], float(key.values[j]), score);
    for (uint other = 1; other < LANES; other *= 2) score = sum_across(score, other);
    return score;
  }

  // Takes the positions from `start` on, none behind `last`. A lane holds a `Part` of a row.
  template <typename Part = lane_part<T, PER_LANE, EXACT>, typename Rows>
  void take(Rows keys, Rows values, int start, int last) {
    Part key[UNROLL], value[UNROLL];
#pragma unroll
    for (int u = 0; u < int(UNROLL); u++) {
      const int at = min(start + u * int(SIDE) + side, last);
      key[u].load(keys + size_t(at) * WIDTH, base, WIDTH);
      value[u].load(values + size_t(at) * WIDTH, base, WIDTH);
    }
#pragma unroll
    for (uint h = 0; h < HEADS; h++) {
      float scores[UNROLL];
      float higher = top[h];
#pragma unroll
      for (int u = 0; u < int(UNROLL); u++) {
        const float score = score_of(h, key[u]);
        scores[u] = start + u * int(SIDE) + side <= last ? score : -3.0e38f;
        higher = max(higher, scores[u]);
      }
      const float fade = power_of_two(top[h] - higher);
      top[h] = higher;
      norm[h] *= fade;
      for (uint j = 0; j < PER_LANE; j++) totals[h][j] *= fade;
#pragma unroll
      for (int u = 0; u < int(UNROLL); u++) {
        const float weight = start + u * int(SIDE) + side <= last ? power_of_two(scores[u] - higher) : 0.0f;
        norm[h] += weight;
        for (uint j = 0; j < PER_LANE; j++) totals[h][j] = mad(weight, float(value[u].values[j]), totals[h][j]);
      }
    }
  }

  // Takes one position before all others, in the simdgroup that `is_taken` says; the others multiply along with it.
  template <typename Key>
  void take_first(Key keys, const device T* values, bool is_taken) {
    lane_part<T, PER_LANE, EXACT> key;
    for (uint j = 0; j < PER_LANE; j++) key.values[j] = EXACT || base + j < WIDTH ? T(keys[base + j]) : T(0.0f);
    for (uint h = 0; h < HEADS; h++) {
      const float score = score_of(h, key);
      if (side != 0 || !is_taken) continue;
      top[h] = score;
      norm[h] = 1.0f;
      for (uint j = 0; j < PER_LANE; j++) totals[h][j] = EXACT || base + j < WIDTH ? float(values[base + j]) : 0.0f;
    }
  }

  // Puts the lanes together that hold positions side by side, and leaves what they have for the threadgroup: LEFT numbers
  // of each head.
  void leave(threadgroup float* left, uint lane) {
#pragma unroll
    for (uint h = 0; h < HEADS; h++) {
#pragma unroll
      for (uint other = LANES; other < 32; other *= 2) {
        const float higher = max(top[h], simd_shuffle_xor(top[h], other));
        const float fade = power_of_two(top[h] - higher);
        top[h] = higher;
        norm[h] *= fade;
        norm[h] = sum_across(norm[h], other);
        for (uint j = 0; j < PER_LANE; j++) {
          totals[h][j] *= fade;
          totals[h][j] = sum_across(totals[h][j], other);
        }
      }
      threadgroup float* of_head = left + h * LEFT;
      if (lane == 0) {
        of_head[WIDTH] = top[h];
        of_head[WIDTH + 1] = norm[h];
      }
      for (uint j = 0; j < PER_LANE; j++) {
        if (lane < LANES && (EXACT || base + j < WIDTH)) of_head[base + j] = totals[h][j];
      }
    }
  }
};

// Where a threadgroup of attention leaves the heads that it takes.
template <typename T>
struct head_results {
  device T* out;          // of the first head
  const device T* gate;   // of the first head
  device float* parts;    // of the first head, for each of `splits` threadgroups
  device uint* arrived;   // a counter, where the last of the threadgroups puts the parts together
  bool is_gated, is_counted;
  uint split, splits;
  uint active;  // the threadgroups that have positions

  void put(uint i, thread summed_parts& sum) {
    out[i] = T(is_gated ? sum.share() * opening_of(float(gate[i])) : sum.share());
  }

  // Takes what `simdgroups` simdgroups have left of each of `heads` heads.
  void take(const threadgroup float* left, threadgroup uint* answer, uint heads, uint width, uint simdgroups, uint thread_index) {
    const uint each = width + 2;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = thread_index; i < heads * width; i += simdgroups * 32) {
      const uint h = i / width, element = i % width;
      summed_parts sum;
      sum.add(left + h * each, simdgroups, heads * each, width, element);
      if (active == 1) {
        put(i, sum);
        continue;
      }
      device float* part = parts + (size_t(h) * splits + split) * each;
      part[element] = sum.total;
      if (element == 0) {
        part[width] = sum.top;
        part[width + 1] = sum.norm;
      }
    }
    if (active == 1 || !is_counted || !arrives_last(arrived, active, thread_index, answer)) return;
    for (uint i = thread_index; i < heads * width; i += simdgroups * 32) {
      summed_parts sum;
      sum.add(parts + size_t(i / width) * splits * each, active, each, width, i % width);
      put(i, sum);
    }
  }
};

#endif

}  // namespace metal
