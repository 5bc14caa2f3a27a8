// The router of a mixture in a kernel that also takes what it chooses: the first threadgroups compute the logits, and the
// others wait for them. Those depend on no other threadgroup and are brought onto the device first, so that all go on.
// They share words that are zero before the launch and after it: how many threadgroups have taken the logits, and behind
// FIRST_LOGIT one for each row, which is not zero once it is there and so needs no order with other memory.
//
// Or the kernel that makes the vector leaves the words as soon as it has its own inputs, by a router that is folded with its
// matrix. They do without the norm's factor, which is the same for all.
namespace metal {

// There are copies of these, so that not all threadgroups ask for the same lines at a time.
constant constexpr uint FIRST_LOGIT = 64, LOGIT_COPIES = 8;

// Words have the order of logits, NaN above all; of equal ones that of the lower row is larger.
template <typename T>
inline uint word_of_logit(float logit, uint row) {
  const T rounded = T(logit + 0.0f);
  const uint bits = pair_of<T>(rounded, rounded) & 0xffffu;
  const uint ordered = isnan(float(rounded)) ? 0xffffu : bits & 0x8000u ? ~bits & 0xffffu : bits | 0x8000u;
  return ordered << 16 | (0xffffu - row);
}
template <typename T>
inline float logit_of_word(uint word) {
  const uint ordered = word >> 16;
  return float(number_of_bits<T>(ordered & 0x8000u ? ordered & 0x7fffu : ~ordered & 0xffffu));
}
inline uint row_of_word(uint word) { return 0xffffu - (word & 0xffffu); }

// A byte of a word as a number, by instructions of the full rate.
HIPRT_INLINE float float_of_byte(uint word, uint i) {
#if HIPRT_TARGET_NVIDIA
  return as_type<float>(__byte_perm(word, 0x4b000000u, 0x7440u | i)) - 8388608.0f;
#else
  return float(word >> (i * 8) & 255u);
#endif
}

// A threadgroup's rows of 8-bit codes, at most ROWS from `first` on, which its simdgroups multiply with a normed vector. They
// come by bulk copies before the vector is there.
template <typename T, uint WIDTH, uint GROUP, uint ROWS, uint SIMDGROUPS>
struct router_rows {
  static constexpr uint PARTS = WIDTH / 512, GROUPS = WIDTH / GROUP, BESIDE = SIMDGROUPS < PARTS ? 1 : SIMDGROUPS / PARTS;
  static constexpr uint TURNS = (ROWS + BESIDE - 1) / BESIDE;
  const uint* codes;
  const T *scales, *biases, *norm;
  uint first, count;

