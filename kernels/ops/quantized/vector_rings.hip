// Several vectors times the transposed quantised matrix by integer matrix instructions, each with the bits that
// integer_rings.hip gives it alone: sums of integers are exact, and what is rounded is rounded in that kernel's order. These
// are the sums of a row by the SPLIT simdgroups that share it, and the sum of squares by the MEMBERS_ALONE simdgroups of
// that kernel's threadgroup.
//
// x is brought to 16 bits as there. A matrix instruction multiplies one chunk of 64 bytes of 16 rows, which are two tiles of 8,
// with the columns of SIDE vectors, one pair of columns for each scale in the chunk; so each code that comes from memory is
// multiplied with all vectors while it is in registers. More than 4 vectors are WIDE where a chunk has two scales: lanes
// exchange words until an instruction has the codes of one scale, and its columns are 8 vectors. A simdgroup has DEPTH steps
// of two tiles on their way. HELPERS are simdgroups without tiles: they bring x, which is most of the work where a
// threadgroup has few rows.
//
// SHARERS threadgroups, a cluster, have their rows in common and divide the SPLIT among themselves: each brings only the x
// of its own steps, and reads the sums of the others.
constexpr uint CHUNK = 512 / BITS;
constexpr uint STEP = 2 * CHUNK;
constexpr uint SLOT = uint(GROUP) < CHUNK ? GROUP : CHUNK;
constexpr uint SLOTS = STEP / SLOT, HALF = SLOTS / 2;             // of a step and of a chunk: two columns each
constexpr uint SPREAD = uint(GROUP) > CHUNK ? GROUP / CHUNK : 1;  // chunks with one scale
constexpr uint SCALES = SPREAD > 1 ? 2 / SPREAD : SLOTS;          // of a step
constexpr uint FIELDS = BITS == 4 ? 2 : 1;                        // registers of a word's codes, the second 16 times as much
constexpr uint STEPS = WIDTH / STEP, OWN = (STEPS + SPLIT - 1) / SPLIT, SCALED = STEPS * SCALES;
constexpr uint HERE = SPLIT / SHARERS, STEPS_HERE = SHARERS > 1 ? OWN * HERE : STEPS;  // of this threadgroup
constexpr uint MEMBERS = TEAMS * HERE + HELPERS, THREADS = MEMBERS * 32;
constexpr uint PARTS = GATED ? 2 : 1, OUTPUTS = 8 / PARTS;  // of a tile; gated: 4 rows of each half
constexpr uint ROUND = 2 * TEAMS * PER;                     // tiles whose sums are put together at once
constexpr uint BRINGERS = NORMED ? MEMBERS_ALONE / SHARERS : MEMBERS / HERE * HERE;  // with parts of x of their own
constexpr uint BUNDLES = BRINGERS < MEMBERS ? MEMBERS / BRINGERS : 1;        // of vectors, brought side by side
constexpr uint BUNDLE = (VECTORS + BUNDLES - 1) / BUNDLES;
constexpr uint ABREAST = 4;  // vectors of a bundle whose shuffles do not wait for one another
constexpr uint LENGTH = OWN < uint(DEPTH) ? OWN : uint(DEPTH);     // steps of two tiles that are on their way
constexpr uint TURNS = OWN < uint(DEPTH) ? uint(DEPTH) / OWN : 1;  // pairs of tiles that are
constexpr uint PACKS = STEP / 8, HELD = 16 * FIELDS;               // pieces of x of a step, as it comes and as it is kept
constexpr uint SIDE = 4 / HALF, SETS = (VECTORS + SIDE - 1) / SIDE;
constexpr bool WIDE = BITS == 4 && HALF == 2 && VECTORS > 4;
constexpr uint ZEROS = WIDE ? 0 : HELD;                               // pieces before a vector
constexpr uint VECTOR = ZEROS + STEPS_HERE * HELD + (WIDE ? 4 : 0);   // wide: apart in the banks
constexpr uint LINE = WIDE ? 8 : VECTORS;                             // sums of a scale
constexpr uint RESULTS = SETS < 4 ? 4 : SETS;                         // of a chunk and tile that a lane sums
constexpr uint OTHERS = VECTORS < SIDE ? VECTORS : SIDE;
constexpr uint SCALE_PIECES = (ROUND * 8 * SCALED * 2 + 15) / 16;  // of a round, and as many of biases
typedef pack<uint, 4> piece;
typedef pack<float, 2> unit;
extern __shared__ piece held[];
threadgroup piece* const copied = held + VECTORS * VECTOR;
threadgroup unit* const sums = (threadgroup unit*)(copied + 4 * SCALE_PIECES);  // of x by scale, and what its numbers count
threadgroup float* const partial = (threadgroup float*)(sums + STEPS_HERE * SLOTS * LINE);
threadgroup float squares[NORMED ? BRINGERS * VECTORS : 1];
const uint lane = thread_index_in_simdgroup, g = lane / 4, t = lane % 4;
const uint sharer = SHARERS > 1 ? place_in_cluster() : 0u, first_split = sharer * HERE;
const uint member = simdgroup_index_in_threadgroup, within = member % HERE, split = first_split + within, team = member / HERE;
const uint groups = threadgroups_per_grid.x / SHARERS, group = threadgroup_position_in_grid.x / SHARERS;
const uint all_tiles = columns / OUTPUTS, each = all_tiles / groups, more = all_tiles % groups;
const uint first_tile = group * each + min(group, more), end_tile = first_tile + each + (group < more ? 1u : 0u);
const auto row_of = [&](uint tile, uint local) {
  return GATED ? tile * 4 + local % 4 + (local >= 4 ? columns : 0u) : tile * 8 + local;
};
begin_next();

