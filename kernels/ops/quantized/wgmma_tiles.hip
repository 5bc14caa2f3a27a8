// out[m][n] = sum over k of x[m][k] * (code[n][k] * scale + bias), for many rows of 16-bit numbers: the matrix instructions of
// wgmma.h multiply 128 rows of the matrix, unpacked in registers, with ROWS vectors in threadgroup memory. Two teams of four
// simdgroups take 64 rows of the matrix each; where these are GATED, the second team takes what the first team's rows gate.
// While the instructions of one step of 64 codes run, a team unpacks the next. STAGES steps are in threadgroup memory or on
// their way, across the tiles that a threadgroup takes in turn.
//
// SPLIT threadgroups share the steps of a tile. The last of them to come adds up their sums, in the steps' order.
//
// Where the vectors are GATHERED, each tile multiplies with a matrix of its own of a stack, and `order` says which row of the
// result each of its rows is, as run_tiles.hip writes it; `sharing` neighbours of these rows have one vector.
constexpr uint STEP = 64, THREADS = 256;
constexpr uint LOCALS = 128, OUTPUTS = GATED ? 64 : LOCALS;  // rows of the matrix, and columns of the result, of a tile
constexpr uint LINES = ROWS * 128, LINE = STEP * BITS / 8, STAGE = LINES + LOCALS * LINE;  // bytes; LINE: of a row's codes
constexpr uint OWN = ROWS * 8 / THREADS, OWN_CODES = LOCALS * LINE / 16 / THREADS;  // pieces that a thread brings each step
constexpr uint SUMS = ROWS / 2, BLOCKS = ROWS / 8, CHUNK = ROWS < 64 ? ROWS : 64;
constexpr uint GROUPS = GROUP < 64 ? 2 : 1;  // in a step
constexpr uint NONE = 0xffffffffu;
// With a code in the low bits of its halves, MAGIC is two numbers; plus LESS they are the codes.
constexpr bool IS_BFLOAT = hiprt::same<T, bfloat16_t>::value;
constexpr uint MAGIC = IS_BFLOAT ? 0x43004300u : 0x64006400u;
constexpr uint LESS = IS_BFLOAT ? 0xc300c300u : 0xe400e400u;
constexpr uint ONES = IS_BFLOAT ? 0x3f803f80u : 0x3c003c00u;
typedef pack<uint, 4> piece;
extern __shared__ piece held[];
threadgroup uint answer;
const uint index = thread_index_in_threadgroup, lane = index % 32, g = lane / 4, t = lane % 4;
const uint team = index / 128, member = index / 32 % 4;
const uint ring = (in_shared(held) + 1023u) / 1024 * 1024, staged = ring + STAGES * STAGE;
begin_next();
wait_for_inputs();

// What the kernel before this one writes is loaded in its place: a compiler takes it for constant, and would load it sooner.
const uint row_tiles = GATHERED ? load_now(matrices) : (count + ROWS - 1) / ROWS;
const uint tiles = (columns + OUTPUTS - 1) / OUTPUTS * row_tiles;
const uint units = tiles * SPLIT, doubles = width / (2 * STEP);
const auto first_of = [&](uint unit) { return doubles * (unit % SPLIT) / SPLIT * 2; };
const auto end_of = [&](uint unit) { return doubles * (unit % SPLIT + 1) / SPLIT * 2; };
const auto row_of = [&](uint unit) { return unit / SPLIT % row_tiles * ROWS; };
const auto column_of = [&](uint unit) { return unit / SPLIT / row_tiles * OUTPUTS; };
// The row of the result for a row of tiles; NONE where there is none.
const auto result_row = [&](uint row) { return GATHERED ? load_now(order + row) : row < count ? row : NONE; };
const auto matrix_of = [&](uint unit) { return GATHERED ? load_now(matrices + 1 + unit / SPLIT % row_tiles) : 0u; };
// The matrix's row of a tile's 128; NONE where the tile is not so wide. What a matrix that does not exist would give is not used.
const auto matrix_row = [&](uint matrix, uint column, uint local) {
  column += local % OUTPUTS;
  const uint before = GATHERED ? min(matrix, count - 1) * (LOCALS / OUTPUTS * columns) : 0;
  return column < columns ? before + column + local / OUTPUTS * columns : NONE;
};