  HIPRT_INLINE void ask(threadgroup uchar* to, threadgroup ulong* full, uint index) {
    const size_t row = first;
    codes += row * (WIDTH / 4);
    scales += row * GROUPS;
    biases += row * GROUPS;
#if HIPRT_TARGET_NVIDIA
    const uint parts[] = {count * WIDTH, count * (GROUPS * 2), count * (GROUPS * 2), WIDTH * 2};
    threadgroup uchar* const places[] = {to, to + ROWS * WIDTH, to + ROWS * (WIDTH + GROUPS * 2), to + ROWS * (WIDTH + GROUPS * 4)};
    if (index == 0) {
      const void* const from[] = {codes, scales, biases, norm};
      const uint arrived = in_shared(full);
      begin_stage(arrived, 1);
      stages_begun();
      expect_bytes(arrived, parts[0] + parts[1] + parts[2] + parts[3]);
      for (uint i = 0; i < 4; i++) copy_bulk(in_shared(places[i]), from[i], parts[i], arrived);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    codes = (const uint*)places[0];
    scales = (const T*)places[1];
    biases = (const T*)places[2];
    norm = (const T*)places[3];
#endif
  }

  // Take the vector and leave a word for each row. A simdgroup takes a part of the vector, which BESIDE of them have in common
  // and divide the rows. `sums` has room for a number of each row and part, and for one more of each part.
  HIPRT_INLINE void take(
      const device T* x, float eps, device uint* words, uint all_rows, threadgroup ulong* full, threadgroup float* sums,
      uint simdgroup, uint lane) {
    typedef pack<uint, 4> piece;
    threadgroup float* const squares = sums + ROWS * PARTS;
    const device piece* const from = (const device piece*)x + lane * 2;
    const uint own = simdgroup % PARTS, beside = simdgroup / PARTS;
    piece values[2] = {load_now(from + own * 64), load_now(from + own * 64 + 1)};
#if HIPRT_TARGET_NVIDIA
    wait_for_stage(in_shared(full), 0);
#endif
#pragma unroll 1
    for (uint part = own; part < PARTS && beside < BESIDE; part += SIMDGROUPS) {
      const uint at = part * 32 + lane;
      if (part != own) values[0] = load_now(from + part * 64), values[1] = load_now(from + part * 64 + 1);
      const piece weighs[2] = {*(const piece*)(norm + at * 16), *(const piece*)(norm + at * 16 + 8)};
      float v[16], sum = 0.0f, square = 0.0f;
#pragma unroll
      for (uint i = 0; i < 16; i++) {
        const uint both = values[i / 8].values[i / 2 % 4], weigh = weighs[i / 8].values[i / 2 % 4];
        const float value = i % 2 ? high_of<T>(both) : low_of<T>(both);
        square = mad(value, value, square);
        v[i] = value * (i % 2 ? high_of<T>(weigh) : low_of<T>(weigh));
        sum += v[i];
      }
      float totals[TURNS + 1];
#pragma unroll
      for (uint r = 0; r < TURNS; r++) {
        const uint row = min(r * BESIDE + beside, count - 1);
        const piece taken = *(const piece*)(codes + row * (WIDTH / 4) + at * 4);
        float dots[2] = {};
#pragma unroll
        for (uint i = 0; i < 16; i++) dots[i % 2] = mad(float_of_byte(taken.values[i / 4], i % 4), v[i], dots[i % 2]);
        const float scale = float(scales[row * GROUPS + at * 16 / GROUP]), bias = float(biases[row * GROUPS + at * 16 / GROUP]);
        totals[r] = mad(scale, dots[0] + dots[1], bias * sum);
      }
      totals[TURNS] = square;
#pragma unroll
      for (uint other = 16; other > 0; other /= 2) {
#pragma unroll
        for (uint r = 0; r <= TURNS; r++) totals[r] += simd_shuffle_xor(totals[r], other);
      }
      if (lane == 0) {
        for (uint r = 0; r < TURNS; r++) {
          if (r * BESIDE + beside < count) sums[(r * BESIDE + beside) * PARTS + part] = totals[r];
        }
        if (beside == 0) squares[part] = totals[TURNS];
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = simdgroup * 32 + lane; i < count * LOGIT_COPIES; i += SIMDGROUPS * 32) {
      const uint local = i / LOGIT_COPIES, copy = i % LOGIT_COPIES;
      float logit = 0.0f, square = 0.0f;
      for (uint part = 0; part < PARTS; part++) {
        logit += sums[local * PARTS + part];
        square += squares[part];
      }
      logit *= rsqrt(square / float(WIDTH) + eps);
      atomic_store_explicit(
          (device atomic_uint*)words + copy * all_rows + first + local, word_of_logit<T>(logit, first + local), memory_order_relaxed);
    }
  }
};

// A threadgroup's rows of a router that is folded with the product in front of it: a row takes the product's vector and
// behind it what is added to the product. They come by a bulk copy before these are there.
template <typename T, uint WIDTH, uint WHOLE, uint ROWS, uint SIMDGROUPS>
struct folded_rows {
  static constexpr uint THREADS = SIMDGROUPS * 32, PIECES = (WIDTH + WHOLE) / 8, TURNS = (PIECES + THREADS - 1) / THREADS;
  static constexpr uint PARTS = (PIECES + 31) / 32;  // whose sums do not depend on the number of threads
  typedef pack<uint, 4> piece;
  const piece* rows;
  uint first, count;
  piece values[TURNS];

  // Called by all threads; their barrier follows.
  HIPRT_INLINE void ask(const device T* folded, threadgroup piece* to, threadgroup ulong* full, uint index) {
    rows = (const piece*)(folded + size_t(first) * (WIDTH + WHOLE));
#if HIPRT_TARGET_NVIDIA
    if (index == 0) {
      const uint arrived = in_shared(full), bytes = count * (PIECES * 16);
      begin_stage(arrived, 1);
      stages_begun();
      expect_bytes(arrived, bytes);
      if (count > 0) copy_bulk(in_shared(to), rows, bytes, arrived);
    }
    rows = (const piece*)to;
#endif
  }

  HIPRT_INLINE void fetch(const device T* x, const device T* added, uint index) {
#pragma unroll
    for (uint i = 0; i < TURNS; i++) {
      const uint at = i * THREADS + index;
      values[i] = {{0, 0, 0, 0}};
      if (at < PIECES) values[i] = load_now((const device piece*)(at < WIDTH / 8 ? x + at * 8 : added + (at * 8 - WIDTH)));
    }
  }

  // Leave the sums of 32 pieces each of a row; `sums` has room for those of all rows.
  HIPRT_INLINE void add(threadgroup float* sums, threadgroup ulong* full, uint index) {
#if HIPRT_TARGET_NVIDIA
    wait_for_stage(in_shared(full), 0);
#endif
    float totals[ROWS][TURNS];
#pragma unroll
    for (uint r = 0; r < ROWS; r++) {
#pragma unroll
      for (uint i = 0; i < TURNS; i++) {
        float dots[2] = {};
        const piece row = rows[min(r, count - 1) * PIECES + min(i * THREADS + index, PIECES - 1)];
#pragma unroll
        for (uint k = 0; k < 4; k++) {
          dots[0] = mad(low_of<T>(values[i].values[k]), low_of<T>(row.values[k]), dots[0]);
          dots[1] = mad(high_of<T>(values[i].values[k]), high_of<T>(row.values[k]), dots[1]);
        }
        totals[r][i] = dots[0] + dots[1];
      }
    }
#pragma unroll
    for (uint other = 16; other > 0; other /= 2) {
#pragma unroll
      for (uint r = 0; r < ROWS; r++) {
#pragma unroll
        for (uint i = 0; i < TURNS; i++) totals[r][i] += simd_shuffle_xor(totals[r][i], other);
      }
    }
#pragma unroll
    for (uint i = 0; i < TURNS; i++) {
      const uint part = i * SIMDGROUPS + index / 32;
      for (uint r = 0; r < ROWS; r++) {
        if (index % 32 == 0 && part < PARTS) sums[r * PARTS + part] = totals[r][i];
      }
    }
  }

  // Leave a word for each row, behind a barrier; called by one simdgroup.
  HIPRT_INLINE void leave(const threadgroup float* sums, device uint* words, uint all_rows, uint lane) {
    for (uint r = 0; r < count; r++) {
      float sum = 0.0f;
      for (uint part = lane; part < PARTS; part += 32) sum += sums[r * PARTS + part];
      const float logit = simd_sum(sum);
      device atomic_uint* const to = (device atomic_uint*)words + lane % LOGIT_COPIES * all_rows + first + r;
      if (lane < LOGIT_COPIES) atomic_store_explicit(to, word_of_logit<T>(logit, first + r), memory_order_relaxed);
    }
  }
};

// The choice of a simdgroup: lane i gets the i-th expert and its share, as moe_route has them; a shared one comes last.
template <typename T, uint EXPERTS, uint CHOSEN, bool SHARED>
struct expert_choice {
  static constexpr uint ROWS = EXPERTS + SHARED, EACH = (ROWS + 31) / 32, TAKEN = CHOSEN - SHARED;
  uint expert, taken, keys[EACH];
  float gate;

  // Ask for the words as they are.
  HIPRT_INLINE void ask(const device uint* words, uint lane) {
#pragma unroll
    for (uint e = 0; e < EACH; e++) {
      const uint row = e * 32 + lane;
      keys[e] = row < ROWS ? atomic_load_explicit((const device atomic_uint*)words + row, memory_order_relaxed) : 1u;
    }
  }

  // Take what has been asked for, and return whether all words are there. Whatever they are, keys have the rows of their places,
  // so that experts exist; one that is not there is that of the least logit.
  HIPRT_INLINE bool takes(uint lane) {
    uint is_there = 1;
#pragma unroll
    for (uint e = 0; e < EACH; e++) {
      is_there = keys[e] != 0 ? is_there : 0u;
      keys[e] = (keys[e] & 0xffff0000u) | (0xffffu - (e * 32 + lane));
    }
    return simd_min(is_there) != 0;
  }

  // Take logits that are given.
  HIPRT_INLINE void take_logits(const device T* logits, uint lane) {
#pragma unroll
    for (uint e = 0; e < EACH; e++) {
      const uint row = e * 32 + lane;
      keys[e] = row < ROWS ? word_of_logit<T>(low_of<T>(load_now((const device ushort*)logits + row)), row) : 0u;
    }
  }

  HIPRT_INLINE void keep(threadgroup uint* to, uint lane) const {
#pragma unroll
    for (uint e = 0; e < EACH; e++) {
      if (e * 32 + lane < ROWS) to[e * 32 + lane] = keys[e];
    }
  }

  // The lane's expert, for which the weights are asked first.
  HIPRT_INLINE void choose(uint lane) {
    taken = 0;
    gate = SHARED ? logit_of_word<T>(simd_broadcast(keys[EXPERTS / 32], EXPERTS % 32)) : 0.0f;
#pragma unroll
    for (uint e = 0; e < EACH; e++) keys[e] = e * 32 + lane < EXPERTS ? keys[e] : 0u;
    // Each lane has the largest of its words in front.
#pragma unroll
    for (uint pass = 0; pass < EACH; pass++) {
#pragma unroll
      for (uint e = pass % 2; e + 1 < EACH; e += 2) {
        const uint larger = max(keys[e], keys[e + 1]), smaller = min(keys[e], keys[e + 1]);
        keys[e] = larger;
        keys[e + 1] = smaller;
      }
    }
#pragma unroll 1
    for (uint r = 0; r < TAKEN; r++) {
      const uint top = simd_max(keys[0]);
      const bool is_mine = keys[0] == top;
#pragma unroll
      for (uint e = 0; e < EACH; e++) keys[e] = is_mine ? (e + 1 < EACH ? keys[e + 1] : 0u) : keys[e];
      taken = lane == r ? top : taken;
    }
    expert = lane < TAKEN ? row_of_word(taken) : EXPERTS;
  }

  // The share of the lane's expert, of the words that were kept; `factor` is that of the norm where they do without.
  HIPRT_INLINE float share(const threadgroup uint* words, uint lane, bool is_normalised, float factor) {
    const float top = logit_of_word<T>(simd_broadcast(taken, 0));
    const float power = lane < TAKEN ? exp((logit_of_word<T>(taken) - top) * factor) : 0.0f;
    float sum = 0.0f;
    if (is_normalised) {
      for (uint r = 0; r < TAKEN; r++) sum += simd_shuffle(power, r);
    } else {
      for (uint row = lane; row < EXPERTS; row += 32) sum += exp((logit_of_word<T>(words[row]) - top) * factor);
      sum = simd_sum(sum);
    }
    return lane < TAKEN ? power / sum : 1.0f / (1.0f + exp(-gate * factor));
  }
};

}  // namespace metal
