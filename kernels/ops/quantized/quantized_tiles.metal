// out[m][n] = sum over k of x[m][k] * (code[n][k] * scale + bias), for many rows: a threadgroup takes ROWS of them and
// COLUMNS columns, and unpacks the weights of its columns once for all of its rows. Neighbouring rows that are
// multiplied with the same matrix of the stack are one run, and each run reads its matrix once; order, where it is given,
// says which rows are neighbours. Where there is one matrix and the kernel is SHARED, so many threadgroups along z as there
// are shares have the width of a tile: each leaves its sums in `parts`, and the last one adds them up in their order.
#if !defined(HIPRT_SHARED_TILES)
constexpr bool SHARED = false;
constexpr uint shares = 1;
device uint* const arrived = nullptr;
device float* const parts = nullptr;
#endif
constexpr uint COLUMNS = 64;
const uint words = width / 32 * BITS;
const uint groups = width / span;
const uint first = threadgroup_position_in_grid.x * ROWS;
const uint first_column = threadgroup_position_in_grid.y * COLUMNS;
#if HIPRT_CPU_LOOPS
constexpr uint PART = 256;  // of the width, so that the rows of x stay close
constexpr uint BESIDE = 4;  // columns unpacked together
const uint present = min(uint(ROWS), count - first);
float staged[ROWS * PART];
float values[BESIDE * PART];
float sums[ROWS * COLUMNS];
uint lefts[ROWS], rights[ROWS], items[ROWS];
#else
constexpr uint THREADS = 128;
constexpr uint DEPTH = 32;
constexpr uint LINE = tile_line<T, DEPTH>();
constexpr uint RUN = 16 / sizeof(T);
constexpr uint LANES = tile_lanes<T>();
constexpr uint WAVES = THREADS / LANES;
constexpr bool KEPT = LANES == 64;  // waves of 64 have rows of their own, which stay in registers
#if defined(HIPRT_TILE_FACTORS)
constexpr bool HAS_FACTORS = sizeof(T) == 2;  // of AMD's matrix instructions
#else
constexpr bool HAS_FACTORS = false;
#endif
constexpr uint DOWN = KEPT ? WAVES : ROWS * WAVES >= 256 ? 2 : 1;  // waves below each other
constexpr uint APART = KEPT ? 16 * DOWN : 16;  // rows of a wave's blocks of 16
constexpr uint LOADS = ROWS * DEPTH / RUN / THREADS;
constexpr uint HALF = DEPTH / 2;  // codes of a column that one thread unpacks
typedef tile<T, ROWS / DOWN, COLUMNS * DOWN / WAVES> Part;
threadgroup pack<T, RUN> x_tiles[2 * ROWS * LINE / RUN];
threadgroup pack<T, RUN> w_tiles[2 * COLUMNS * LINE / RUN];
threadgroup uint starts[3 * ROWS / 32];
threadgroup uint answer;
threadgroup T* x_tile = (threadgroup T*)x_tiles;
threadgroup T* w_tile = (threadgroup T*)w_tiles;
const uint index = thread_index_in_threadgroup;
const uint lane = index % LANES;
const uint down = index / LANES % DOWN * (KEPT ? 16 : ROWS / DOWN);
const uint beside = index / LANES / DOWN * (COLUMNS * DOWN / WAVES);
#endif

const stacked_rows rows{count,       lines,         given,         left_count,   left_divisor,  left_modulus,
                        right_count, right_divisor, right_modulus, left_indices, right_indices, order};