// Steps on their way. What is not there is not brought: nothing that counts is made of it.
const uint place = (index % 8 ^ index / 8 % 8) * 16 + index / 8 * 128;
uint next_unit = threadgroup_position_in_grid.x, next_step = 0, next_end = 0, next_slot = 0;
uint lines[OWN], codes[OWN_CODES];  // pieces from the beginning of x and of the codes
const auto aim = [&]() {
  if (next_unit >= units) return;
  next_step = first_of(next_unit), next_end = end_of(next_unit);
#pragma unroll
  for (uint i = 0; i < OWN; i++) {
    const uint row = result_row(row_of(next_unit) + index / 8 + i * 32);
    lines[i] = row != NONE ? (GATHERED ? row / sharing : row) * (width / 8) + index % 8 : NONE;
  }
  const uint matrix = matrix_of(next_unit);
#pragma unroll
  for (uint i = 0; i < OWN_CODES; i++) {
    const uint at = (index + i * THREADS) * 16, row = matrix_row(matrix, column_of(next_unit), at / LINE);
    codes[i] = row != NONE ? row * (width / 128 * BITS) + at % LINE / 16 : NONE;
  }
};
const auto copy_piece = [](uint to, const device void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
};
const auto bring = [&]() {
  if (next_unit < units) {
    const uint to = ring + next_slot * STAGE;
#pragma unroll
    for (uint i = 0; i < OWN; i++) {
      if (lines[i] != NONE) copy_piece(to + place + i * 4096, (const device piece*)x + (lines[i] + next_step * (STEP / 8)));
    }
#pragma unroll
    for (uint i = 0; i < OWN_CODES; i++) {
      const uint to_codes = to + LINES + (index + i * THREADS) * 16;
      if (codes[i] != NONE) copy_piece(to_codes, (const device piece*)weight + (codes[i] + next_step * (LINE / 16)));
    }
    if (++next_step == next_end) {
      next_unit += threadgroups_per_grid.x;
      aim();
    }
  }
  end_copies();
  next_slot = next_slot + 1 == STAGES ? 0 : next_slot + 1;
};
aim();
#pragma unroll 1
for (uint i = 0; i < STAGES - 2; i++) bring();

// The two numbers of the matrix that a lane has of a word of codes.
const auto unpacked = [&](uint word, ushort scale, ushort bias) {
  const uint second = t % 2 * 0x0202u;
  if (BITS == 8 && IS_BFLOAT) {
    // A mantissa has no room for such codes.
    const float by = as_type<float>(uint(scale) << 16), plus = as_type<float>(uint(bias) << 16);
    const float low = as_type<float>(__byte_perm(word, 0x4b000000u, 0x7440u + second % 256)) - 8388608.0f;
    const float high = as_type<float>(__byte_perm(word, 0x4b000000u, 0x7441u + second % 256)) - 8388608.0f;
    return pair_of(mad(low, by, plus), mad(high, by, plus), T(0.0f));
  }
  const uint pair = BITS == 8 ? __byte_perm(word, MAGIC, 0x5150u + second)
                              : (__byte_perm(word, 0, 0x4440u + t) * 0x1001u & 0x000f000fu) | MAGIC;
  return pair_mad<T>(pair_mad<T>(pair, ONES, LESS), __byte_perm(scale, 0, 0x1010), __byte_perm(bias, 0, 0x1010));
};
const auto word_at = [](uint at) {
  uint word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(at));
  return word;
};
const auto piece_at = [](uint at) {
  piece p;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(p.values[0]), "=r"(p.values[1]), "=r"(p.values[2]), "=r"(p.values[3]) : "r"(at));
  return p;
};

