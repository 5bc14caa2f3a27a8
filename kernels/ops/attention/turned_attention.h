// Attention of many rows by AMD's matrix instructions, for numbers of 16 bits. Both products are computed turned over:
// keys by queries, then values by shares. So all scores of a lane belong to query lane % 16, and its shares are already
// its part of a factor of the second product: only keys and values go through threadgroup memory.
#if defined(HIPRT_TILE_FACTORS)
namespace metal {

template <typename T, int WIDTH, int ROWS>
struct turned_attention {
  typedef typename tile_factor<T>::type Factor;
  enum : int {
    KEYS = 32,                  // of a tile
    QUERIES = TILE_WAVE / 2,    // of a wave
    BESIDE = QUERIES / 16,      // blocks of queries, which share what is read of keys and values
    THREADS = ROWS / QUERIES * TILE_WAVE,
    STEPS = (WIDTH + TILE_DEPTH - 1) / TILE_DEPTH,
    BLOCKS = (WIDTH + 15) / 16,
    LINE = tile_line<T, STEPS * TILE_DEPTH>(),
    TURNED_LINE = tile_line<T, KEYS>(),
    // Queries stay in registers beside the sums where those suffice; else they are read again for each tile.
    HELD = BESIDE * (STEPS * TILE_RUN / 2 + BLOCKS * TILE_SUMS) <= 160,
  };
  static_assert(ROWS % QUERIES == 0 && KEYS % TILE_DEPTH == 0, "a wave takes whole blocks");
  // The sums are kept relative to a score that no later one exceeds by a factor of more than 2 ** SLACK.
  static constexpr float SLACK = 8.0f;

  // Eight neighbours of a row. Behind its end anything finite serves beside a query's zeros.
  static HIPRT_INLINE pack<T, 8> run_of(const T* rows, int row, int at) {
    const int inside = WIDTH % TILE_DEPTH == 0 ? at : min(at, WIDTH - 8);
    if (WIDTH % 8 == 0) return *(const pack<T, 8>*)(rows + uint(row * WIDTH + inside));
    pack<T, 8> run;
    for (int j = 0; j < 8; j++) run.values[j] = rows[uint(row * WIDTH + min(at + j, WIDTH - 1))];
    return run;
  }
  // A query's factor; `flipped` has the bits of sign to turn over.
  static HIPRT_INLINE Factor query_factor(const T* row, int step, uint lane, uint flipped) {
    pack<uint, TILE_RUN / 2> words;
#pragma unroll
    for (int i = 0; i < TILE_RUN / 8; i++) {
      const int at = step * TILE_DEPTH + factor_start(lane) + i * 8;
      const pack<uint, 4> run = as_type<pack<uint, 4>>(run_of(row, 0, at));
#pragma unroll
      for (int j = 0; j < 4; j++) {
        uint word = run.values[j] ^ flipped;
        if (WIDTH % TILE_DEPTH != 0 && at + 2 * j + 1 >= WIDTH) word = at + 2 * j < WIDTH ? word & 0xffffu : 0;
        words.values[i * 4 + j] = word;
      }
    }
    return as_type<Factor>(words);
  }

