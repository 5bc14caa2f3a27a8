// The router of a mixture in a kernel that also takes what it chooses: the first threadgroups compute the logits, and the
// others wait for them. Those depend on no other threadgroup and are brought onto the device first, so that all go on.
// They share words that are zero before the launch and after it: how many threadgroups have taken the logits, and behind
// FIRST_LOGIT one for each row, which is not zero once it is there and so needs no order with other memory.
//
// Or the kernel that makes the vector leaves the logits too: each of its threadgroups adds what its results contribute, before
// the norm's factor, to 64-bit integers in the place of these words. Such sums do not depend on their order.
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

// What a contribution to a logit is counted in, and the largest: far from what a router has, of numbers of any use.
constant constexpr float LOGIT_UNIT = 1.0f / 1073741824.0f, LARGEST_PART = 16777216.0f;

// A threadgroup's columns of the router, up to TILES times 8, of which each thread has those of some rows. The codes of 8 columns
// lie row by row, then those of the next 8; so do scales and biases of a group of columns.
template <typename T, uint ROWS, uint GROUP, uint TILES, uint THREADS>
struct router_columns {
  static constexpr uint TURNS = (ROWS + THREADS - 1) / THREADS;
  uint codes[TURNS][TILES][2], factors[TURNS][TILES];

  HIPRT_INLINE void ask(
      const device uint* columns, const device T* scales, const device T* biases, uint first_tile, uint end_tile, uint index) {
#pragma unroll
    for (uint r = 0; r < TURNS; r++) {
      const uint row = min(r * THREADS + index, ROWS - 1);
#pragma unroll
      for (uint u = 0; u < TILES; u++) {
        const uint tile = min(first_tile + u, end_tile - 1), at = tile * 8 / GROUP * ROWS + row;
        const device uint* const from = columns + (tile * ROWS + row) * 2;
        codes[r][u][0] = load_now(from);
        codes[r][u][1] = load_now(from + 1);
        factors[r][u] = load_now((const device ushort*)scales + at) | load_now((const device ushort*)biases + at) << 16;
      }
    }
  }

  // Add what the threadgroup's results, each times its weight of the norm, contribute; zeros where there are none.
  HIPRT_INLINE void add(const threadgroup float* made, device ulong* sums, uint index) {
#pragma unroll
    for (uint r = 0; r < TURNS; r++) {
      const uint row = r * THREADS + index;
      float part = 0.0f;
#pragma unroll
      for (uint u = 0; u < TILES; u++) {
        float dot = 0.0f, sum = 0.0f;
#pragma unroll
        for (uint k = 0; k < 8; k++) {
          const float value = made[u * 8 + k];
          dot = mad(float_of_byte(codes[r][u][k / 4], k % 4), value, dot);
          sum += value;
        }
        part += mad(low_of<T>(factors[r][u]), dot, high_of<T>(factors[r][u]) * sum);
      }
      if (row >= ROWS) continue;
      const float whole = fmin(fmax(part, -LARGEST_PART), LARGEST_PART) / LOGIT_UNIT;
      atomic_fetch_add_explicit((device atomic_ulong*)sums + row, ulong(long(whole)), memory_order_relaxed);
    }
  }
};

// The choice of a simdgroup: lane i gets the i-th expert and its share, as moe_route has them; a shared one comes last.
template <typename T, uint EXPERTS, uint CHOSEN, bool SHARED, uint WIDTH>
struct expert_choice {
  static constexpr uint ROWS = EXPERTS + SHARED, EACH = (ROWS + 31) / 32, TAKEN = CHOSEN - SHARED, PIECES = WIDTH / 256;
  typedef pack<uint, 4> piece;
  uint expert, taken, keys[EACH];
  float gate, sum;
  piece values[PIECES];
  ulong parts[EACH];

  // Ask for the vector and for the sums that the kernel before has left.
  HIPRT_INLINE void ask(const device T* x, const device ulong* sums, uint lane) {
#pragma unroll
    for (uint i = 0; i < PIECES; i++) values[i] = load_now((const device piece*)x + i * 32 + lane);
#pragma unroll
    for (uint e = 0; e < EACH; e++) {
      const uint row = e * 32 + lane;
      parts[e] = row < ROWS ? atomic_load_explicit((const device atomic_ulong*)sums + row, memory_order_relaxed) : 0;
    }
  }

  HIPRT_INLINE void take_sums(float eps, uint lane) {
    float squares[4] = {};  // of a chain each
#pragma unroll
    for (uint i = 0; i < PIECES * 8; i++) {
      const uint both = values[i / 8].values[i / 2 % 4];
      const float value = i % 2 ? high_of<T>(both) : low_of<T>(both);
      squares[i % 4] = mad(value, value, squares[i % 4]);
    }
    const float square = simd_sum((squares[0] + squares[1]) + (squares[2] + squares[3]));
    const float factor = rsqrt(square / float(WIDTH) + eps);
#pragma unroll
    for (uint e = 0; e < EACH; e++) keys[e] = word_of_logit<T>(float(long(parts[e])) * LOGIT_UNIT * factor, e * 32 + lane);
  }

  HIPRT_INLINE void wait_for_words(const device uint* words, uint lane) {
    bool are_there;
    do {
      are_there = true;
#pragma unroll
      for (uint e = 0; e < EACH; e++) {
        const uint row = e * 32 + lane;
        keys[e] = row < ROWS ? atomic_load_explicit((const device atomic_uint*)words + row, memory_order_relaxed) : 1u;
        are_there = are_there && keys[e] != 0;
      }
    } while (!are_there);
    simdgroup_barrier(mem_flags::mem_none);
  }

  // The lane's expert, for which the weights are asked first.
  HIPRT_INLINE void choose(uint lane, bool is_normalised) {
    taken = 0, sum = 0.0f;
    gate = SHARED ? logit_of_word<T>(simd_broadcast(keys[EXPERTS / 32], EXPERTS % 32)) : 0.0f;
    if (!is_normalised) {
      uint mine = 0;
      for (uint e = 0; e < EACH; e++) mine = e * 32 + lane < EXPERTS ? max(mine, keys[e]) : mine;
      const float top = logit_of_word<T>(simd_max(mine));
      for (uint e = 0; e < EACH; e++) sum += e * 32 + lane < EXPERTS ? exp(logit_of_word<T>(keys[e]) - top) : 0.0f;
      sum = simd_sum(sum);
    }
    for (uint e = 0; e < EACH; e++) keys[e] = e * 32 + lane < EXPERTS ? keys[e] : 0u;
#pragma unroll 1
    for (uint r = 0; r < TAKEN; r++) {
      uint mine = 0;
#pragma unroll
      for (uint e = 0; e < EACH; e++) mine = max(mine, keys[e]);
      const uint top = simd_max(mine);
#pragma unroll
      for (uint e = 0; e < EACH; e++) keys[e] = keys[e] == top ? 0u : keys[e];
      taken = lane == r ? top : taken;
    }
    expert = lane < TAKEN ? row_of_word(taken) : EXPERTS;
  }

  // The share of the lane's expert.
  HIPRT_INLINE float share(uint lane, bool is_normalised) {
    const float top = logit_of_word<T>(simd_broadcast(taken, 0)), power = lane < TAKEN ? exp(logit_of_word<T>(taken) - top) : 0.0f;
    if (is_normalised) {
      for (uint r = 0; r < TAKEN; r++) sum += simd_shuffle(power, r);
    }
    return lane < TAKEN ? power / sum : 1.0f / (1.0f + exp(-gate));
  }
};

}  // namespace metal