#if HIPRT_TARGET_NVIDIA
threadgroup ulong full[2];
const uint arrived = in_shared(full), buffers = in_shared(copied);
const auto bring = [&](uint round) {
  const uint begin = first_tile + round * ROUND, end = min(begin + ROUND, end_tile), bar = arrived + round % 2 * 8;
  if (begin >= end) return;
  const uint bytes = (end - begin) * (OUTPUTS * SCALED * 2);
  expect_bytes(bar, 2 * PARTS * bytes);
  for (uint part = 0; part < PARTS; part++) {
    const uint to = buffers + (round % 2 * 2 * SCALE_PIECES + part * (SCALE_PIECES / PARTS)) * 16;
    const size_t from = size_t(row_of(begin, part * 4)) * SCALED;
    copy_bulk(to, scales + from, bytes, bar);
    copy_bulk(to + SCALE_PIECES * 16, biases + from, bytes, bar);
  }
};
if (thread_index_in_threadgroup == 0) {
  begin_stage(arrived, 1);
  begin_stage(arrived + 8, 1);
  stages_begun();
  bring(0);
  bring(1);
}
#endif

piece low[DEPTH][2], high[DEPTH][2];  // of two tiles
const auto fetch = [&](uint at, uint tile, uint own) {
  const device uint* const codes = weight + split * 32 + own * (SPLIT * 32);
#pragma unroll
  for (uint i = 0; i < 2; i++) {
    if (tile + i < end_tile) {
      low[at][i] = load_once(codes + size_t(row_of(tile + i, g / 2)) * (STEPS * 32) + lane % 8 * 4);
      high[at][i] = load_once(codes + size_t(row_of(tile + i, 4 + g / 2)) * (STEPS * 32) + (lane % 8 ^ 4) * 4);
    }
  }
};
const auto fetch_first = [&](uint at) {
  const uint tile = first_tile + (team + at / LENGTH * TEAMS) * 2, own = at % LENGTH;
  if (team < uint(TEAMS) && tile < end_tile && own * SPLIT + split < STEPS) fetch(at, tile, own);
};
#pragma unroll
for (uint d = 0; d < uint(DEPTH); d++) {
  low[d][0] = low[d][1] = high[d][0] = high[d][1] = {{0, 0, 0, 0}};
  if (d < uint(EARLY)) fetch_first(d);
}
for (uint i = thread_index_in_threadgroup; !WIDE && i < VECTORS * HELD; i += THREADS) {
  held[i / HELD * VECTOR + i % HELD] = {{0, 0, 0, 0}};
}
wait_for_inputs();