  // The key that a line of the tile holds. A lane's sums of one or two blocks thereby follow each other as the elements of
  // its factor do.
  static HIPRT_INLINE int key_of(int line) {
    return TILE_SUMS < TILE_RUN && TILE_RUN < TILE_DEPTH ? line % 16 / 4 * 8 + line / 16 * 4 + line % 4 : line;
  }
  // What lies behind the last position is not read: the tiles have the last one again.
  static HIPRT_INLINE void load_keys(T* tile, const T* rows, int last, uint index) {
    constexpr int RUNS = STEPS * TILE_DEPTH / 8, DOWN = THREADS / RUNS;
#pragma unroll 4
    for (int n = 0; n < (KEYS * RUNS + THREADS - 1) / THREADS; n++) {
      const int i = int(index) + n * THREADS;
      if (KEYS * RUNS % THREADS != 0 && i >= KEYS * RUNS) break;
      // Where a row has a divisor of the threads, each of them stays in its column.
      const int line = THREADS % RUNS == 0 ? int(index / RUNS) + n * DOWN : i / RUNS;
      const int at = THREADS % RUNS == 0 ? int(index % RUNS) * 8 : i % RUNS * 8;
      *(pack<T, 8>*)(tile + line * LINE + at) = run_of(rows, min(key_of(line), last), at);
    }
  }
  // Four positions of a value are neighbours in the tile. gfx12's global_load_tr would turn them on their way, and save 16 permutes
  // and 4 stores of the 428 instructions of an iteration (heads of 128), but the emulator cannot show that it is right.
  static HIPRT_INLINE void load_values(T* tile, const T* rows, int last, uint index) {
    constexpr int BESIDE_KEYS = KEYS / 4;
    const int key = int(index % BESIDE_KEYS) * 4;
#pragma unroll 1
    for (int n = 0; n < (BESIDE_KEYS * BLOCKS * 2 + THREADS - 1) / THREADS; n++) {
      const int at = (int(index / BESIDE_KEYS) + n * (THREADS / BESIDE_KEYS)) * 8;
      if (BESIDE_KEYS * BLOCKS * 2 % THREADS != 0 && at >= BLOCKS * 16) break;
      pack<uint, 4> runs[4];
#pragma unroll
      for (int j = 0; j < 4; j++) runs[j] = as_type<pack<uint, 4>>(run_of(rows, min(key + j, last), at));
#pragma unroll
      for (int e = 0; e < 8; e++) {
        const uint chosen = e % 2 == 0 ? 0x05040100u : 0x07060302u;  // this half of both words
        pack<uint, 2> turned;
#pragma unroll
        for (int j = 0; j < 2; j++) {
          turned.values[j] = __builtin_amdgcn_perm(runs[2 * j + 1].values[e / 2], runs[2 * j].values[e / 2], chosen);
        }
        *(pack<uint, 2>*)(tile + (at + e) * TURNED_LINE + key) = turned;
      }
    }
  }