uint first[16] = {}, second[16] = {};  // the matrix's numbers of two steps
ushort scale[2][GROUPS], bias[2][GROUPS];
uint slot = 0;
#pragma unroll 1
for (uint unit = threadgroup_position_in_grid.x; unit < units; unit += threadgroups_per_grid.x) {
  const uint column = column_of(unit), row = row_of(unit), begin = first_of(unit), end = end_of(unit);
  const uint matrix = matrix_of(unit);
  float sums[SUMS] = {};
  uint scales_at[2];
#pragma unroll
  for (uint i = 0; i < 2; i++) {
    const uint found = matrix_row(matrix, column, team * 64 + member * 16 + i * 8 + g);
    scales_at[i] = (found != NONE ? found : 0) * (width / GROUP);
  }
  const auto fetch_scales = [&](uint step) {
#pragma unroll
    for (uint i = 0; i < 2; i++) {
#pragma unroll
      for (uint j = 0; j < GROUPS; j++) {
        scale[i][j] = ((const device ushort*)scales)[scales_at[i] + step * STEP / GROUP + j];
        bias[i][j] = ((const device ushort*)biases)[scales_at[i] + step * STEP / GROUP + j];
      }
    }
  };
  fetch_scales(begin);
  // The instructions of the step before read `old`.
  const auto multiply = [&](uint step, uint(&numbers)[16], uint(&old)[16]) {
    wait_for_all_but<STAGES - 3>();
    show_to_matrices();
    threadgroup_barrier(mem_flags::mem_threadgroup);
    bring();
    const uint at = ring + slot * STAGE;
    const uint from = at + LINES + (team * 64 + member * 16 + g) * LINE + (BITS == 8 ? t / 2 * 4 : 0);
#pragma unroll
    for (uint i = 0; i < 16; i++) {
      const uint depth = i / 4, lower = i % 2, later = i / 2 % 2, j = GROUPS == 2 ? depth / 2 : 0;
      const uint word = word_at(from + lower * (8 * LINE) + depth * (2 * BITS) + later * BITS);
      numbers[i] = unpacked(word, scale[lower][j], bias[lower][j]);
    }
    fetch_scales(min(step + 1, end - 1));
    hold_registers(numbers);
    begin_products();
#pragma unroll
    for (uint i = 0; i < 4; i++) add_products(sums, numbers + i * 4, lines_at(at + i * 32), T(0.0f));
    end_products();
    wait_for_products<1>();
    hold_registers(old);
    slot = slot + 1 == STAGES ? 0 : slot + 1;
  };
#pragma unroll 1
  for (uint step = begin; step < end; step += 2) {
    multiply(step, first, second);
    multiply(step + 1, second, first);
  }
  wait_for_products<0>();
  hold_registers(sums);
  hold_registers(second);

  device piece* const shares = (device piece*)parts + size_t(unit / SPLIT) * (SPLIT * BLOCKS * THREADS) + index;
  if (SPLIT > 1) {
#pragma unroll
    for (uint j = 0; j < BLOCKS; j++) {
      piece share;
#pragma unroll
      for (uint i = 0; i < 4; i++) share.values[i] = as_type<uint>(sums[j * 4 + i]);
      shares[(unit % SPLIT * BLOCKS + j) * THREADS] = share;
    }
    if (!arrives_last(arrived + unit / SPLIT, SPLIT, index, &answer)) continue;
  }
  // Up to 64 vectors of the result at a time, so that neighbours in memory are written together.
#pragma unroll
  for (uint chunk = 0; chunk < ROWS / CHUNK; chunk++) {
    const auto meet = [&]() {
      if (GATED) threadgroup_barrier(mem_flags::mem_threadgroup);
      else team_barrier(team);
    };
    float whole[CHUNK / 2];
#pragma unroll
    for (uint i = 0; i < CHUNK / 2; i++) whole[i] = SPLIT > 1 ? 0.0f : sums[chunk * 32 + i];
#pragma unroll
    for (uint i = 0; i < (SPLIT > 1 ? CHUNK / 8 * SPLIT : 0); i++) {
      const uint part = i / (CHUNK / 8), block = i % (CHUNK / 8);
      piece share = {};
      if (part != unit % SPLIT) share = load_now(shares + (part * BLOCKS + chunk * 8 + block) * THREADS);
#pragma unroll
      for (uint e = 0; e < 4; e++) {
        const float own = sums[(chunk * 8 + block) * 4 + e];
        whole[block * 4 + e] += part != unit % SPLIT ? as_type<float>(share.values[e]) : own;
      }
    }
    meet();
#pragma unroll
    for (uint j = 0; j < CHUNK / 8; j += 2) {
      const float* const from = whole + j * 4;
      const uint line = (j + lane / 16) * 8 + lane % 8, turned = (member * 2 + lane / 8 % 2 ^ line % 8) * 16;
      store_turned(staged + (team * 64 + line) * 128 + turned, pair_of(from[0], from[1], T(0.0f)),
                   pair_of(from[2], from[3], T(0.0f)), pair_of(from[4], from[5], T(0.0f)), pair_of(from[6], from[7], T(0.0f)));
    }
    meet();
    constexpr uint TOGETHER = GATED ? THREADS : 128;
#pragma unroll
    for (uint i = 0; i < CHUNK * 8 / TOGETHER; i++) {
      const uint line = (index % TOGETHER + i * TOGETHER) / 8, m = result_row(row + chunk * 64 + line);
      const uint n = column + (GATED ? 0 : team * 64) + index % 8 * 8;
      const uint from = staged + line * 128 + (index % 8 ^ line % 8) * 16;
      piece values = piece_at(from + (GATED ? 0 : team * 8192));
      if (m == NONE || n >= columns) continue;
      if (GATED) {
        const piece gated = piece_at(from + 8192);
#pragma unroll
        for (uint e = 0; e < 4; e++) {
          const float low = low_of<T>(values.values[e]), high = high_of<T>(values.values[e]);
          values.values[e] = pair_of(low / (1.0f + exp(-low)) * low_of<T>(gated.values[e]),
                                     high / (1.0f + exp(-high)) * high_of<T>(gated.values[e]), T(0.0f));
        }
      }
      if (GATHERED && matrix >= count) values = piece{};
      if (ADDED) {
        const piece added = load_now((const device piece*)(residual + size_t(m) * columns + n));
#pragma unroll
        for (uint e = 0; e < 4; e++) {
          values.values[e] = pair_of(low_of<T>(added.values[e]) + low_of<T>(values.values[e]),
                                     high_of<T>(added.values[e]) + high_of<T>(values.values[e]), T(0.0f));
        }
      }
      *(device piece*)(out + size_t(m) * columns + n) = values;
    }
  }
}