// Bring x to where lanes find it. A simdgroup does for all vectors what members of the other kernel do for one.
const auto bytes_of = [](uint half, uint a, uint b) {  // the lower or the upper bytes of four numbers of 16 bits
#if HIPRT_TARGET_NVIDIA
  return __byte_perm(a, b, half ? 0x7531u : 0x6420u);
#else
  a >>= 8 * half, b >>= 8 * half;
  return (a & 255u) | (a >> 16 & 255u) << 8 | (b & 255u) << 16 | (b >> 16 & 255u) << 24;
#endif
};
bool is_begun = false;
const auto fetch_others = [&]() {
  if (is_begun) return;
#pragma unroll
  for (uint d = EARLY; d < uint(DEPTH); d++) fetch_first(d);
  is_begun = true;
};
#pragma unroll 1
for (uint task = member; task < BRINGERS * BUNDLES; task += MEMBERS) {
  const uint bringer = task % BRINGERS, first_vector = task / BRINGERS * BUNDLE;
  float square[BUNDLE] = {};
#pragma unroll 1
  for (uint own = bringer / HERE; own < OWN; own += BRINGERS / HERE) {
    const uint step = own * SPLIT + first_split + bringer % HERE, here = own * HERE + bringer % HERE;
    const bool is_there = lane < PACKS && step < STEPS;
    piece values[BUNDLE], by = {{0, 0, 0, 0}};
#pragma unroll
    for (uint i = 0; i < BUNDLE; i++) {
      const uint v = first_vector + i;
      values[i] = {{0, 0, 0, 0}};
      const device T* const from = x + size_t(v) * WIDTH + step * STEP + lane * 8;
      if (is_there && v < uint(VECTORS)) values[i] = load_now((const device piece*)from);
    }
    if (NORMED && is_there) by = load_now((const device piece*)(norm + step * STEP + lane * 8));
    fetch_others();
#pragma unroll
    for (uint begin = 0; begin < BUNDLE; begin += ABREAST) {
      float numbers[ABREAST][8], largest[ABREAST] = {}, sum[ABREAST] = {};
#pragma unroll
      for (uint i = 0; i < ABREAST && begin + i < BUNDLE; i++) {
        for (int j = 0; j < 8; j++) {
          const uint both = values[begin + i].values[j / 2], weigh = by.values[j / 2];
          float number = j % 2 ? high_of<T>(both) : low_of<T>(both);
          if (NORMED) {
            square[begin + i] = mad(number, number, square[begin + i]);
            number *= j % 2 ? high_of<T>(weigh) : low_of<T>(weigh);
          }
          largest[i] = max(largest[i], abs(number));
          sum[i] += number;
          numbers[i][j] = number;
        }
      }
#pragma unroll
      for (uint other = 1; other < SLOT / 8; other *= 2) {
#pragma unroll
        for (uint i = 0; i < ABREAST && begin + i < BUNDLE; i++) {
          largest[i] = max(largest[i], simd_shuffle_xor(largest[i], other));
          sum[i] += simd_shuffle_xor(sum[i], other);
        }
      }
#pragma unroll
      for (uint i = 0; i < ABREAST && begin + i < BUNDLE; i++) {
        const uint v = first_vector + begin + i;
        const uint exponent = min(max(as_type<uint>(largest[i] * 1.008f) >> 23, 20u), 240u);
        const float up = as_type<float>((268u - exponent) << 23);
        // Added to 2^23 times 1.5, a number is rounded to a whole one in the lower 16 bits; 2^15 more keep it positive, and
        // 2^7 round its upper byte.
        uint pairs[4], both[2][2];
        for (int j = 0; j < 4; j++) {
          const uint from = FIELDS == 2 ? j % 2 * 4 + j / 2 : 2 * j, apart = FIELDS == 2 ? 2 : 1;
          pairs[j] = low_pair(as_type<uint>(mad(numbers[i][from], up, 12615808.0f)),
                              as_type<uint>(mad(numbers[i][from + apart], up, 12615808.0f)));
        }
        for (uint field = 0; field < 2; field++) {
          for (uint p = 0; p < 2; p++) {
            both[p][field] = bytes_of(1 - p, pairs[2 * field], pairs[2 * field + 1]) ^ 0x80808080u;
          }
        }
        if (is_there && v < uint(VECTORS)) {
          if (lane % (SLOT / 8) == 0) {
            sums[(here * SLOTS + lane / (SLOT / 8)) * LINE + v] = {
                {sum[i], as_type<float>((exponent - 14u - (FIELDS == 2 ? 4u : 0u)) << 23)}};
          }
          const uint word = lane * (BITS / 4), pair = word % 4 * FIELDS / 2;
          threadgroup piece* const to = held + v * VECTOR + ZEROS + here * HELD +
                                        (WIDE ? word / 8 * 8 + word % 4 / 2 * 2 + word / 4 % 2
                                              : pair / 2 * 16 + word / 16 * 8 + word / 4 % 4 * 2);
          for (uint p = 0; p < 2; p++) {
            threadgroup uint* const plane = (threadgroup uint*)(to + p * (WIDE ? 4 : 1));
            *(threadgroup pack<uint, 2>*)(plane + pair % 2 * 2) = {{both[p][0], both[p][1]}};
          }
        }
      }
    }
  }
#pragma unroll
  for (uint i = 0; NORMED && i < BUNDLE; i++) {
    const float all = simd_sum(square[i]);
    if (lane == 0 && first_vector + i < uint(VECTORS)) squares[(first_vector + i) * BRINGERS + bringer] = all;
  }
}
fetch_others();
threadgroup_barrier(mem_flags::mem_threadgroup);