#if HIPRT_CPU_LOOPS
for (uint i = 0; i < present; i++) {
  items[i] = rows.item(first + i);
  lefts[i] = rows.vector(items[i]);
  rights[i] = rows.matrix(items[i]);
}
const uint beyond = min(uint(COLUMNS), columns - first_column);
for (uint from = 0, to; from < present; from = to) {
  const uint right = rights[from];
  for (to = from + 1; to < present && rights[to] == right;) to++;
  for (uint i = from * COLUMNS; i < to * COLUMNS; i++) sums[i] = 0.0f;
  for (uint start = 0; start < (right < right_count ? width : 0); start += PART) {
    const uint part = min(uint(PART), width - start);
    for (uint m = from; m < to; m++) {
      const device T* vector = x + size_t(lefts[m]) * width + start;
      for (uint k = 0; k < part; k += 8) store8(staged + m * PART + k, load8(vector + k));
    }
    for (uint n = 0; n < beyond; n += BESIDE) {
      for (uint j = 0; j < BESIDE; j++) {
        const size_t line = size_t(right) * columns + first_column + min(n + j, beyond - 1);
        const device uchar* packed = (const device uchar*)(weight + line * words) + start / 8 * BITS;
        for (uint k = 0; k < part; k += 8) {
          const size_t group = line * groups + (start + k) / span;
          const f32x8 codes = codes8<BITS>(packed + k / 8 * BITS);
          store8(values + j * PART + k, mad(codes, splat(float(scales[group])), splat(float(biases[group]))));
        }
      }
      for (uint m = from; m < to; m += 2) {
        const float* upper = staged + m * PART;
        const float* lower = staged + min(m + 1, to - 1) * PART;
        f32x8 dots[2 * BESIDE];
        for (uint j = 0; j < 2 * BESIDE; j++) dots[j] = splat(0.0f);
        for (uint k = 0; k < part; k += 8) {
          const f32x8 a = load8(upper + k), b = load8(lower + k);
#pragma unroll
          for (uint j = 0; j < BESIDE; j++) {
            const f32x8 w = load8(values + j * PART + k);
            dots[j] = mad(a, w, dots[j]);
            dots[BESIDE + j] = mad(b, w, dots[BESIDE + j]);
          }
        }
        for (uint j = 0; j < BESIDE; j++) {
          sums[m * COLUMNS + n + j] += sum8(dots[j]);
          if (m + 1 < to) sums[(m + 1) * COLUMNS + n + j] += sum8(dots[BESIDE + j]);
        }
      }
    }
  }
  for (uint m = from; m < to; m++) {
    device T* result = out + size_t(items[m]) * columns + first_column;
    for (uint n = 0; n < beyond; n++) result[n] = T(sums[m * COLUMNS + n]);
  }
}
#else
for (uint word = simdgroup_index_in_threadgroup; word < 3 * ROWS / 32; word += THREADS / 32) {
  const uint row = first - ROWS + word * 32 + thread_index_in_simdgroup;
  const uint bits = simd_sum(uint(rows.starts_run(row)) << thread_index_in_simdgroup);
  if (thread_index_in_simdgroup == 0) starts[word] = bits;
}
threadgroup_barrier(mem_flags::mem_threadgroup);
// Two threads unpack a column.
const uint column = index / 2;
const uint second = index % 2, half_start = second * HALF;
const uint share = SHARED ? threadgroup_position_in_grid.z : 0;
const uint tiles = width / DEPTH, each = (tiles + shares - 1) / shares;
const uint first_tile = share * each, last_tile = min(tiles, first_tile + each);
const run_pieces<ROWS> pieces{starts};
for (uint from = pieces.first(), to; from < 2 * ROWS && first + from - ROWS < count; from = to) {
  to = pieces.end(from);
  const uint start = first + from - ROWS, present = to - from;
  const uint right = rows.matrix(rows.item(start));
  const device T* vectors[LOADS];
#pragma unroll
  for (uint i = 0; i < LOADS; i++) {
    const uint piece = index + i * THREADS;
    const uint row = KEPT ? down + i * APART + lane % 16 : piece / (DEPTH / RUN);
    vectors[i] = x + size_t(rows.vector(rows.item(start + min(row, present - 1)))) * width + (KEPT ? lane / 16 : piece % (DEPTH / RUN)) * RUN;
  }
  Part part;
#pragma unroll
  for (int i = 0; i < Part::COUNT; i++) part.sums[i] = 0.0f;
  if (right < right_count) {
#if defined(HIPRT_TILE_FACTORS)
    if (HAS_FACTORS) {
      const size_t line = size_t(alike<LANES>(right)) * columns + first_column;
      const uint beyond = min(column, columns - 1 - first_column);
      const tile_weights<T, BITS> stored{
          weight + line * words,
          scales + line * groups,
          biases + line * groups,
          (beyond * words + second * (BITS / 2)) * uint(sizeof(uint)),
          beyond * groups * uint(sizeof(T)),
          second};
      T* const unpacked = w_tile + column * LINE + half_start;
      threadgroup_barrier(mem_flags::mem_threadgroup);
      if (KEPT) {
        kept_rows<T, BITS, Part, DEPTH, COLUMNS * LINE> kept{vectors, stored, span, first_tile, last_tile, unpacked, w_tile, lane};
        kept.add_to(part, alike<LANES>(present + APART - 1) / APART);
      } else {
        shared_rows<T, BITS, Part, DEPTH, LOADS, ROWS * LINE, COLUMNS * LINE> shared{
            vectors,
            stored,
            span,
            first_tile,
            last_tile,
            x_tile + index / (DEPTH / RUN) * LINE + index % (DEPTH / RUN) * RUN,
            THREADS / (DEPTH / RUN) * LINE,
            unpacked,
            x_tile + down * LINE,
            w_tile + beside * LINE,
            lane};
        shared.add_to(part);
      }
    }
#endif
    if (!HAS_FACTORS) {
      const size_t line = size_t(right) * columns + min(first_column + column, columns - 1);
      const device uint* packed = weight + line * words + second * (BITS / 2);
      // What the next tile needs of the weights is loaded before this one's products.
      sixteen_codes<BITS> codes;
      codes.load(packed + first_tile * BITS);
      const size_t group = line * groups + first_tile * DEPTH / span;
      float scale = float(scales[group]), bias = float(biases[group]);
      threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
      for (uint i = 0; i < LOADS; i++) {
        const uint piece = index + i * THREADS;
        threadgroup T* to_piece = x_tile + piece / (DEPTH / RUN) * LINE + piece % (DEPTH / RUN) * RUN;
        copy_to_tile(to_piece, vectors[i] + first_tile * DEPTH);
      }
      for (uint t = first_tile; t < last_tile; t++) {
        const uint side = (t - first_tile) & 1u;
        threadgroup T* unpacked = w_tile + (side * COLUMNS + column) * LINE + half_start;
        const sixteen_codes<BITS> first = codes.from_first(second);
#pragma unroll
        for (uint e = 0; e < HALF; e += 8) {
          float values[8];
          unpack<BITS>(values, first.words, e, scale, bias);
          store_to_tile(unpacked + e, values);
        }
        wait_for_tiles();
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (t + 1 < last_tile) {
          codes.load(packed + (t + 1) * BITS);
          scale = float(scales[line * groups + (t + 1) * DEPTH / span]);
          bias = float(biases[line * groups + (t + 1) * DEPTH / span]);
#pragma unroll
          for (uint i = 0; i < LOADS; i++) {
            const uint piece = index + i * THREADS;
            threadgroup T* to_piece = x_tile + ((side ^ 1u) * ROWS + piece / (DEPTH / RUN)) * LINE;
            copy_to_tile(to_piece + piece % (DEPTH / RUN) * RUN, vectors[i] + (t + 1) * DEPTH);
          }
        }
        part.template add<false>(
            x_tile + (side * ROWS + down) * LINE, LINE, w_tile + (side * COLUMNS + beside) * LINE, LINE, DEPTH, lane);
      }
    }
  }
  if (SHARED) {
    typedef pack<float, 4> Four;
    const uint tile = threadgroup_position_in_grid.y * ((count + ROWS - 1) / ROWS) + threadgroup_position_in_grid.x;
    device Four* const left = (device Four*)parts + size_t(tile) * (shares * Part::COUNT / 4 * THREADS);
    uint place = index;
#if HIPRT_TARGET_AMD
    asm("" : "+v"(place));  // else the places of all sums are computed before the products, and keep their registers
#endif
#pragma unroll
    for (int i = 0; i < Part::COUNT / 4; i++) {
      const Four four = {{part.sums[4 * i], part.sums[4 * i + 1], part.sums[4 * i + 2], part.sums[4 * i + 3]}};
      left[(share * (Part::COUNT / 4) + i) * THREADS + place] = four;
    }
    if (!arrives_last(arrived + tile, shares, index, &answer)) return;
#pragma unroll
    for (int i = 0; i < Part::COUNT; i++) part.sums[i] = 0.0f;
    for (uint other = 0; other < shares; other++) {
#pragma unroll
      for (int i = 0; i < Part::COUNT / 4; i++) {
        const Four four = left[(other * (Part::COUNT / 4) + i) * THREADS + place];
#pragma unroll
        for (int j = 0; j < 4; j++) part.sums[4 * i + j] += four.values[j];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < Part::COUNT; i++) {
    const uint row = Part::row(i, lane), m = down + row / 16 * APART + row % 16;
    const uint n = first_column + beside + Part::column(i, lane);
    if (m < present && n < columns) out[size_t(rows.item(start + m)) * columns + n] = rounded<T>(part.sums[i]);
  }
}
#endif