  // The lanes of a query are 16 apart.
  template <typename F>
  static HIPRT_INLINE float among_query(float value, F joined) {
    value = joined(value, word_across<16>(value));
#if defined(__GFX9__)
    value = joined(value, as_type<float>(__builtin_amdgcn_ds_bpermute(int(hardware_lane() ^ 32u) << 2, as_type<int>(value))));
#endif
    return value;
  }

#if defined(__GFX11__)
  // A block's column, rounded: one half of the wave has its even elements, the other those between.
  static HIPRT_INLINE pack<uint, 8> whole_column(const TileSums& block, uint lane) {
    pack<uint, 8> words;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const uint own = pair_of(block[2 * i], block[2 * i + 1], T()), other = word_across<16>(own);
      const uint even = lane < 16 ? own : other, odd = lane < 16 ? other : own;
      words.values[2 * i] = __builtin_amdgcn_perm(odd, even, 0x05040100u);
      words.values[2 * i + 1] = __builtin_amdgcn_perm(odd, even, 0x07060302u);
    }
    return words;
  }
#endif
  // A lane's part of a block's column, rounded: neighbours from element lane / 16 * TILE_SUMS on.
  static HIPRT_INLINE pack<uint, TILE_SUMS / 2> column_part(const TileSums& block, uint lane) {
    pack<uint, TILE_SUMS / 2> words;
#if defined(__GFX11__)
    const pack<uint, 8> whole = whole_column(block, lane);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const uint upper = whole.values[i], lower = whole.values[4 + i];
      words.values[i] = lane < 16 ? upper : lower;
    }
#else
#pragma unroll
    for (int i = 0; i < TILE_SUMS / 2; i++) words.values[i] = pair_of(block[2 * i], block[2 * i + 1], T());
#endif
    return words;
  }

  // Shares of step `step`, rounded, as a factor.
  static HIPRT_INLINE Factor share_factor(const TileSums* shares, int step, uint lane) {
#if defined(__GFX11__)
    return as_type<Factor>(whole_column(shares[step], lane));
#else
    pack<pack<uint, TILE_SUMS / 2>, TILE_RUN / TILE_SUMS> parts;
#pragma unroll
    for (int i = 0; i < TILE_RUN / TILE_SUMS; i++) parts.values[i] = column_part(shares[step * (TILE_RUN / TILE_SUMS) + i], lane);
    return as_type<Factor>(parts);
#endif
  }

  static void run(const T* queries, size_t row_stride, const T* key_rows, const T* value_rows, const int* position, int present,
                  int last, float scale, bool is_gated, const T* gates, uint gate_stride, T* results, uint index) {
    __shared__ pack<T, 8> key_runs[KEYS * LINE / 8];
    __shared__ pack<T, 8> value_runs[BLOCKS * 16 * TURNED_LINE / 8];
    T* key_tile = (T*)key_runs;
    T* value_tile = (T*)value_runs;
    const uint lane = index % TILE_WAVE;
    // The factor is positive, so that the largest product gives the largest score.
    const uint flipped = scale < 0.0f ? 0x80008000u : 0u;
    const float factor = __builtin_fmaxf(__builtin_fabsf(scale) * 1.44269504f, 1.2e-38f);
    int row[BESIDE], limit[BESIDE];
    float top[BESIDE];
    TileSums norm[BESIDE];
    Factor held[HELD ? BESIDE * STEPS : 1];
    TileSums sums[BESIDE][BLOCKS];
#pragma unroll
    for (int c = 0; c < BESIDE; c++) {
      row[c] = int(index / TILE_WAVE * QUERIES + c * 16 + lane % 16);
      limit[c] = row[c] < present ? min(position[row[c]], last) : -1;
      top[c] = -INFINITY;
      norm[c] = TileSums(0.0f);
#pragma unroll
      for (int d = 0; d < BLOCKS; d++) sums[c][d] = TileSums(0.0f);
#pragma unroll
      for (int step = 0; step < (HELD ? STEPS : 0); step++) {
        held[c * STEPS + step] = query_factor(queries + min(row[c], present - 1) * row_stride, step, lane, flipped);
      }
    }
    for (int start = 0; start <= last; start += KEYS) {
      threadgroup_barrier(mem_flags::mem_threadgroup);
      load_keys(key_tile, key_rows + size_t(start) * WIDTH, last - start, index);
      load_values(value_tile, value_rows + size_t(start) * WIDTH, last - start, index);
      threadgroup_barrier(mem_flags::mem_threadgroup);
      TileSums scores[BESIDE][KEYS / 16];
#pragma unroll
      for (int c = 0; c < BESIDE; c++) {
#pragma unroll
        for (int b = 0; b < KEYS / 16; b++) scores[c][b] = TileSums(0.0f);
      }
#pragma unroll(HELD ? int(STEPS) : 1)
      for (int step = 0; step < STEPS; step++) {
        Factor query[BESIDE];
#pragma unroll
        for (int c = 0; c < BESIDE; c++) {
          query[c] = HELD ? held[HELD ? c * STEPS + step : 0]
                          : query_factor(queries + min(row[c], present - 1) * row_stride, step, lane, flipped);
        }
#pragma unroll
        for (int b = 0; b < KEYS / 16; b++) {
          const Factor key = factor_at(key_tile + (b * 16 + int(lane % 16)) * LINE + step * TILE_DEPTH + factor_start(lane));
#pragma unroll
          for (int c = 0; c < BESIDE; c++) scores[c][b] = factor_product(key, query[c], scores[c][b]);
        }
      }
#pragma unroll
      for (int c = 0; c < BESIDE; c++) {
        // Most tiles lie before every position of the wave.
        const bool is_masked = __builtin_amdgcn_ballot_w64(start + KEYS - 1 > limit[c]) != 0;
        float higher = -INFINITY;
#pragma unroll
        for (int b = 0; b < KEYS / 16; b++) {
          if (is_masked) {
            asm volatile("");  // else there are no branches, and all tiles are masked
#pragma unroll
            for (int i = 0; i < TILE_SUMS; i++) {
              if (start + key_of(b * 16 + int(sum_row(i, lane))) > limit[c]) scores[c][b][i] = -INFINITY;
            }
          }
#pragma unroll
          for (int i = 0; i < TILE_SUMS; i++) higher = __builtin_fmaxf(higher, scores[c][b][i]);
        }
        higher = factor * among_query(higher, [](float a, float b) { return __builtin_fmaxf(a, b); });
        const bool grows = higher > top[c] + SLACK;
        if (__builtin_amdgcn_ballot_w64(grows) != 0) {
          const float fade = grows ? power_of_two(top[c] - higher) : 1.0f;
          top[c] = grows ? higher : top[c];
          norm[c] *= fade;
#pragma unroll
          for (int d = 0; d < BLOCKS; d++) sums[c][d] *= fade;
        }
        // A row that sees nothing has no score to be relative to.
        const float base = top[c] > -INFINITY ? top[c] : 0.0f;
#pragma unroll
        for (int b = 0; b < KEYS / 16; b++) {
#pragma unroll
          for (int i = 0; i < TILE_SUMS; i++) {
            scores[c][b][i] = power_of_two(__builtin_fmaf(scores[c][b][i], factor, -base));
          }
          norm[c] += scores[c][b];
        }
      }
#pragma unroll
      for (int step = 0; step < KEYS / TILE_DEPTH; step++) {
        Factor shares[BESIDE];
#pragma unroll
        for (int c = 0; c < BESIDE; c++) shares[c] = share_factor(scores[c], step, lane);
#pragma unroll
        for (int d = 0; d < BLOCKS; d++) {
          const Factor value =
              factor_at(value_tile + (d * 16 + int(lane % 16)) * TURNED_LINE + step * TILE_DEPTH + factor_start(lane));
#pragma unroll
          for (int c = 0; c < BESIDE; c++) sums[c][d] = factor_product(value, shares[c], sums[c][d]);
        }
      }
    }
#pragma unroll
    for (int c = 0; c < BESIDE; c++) {
      float total = 0.0f;
#pragma unroll
      for (int i = 0; i < TILE_SUMS; i++) total += norm[c][i];
      total = among_query(total, [](float a, float b) { return a + b; });
      const float inverse = total > 0.0f ? 1.0f / total : 0.0f;
      const bool exists = row[c] < present;
      const T* gate = gates + size_t(exists ? row[c] : 0) * gate_stride;
      T* result = results + (exists ? row[c] : 0) * row_stride;
#pragma unroll
      for (int d = 0; d < BLOCKS; d++) {
        sums[c][d] *= inverse;
        if (is_gated) {
#pragma unroll
          for (int i = 0; i < TILE_SUMS; i++) {
            const int n = d * 16 + int(sum_row(i, lane));
            const float given = float(gate[WIDTH % 16 == 0 ? n : min(n, WIDTH - 1)]);
            sums[c][d][i] *= __builtin_amdgcn_rcpf(1.0f + power_of_two(-1.44269504f * given));
          }
        }
        const pack<uint, TILE_SUMS / 2> words = column_part(sums[c][d], lane);
        const int n = d * 16 + int(lane / 16) * TILE_SUMS;
        if (WIDTH % 8 == 0) {
          if (exists && n < WIDTH) *(pack<uint, TILE_SUMS / 2>*)(result + n) = words;
        } else {
          const pack<T, TILE_SUMS> each = as_type<pack<T, TILE_SUMS>>(words);
          for (int i = 0; i < TILE_SUMS; i++) {
            if (exists && n + i < WIDTH) result[n + i] = each.values[i];
          }
        }
      }
    }
  }
};
// Numbers of 32 bits have no matrix instructions.
template <int WIDTH, int ROWS>
struct turned_attention<float, WIDTH, ROWS> {
  template <typename... GIVEN>
  static void run(GIVEN...) {}
};

}  // namespace metal
#endif