// This lane's column of x has the numbers of one vector that belong to one scale: elsewhere the lane finds zeros.
const bool is_mine = g / 2 % HALF == t * HALF / 4;
const threadgroup piece* const column_from =
    held + min(g / 2 / HALF, OTHERS - 1) * VECTOR + t * 2 + g % 2 + (is_mine ? ZEROS + within * HELD : 0u);
const uint column_stride = is_mine ? HERE * HELD : 0u;
// Of the lane's two columns of a result, which are one vector's and one scale's.
const uint beside = min(t / HALF, OTHERS - 1);
const threadgroup unit* const sums_from = sums + (within * SLOTS + t % HALF) * LINE + beside;
const auto first_of = [](uint set) { return min(set * SIDE, VECTORS - OTHERS); };  // the last set overlaps the one before
// Wide: where the lane finds vector g, its words of a scale and the sums of vectors 2t and 2t + 1.
const threadgroup piece* const wide_from = held + min(g, uint(VECTORS - 1)) * VECTOR + within * HELD + t / 2 * 2 + t % 2;
const threadgroup unit* const wide_sums = sums + within * (SLOTS * LINE) + 2 * t;
// The rows of the first and of the second chunk: lanes of even and of odd g have loaded them the other way round.
const bool is_odd = g % 2;
const uint locals[2] = {g / 2 + (is_odd ? 4u : 0u), g / 2 + (is_odd ? 0u : 4u)};
uint round = 0;
for (uint base = first_tile; base < end_tile; base += ROUND, round++) {
  const uint stop = min(base + ROUND, end_tile), turn = round % 2;  // sums lie in turn, so that one barrier is enough
  const uint outputs = (stop - base) * OUTPUTS;
  constexpr uint EACH = (ROUND * OUTPUTS * VECTORS + SHARERS * THREADS - 1) / (SHARERS * THREADS);  // results of a thread
  constexpr bool IS_AHEAD = ADDED && EACH <= 2;
  uint addends[2] = {};
#pragma unroll
  for (uint e = 0; IS_AHEAD && e < EACH; e++) {
    const uint i = thread_index_in_threadgroup + (e * SHARERS + sharer) * THREADS;
    if (i < outputs * VECTORS) {
      addends[e] = load_now((const device ushort*)residual + size_t(i / outputs) * columns + base * OUTPUTS + i % outputs);
    }
  }
#if HIPRT_TARGET_NVIDIA
  const threadgroup T* scale_from[2];
#pragma unroll
  for (uint chunk = 0; chunk < 2; chunk++) {
    const uint row = GATED ? locals[chunk] % 4 + locals[chunk] / 4 * (ROUND * 4) : locals[chunk];
    const uint scale_at = split * SCALES + (SPREAD > 1 ? 0u : chunk * HALF + t % HALF);
    scale_from[chunk] = (const threadgroup T*)(copied + turn * 2 * SCALE_PIECES) + row * SCALED + scale_at;
  }
  wait_for_stage(arrived + turn * 8, round / 2 % 2);
#endif
  // The two scales of a chunk of a tile's row, as a word, and the two biases.
  const auto scales_of = [&](uint chunk, uint tile, uint own) {
#if HIPRT_TARGET_NVIDIA
    const threadgroup T* const from =
        scale_from[chunk] - t % HALF + (tile - base) * (OUTPUTS * SCALED) + own * (SPLIT * SCALES);
    return pack<uint, 2>{{*(const threadgroup uint*)from, *(const threadgroup uint*)(from + SCALE_PIECES * 16 / sizeof(T))}};
#else
    const size_t from = size_t(row_of(min(tile, end_tile - 1), locals[chunk])) * SCALED +
                        (own * SPLIT + split) * SCALES + chunk * HALF;
    return pack<uint, 2>{{*(const device uint*)(scales + from), *(const device uint*)(biases + from)}};
#endif
  };
#pragma unroll 1
  for (uint start = team < uint(TEAMS) ? base + team * 2 : stop; start < stop; start += TURNS * TEAMS * 2) {
#pragma unroll
    for (uint u = 0; u < TURNS; u++) {
      const uint tile = start + u * (TEAMS * 2), after = tile + TURNS * TEAMS * 2;
      if (tile < stop) {
        float totals[2][2][RESULTS] = {};  // by chunk and tile, and wide by scale and vector
#pragma unroll 1
        for (uint first = 0; first < OWN; first += LENGTH) {
#pragma unroll
          for (uint d = 0; d < LENGTH; d++) {
            const uint own = first + d, at = u * LENGTH + d, step = own * SPLIT + split;
            const bool is_there = OWN * SPLIT == STEPS || step < STEPS;
            piece chunks[2][2];  // by chunk and tile
#pragma unroll
            for (uint i = 0; i < 2; i++) {
#pragma unroll
              for (uint w = 0; w < 4; w++) {
                chunks[0][i].values[w] = is_odd ? high[at][i].values[w] : low[at][i].values[w];
                chunks[1][i].values[w] = is_odd ? low[at][i].values[w] : high[at][i].values[w];
              }
            }
            if (own + LENGTH < OWN) {
              if (OWN * SPLIT == STEPS || (own + LENGTH) * SPLIT + split < STEPS) fetch(at, tile, own + LENGTH);
            } else if (after < end_tile && (OWN * SPLIT == STEPS || d * SPLIT + split < STEPS)) {
              fetch(at, after, d);
            }
            if (is_there && WIDE) {
#pragma unroll
              for (uint chunk = 0; chunk < 2; chunk++) {
                uint words[2][2][2];  // of one scale, by tile
                pack<uint, 2> scaled[2];
#pragma unroll
                for (uint i = 0; i < 2; i++) {
                  const uint* const all = chunks[chunk][i].values;
#pragma unroll
                  for (uint w = 0; w < 2; w++) {
                    const uint other = simd_shuffle_xor(t < 2 ? all[2 + w] : all[w], 2);
                    words[0][i][w] = t < 2 ? all[w] : other;
                    words[1][i][w] = t < 2 ? other : all[2 + w];
                  }
                  scaled[i] = scales_of(chunk, tile + i, own);
                }
#pragma unroll
                for (uint slot = 0; slot < 2; slot++) {
                  constexpr uint LOW = 0x0f0f0f0fu;
                  const uint* const l = words[slot][0];
                  const uint* const m = words[slot][1];
                  int c[2][4] = {};  // by bytes of x
#pragma unroll
                  for (uint p = 0; p < 2; p++) {
                    const piece b = wide_from[own * (HERE * HELD) + chunk * 16 + slot * 8 + p * 4];
                    mma_codes(c[p], l[0] & LOW, m[0] & LOW, l[1] & LOW, m[1] & LOW, b.values[0], b.values[2]);
                    mma_codes(c[p], l[0] >> 4 & LOW, m[0] >> 4 & LOW, l[1] >> 4 & LOW, m[1] >> 4 & LOW, b.values[1],
                              b.values[3]);
                  }
                  const pack<unit, 2> both =
                      *(const threadgroup pack<unit, 2>*)(wide_sums + (own * (HERE * SLOTS) + chunk * 2 + slot) * LINE);
#pragma unroll
                  for (uint i = 0; i < 2; i++) {
                    const uint by_both = scaled[i].values[0], plus_both = scaled[i].values[1];
                    const float by = slot ? high_of<T>(by_both) : low_of<T>(by_both);
                    const float plus = slot ? high_of<T>(plus_both) : low_of<T>(plus_both);
#pragma unroll
                    for (uint e = 0; e < 2; e++) {
                      const uint at = 2 * i + e;
                      const int dot = (c[0][at] * 256 + c[1][at]) * 16;
                      float& total = totals[chunk][i][2 * slot + e];
                      total = mad(by * both.values[e].values[1], float(dot), total);
                      total = mad(plus, both.values[e].values[0], total);
                    }
                  }
                }
              }
            }
            if (is_there && !WIDE) {
#pragma unroll
              for (uint chunk = 0; chunk < 2; chunk++) {
                const uint* const l = chunks[chunk][0].values;
                const uint* const m = chunks[chunk][1].values;
                float by[2], plus[2];
#pragma unroll
                for (uint i = 0; i < 2; i++) {
#if HIPRT_TARGET_NVIDIA
                  const threadgroup T* const from =
                      scale_from[chunk] + (tile + i - base) * (OUTPUTS * SCALED) + own * (SPLIT * SCALES);
                  by[i] = float(from[0]);
                  plus[i] = float(from[SCALE_PIECES * 16 / sizeof(T)]);
#else
                  const size_t from = size_t(row_of(min(tile + i, end_tile - 1), locals[chunk])) * SCALED +
                                      step * SCALES + (SPREAD > 1 ? 0u : chunk * HALF + t % HALF);
                  by[i] = float(scales[from]);
                  plus[i] = float(biases[from]);
#endif
                }
#pragma unroll
                for (uint set = 0; set < SETS; set++) {
                  int c[FIELDS][4] = {};
#pragma unroll
                  for (uint h = 0; h < FIELDS; h++) {
                    const piece b = (column_from + own * column_stride)[first_of(set) * VECTOR + h * 16 + chunk * 8];
                    if (FIELDS == 2) {
                      constexpr uint LOW = 0x0f0f0f0fu, HIGH = 0xf0f0f0f0u;
                      const uint w = 2 * h % 4;
                      mma_codes(c[0], l[w] & LOW, m[w] & LOW, l[w + 1] & LOW, m[w + 1] & LOW, b.values[0], b.values[2]);
                      mma_codes(c[FIELDS - 1], l[w] & HIGH, m[w] & HIGH, l[w + 1] & HIGH, m[w + 1] & HIGH, b.values[1],
                                b.values[3]);
                    } else {
                      mma_codes(c[0], l[0], m[0], l[1], m[1], b.values[0], b.values[1]);
                      mma_codes(c[0], l[2], m[2], l[3], m[3], b.values[2], b.values[3]);
                    }
                  }
                  const unit both = (sums_from + own * (HERE * SLOTS * LINE))[chunk * (HALF * LINE) + first_of(set)];
#pragma unroll
                  for (uint i = 0; i < 2; i++) {
                    int dot = c[0][2 * i] * 256 + c[0][2 * i + 1];
                    if (FIELDS == 2) dot = dot * 16 + c[FIELDS - 1][2 * i] * 256 + c[FIELDS - 1][2 * i + 1];
                    totals[chunk][i][set] = mad(by[i] * both.values[1], float(dot), totals[chunk][i][set]);
                    totals[chunk][i][set] = mad(plus[i], both.values[0], totals[chunk][i][set]);
                  }
                }
              }
            }
          }
        }
#pragma unroll
        for (uint i = 0; WIDE && i < 2; i++) {
#pragma unroll
          for (uint e = 0; e < 2; e++) {
            float whole[2] = {totals[0][i][e] + totals[0][i][2 + e], totals[1][i][e] + totals[1][i][2 + e]};
            whole[0] += simd_shuffle_xor(whole[1], 4);
            if (2 * t + e < uint(VECTORS) && tile + i < stop) {
              partial[(((turn * ROUND + tile + i - base) * HERE + within) * VECTORS + 2 * t + e) * 8 + locals[0]] = whole[0];
            }
          }
        }
#pragma unroll
        for (uint set = 0; !WIDE && set < SETS; set++) {
#pragma unroll
          for (uint i = 0; i < 2; i++) {
            float whole[2] = {totals[0][i][set], totals[1][i][set]};
            for (uint chunk = 0; HALF > 1 && chunk < 2; chunk++) whole[chunk] += simd_shuffle_xor(whole[chunk], 1);
            whole[0] += simd_shuffle_xor(whole[1], 4);
            const uint v = first_of(set) + beside;
            if (t % HALF == 0 && t / HALF < OTHERS && v >= set * SIDE && tile + i < stop) {
              partial[(((turn * ROUND + tile + i - base) * HERE + within) * VECTORS + v) * 8 + locals[0]] = whole[0];
            }
          }
        }
      }
    }
  }
  if (SHARERS > 1) {
    cluster_barrier();
  } else {
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
#if HIPRT_TARGET_NVIDIA
  if (thread_index_in_threadgroup == 0) bring(round + 2);
#endif
#pragma unroll(IS_AHEAD ? EACH : 1)
  for (uint e = 0; e < EACH; e++) {
    const uint i = thread_index_in_threadgroup + (e * SHARERS + sharer) * THREADS;
    if (i >= outputs * VECTORS) break;
    const uint v = i / outputs, output = i % outputs, column = base * OUTPUTS + output;
    const size_t to = size_t(v) * columns + column;
    const threadgroup float* const from =
        partial + ((turn * ROUND + output / OUTPUTS) * HERE * VECTORS + v) * 8 + output % OUTPUTS;
    const auto from_sharer = [&](const threadgroup float* at, uint s) {  // of a simdgroup's share
      return SHARERS > 1 ? load_of_cluster(at, s / HERE) : *at;
    };
    float value = 0.0f, other = 0.0f, squared = 0.0f;
#pragma unroll
    for (uint s = 0; s < SPLIT && s < STEPS; s++) {
      value += from_sharer(from + s % HERE * (VECTORS * 8), s);
      if (GATED) other += from_sharer(from + s % HERE * (VECTORS * 8) + 4, s);
    }
    for (uint m = 0; NORMED && m < MEMBERS_ALONE; m++) {
      squared += from_sharer(squares + v * BRINGERS + m / SPLIT * HERE + m % HERE, m % SPLIT);
    }
    const float factor = NORMED ? rsqrt(squared / float(WIDTH) + eps) : 1.0f;
    value *= factor;
    if (GATED) value = value / (1.0f + exp(-value)) * (other * factor);
    out[to] = S(ADDED ? value + (IS_AHEAD ? low_of<T>(addends[e]) : float(residual[to])) : value);
  }
}
if (SHARERS > 1) cluster_barrier();  // the memory is there until all have read it
