// Up to 8 vectors times the transposed quantised matrix by matrix instructions, which multiply 16 by 16 codes with 16 by 8
// numbers: 16 rows of the matrix (gated: 8 of each half) with all vectors. Codes of one scale are multiplied together; their
// sums are then multiplied with the scale, and the sum of their x with the bias.
//
// Every simdgroup has a ring of DEPTH stages in threadgroup memory of its own, a step of 256 codes of each row in a stage,
// filled by asynchronous copies that begin before x is there. SPLIT simdgroups share the steps of a tile of rows, TEAMS of
// them take tiles side by side, and TURNS times another one. All of x is kept as it is multiplied: eight neighbours in the
// order in which a word's codes come apart.
constexpr uint STEPS = WIDTH / 256, OWN = (STEPS + SPLIT - 1) / SPLIT;  // of a row, and of a simdgroup
constexpr uint SLOTS = WIDTH / GROUP, SCALES = 256 / GROUP;             // scales of a row, and of a step
constexpr uint MEMBERS = TEAMS * SPLIT, OUTPUTS = GATED ? 8 : 16;       // results of a tile
constexpr uint CODES = 16 * 8, SCALED = 16 * SCALES * 2 / 16, STAGE = CODES + 2 * SCALED;  // pieces
constexpr uint LINE = WIDTH / 8 + (GROUP >= 64 ? 1 : 4);                // pieces of a vector, apart in the banks
typedef pack<uint, 4> piece;
extern __shared__ piece held[];
threadgroup float squares[MEMBERS * 8];
const uint lane = thread_index_in_simdgroup, g = lane / 4, t = lane % 4;
const uint member = simdgroup_index_in_threadgroup, split = member % SPLIT, team = member / SPLIT;
const uint groups = threadgroups_per_grid.x, group = threadgroup_position_in_grid.x;
const uint all_tiles = (columns + OUTPUTS - 1) / OUTPUTS;
threadgroup float* const sums = (threadgroup float*)(held + 8 * LINE);  // of x, by scale and vector
threadgroup piece* const weights = held + 8 * LINE + SLOTS * 2;          // of the norm
constexpr uint BEFORE = 8 * LINE + SLOTS * 2 + (NORMED ? WIDTH / 8 : 0);  // pieces before the stages
threadgroup piece* const stages = held + BEFORE + member * (DEPTH * STAGE);
const auto tile_of = [&](uint turn) { return (turn * groups + group) * TEAMS + team; };
const auto row_of = [&](uint tile, uint local) {
  const uint row = min(tile * OUTPUTS + local % OUTPUTS, columns - 1);
  return GATED && local >= 8 ? row + columns : row;
};
// Pieces of a row lie where the lanes that read those of four rows together find them in different banks.
const auto swizzle = [](uint row) { return (row & 3) << 1 | (row >> 2 & 1); };
// The lane brings a piece each of four rows, and the scales or the biases of one.
const device uint* codes[4];
const device ushort* scaled_from;
const uint place = lane / 8 * 8 + (lane % 8 ^ swizzle(lane / 8));
uint next_turn = 0, next_own = 0, next_stage = 0;
bool is_any;  // of the tile whose steps come next
const auto find = [&]() {
  const uint tile = tile_of(next_turn);
  is_any = next_turn < uint(TURNS) && tile < all_tiles;
#pragma unroll
  for (uint i = 0; i < 4; i++) {
    codes[i] = weight + size_t(row_of(tile, i * 4 + lane / 8)) * (STEPS * 32) + split * 32 + lane % 8 * 4;
  }
  scaled_from = (const device ushort*)(lane < 16 ? scales : biases) + size_t(row_of(tile, lane % 16)) * SLOTS + split * SCALES;
};
find();
const auto issue = [&]() {
  if (is_any && (SPLIT == 1 || next_own * SPLIT + split < STEPS)) {
    threadgroup piece* const stage = stages + next_stage * STAGE;
#pragma unroll
    for (uint i = 0; i < 4; i++) {
      // Four rows further the swizzle differs in its lowest bit.
      copy_later<16>(stage + i * 32 + (i % 2 ? place ^ 1 : place), codes[i] + next_own * (SPLIT * 32));
    }
    copy_later<SCALES * 2>((threadgroup ushort*)(stage + CODES) + lane * SCALES, scaled_from + next_own * (SPLIT * SCALES));
  }
  end_copies();
  next_stage = next_stage + 1 == uint(DEPTH) ? 0 : next_stage + 1;
  if (++next_own == OWN) {
    next_own = 0;
    next_turn++;
    if (TURNS > 1) find();
    if (TURNS == 1) is_any = false;
  }
};
#if HIPRT_TARGET_NVIDIA
threadgroup ulong arrived[1];
const uint bar = in_shared(arrived);
if (thread_index_in_threadgroup == 0) {
  begin_stage(bar, 1);
  stages_begun();
}
#endif
begin_next();
#pragma unroll
for (uint i = 0; i < uint(DEPTH); i++) issue();
threadgroup_barrier(mem_flags::mem_threadgroup);
wait_for_inputs();
#if HIPRT_TARGET_NVIDIA
if (thread_index_in_threadgroup == 0) {
  expect_bytes(bar, (batch + (NORMED ? 1 : 0)) * (WIDTH * 2));
  for (uint v = 0; v < batch; v++) copy_bulk(in_shared(held + v * LINE), x + size_t(v) * WIDTH, WIDTH * 2, bar);
  if (NORMED) copy_bulk(in_shared(weights), norm, WIDTH * 2, bar);
}
wait_for_stage(bar, 0);
#else
for (uint i = thread_index_in_threadgroup; i < WIDTH / 8; i += MEMBERS * 32) {
  for (uint v = 0; v < batch; v++) held[v * LINE + i] = ((const device piece*)(x + size_t(v) * WIDTH))[i];
  if (NORMED) weights[i] = ((const device piece*)norm)[i];
}
threadgroup_barrier(mem_flags::mem_threadgroup);
#endif

// x becomes what is multiplied. A simdgroup takes what has one scale, four times eight neighbours of each vector at a time; a
// lane has those of vector g. The sums of squares are the diagonal of a product of x with itself.
float square[4] = {};
const uint one = pair_of(T(1.0f), T(1.0f));
#pragma unroll 2
for (uint slot = member; slot < SLOTS; slot += MEMBERS) {
  float c[4] = {};
#pragma unroll
  for (uint i = 0; i < uint(GROUP) / 32; i++) {
    const uint at = slot * (GROUP / 8) + i * 4 + t;
    piece v = {{0, 0, 0, 0}};
    if (g < batch) v = held[g * LINE + at];
    if (NORMED) {
      mma<T>(square, v.values[0], 0, v.values[1], 0, v.values[0], v.values[1]);
      mma<T>(square, v.values[2], 0, v.values[3], 0, v.values[2], v.values[3]);
      const piece by = weights[at];
      for (int j = 0; j < 4; j++) v.values[j] = pair_product<T>(v.values[j], by.values[j]);
    }
    v = {{low_pair(v.values[0], v.values[2]), high_pair(v.values[0], v.values[2]), low_pair(v.values[1], v.values[3]),
          high_pair(v.values[1], v.values[3])}};
    held[g * LINE + at] = v;
    mma<T>(c, one, one, one, one, v.values[0], v.values[1]);
    mma<T>(c, one, one, one, one, v.values[2], v.values[3]);
  }
  if (g == 0) *(threadgroup pack<float, 2>*)(sums + slot * 8 + 2 * t) = {{c[0], c[1]}};
}
if (NORMED && g / 2 == t) squares[member * 8 + g] = g % 2 ? square[1] : square[0];
threadgroup_barrier(mem_flags::mem_threadgroup);

// Where this lane finds its numbers of a block of 64 codes: two words, and as many pieces of x.
const auto beside = [&](uint i) { return uint(GROUP) >= 64 ? 2 * t + i : 4 * i + t; };
constexpr uint PARTS = GROUP >= 64 ? 1 : 2;  // scales of a block
constexpr float POWER = numbers<T>::POWER;   // codes are read as this power of two plus the code, which the bias takes off
uint places[4];  // of the words of row g, the second of which is beside the first or in the piece beside
#pragma unroll
for (uint q = 0; q < 4; q++) {
  const uint first = q * 8 + beside(0);
  places[q] = (g * 8 + (first / 4 ^ swizzle(g))) * 4 + first % 4;
}
float factors[2] = {1.0f, 1.0f};
if (NORMED) {
#pragma unroll
  for (uint e = 0; e < 2; e++) {
    float all = 0.0f;
    for (uint m = 0; m < MEMBERS; m++) all += squares[m * 8 + 2 * t + e];
    factors[e] = rsqrt(all / float(WIDTH) + eps);
  }
}
const auto write = [&](float value, uint column, uint vector) {
  const size_t to = size_t(vector) * columns + column;
  if (vector < batch && column < columns) out[to] = S(ADDED ? value + float(residual[to]) : value);
};
const auto gated = [](float gate, float up) { return gate / (1.0f + exp(-gate)) * up; };
uint stage_at = 0;
#pragma unroll 1
for (uint turn = 0; turn < uint(TURNS); turn++) {
  float totals[4] = {};
  const uint tile = tile_of(turn);
#pragma unroll 1
  for (uint own = 0; own < OWN; own++) {
    const uint step = own * SPLIT + split;
    wait_for_all_but<DEPTH - 1>();
    simdgroup_barrier(mem_flags::mem_threadgroup);
    if (step < STEPS && tile < all_tiles) {
      const threadgroup piece* const stage = stages + stage_at * STAGE;
      const threadgroup piece* const beside_x = held + g * LINE + step * 32;
      float c[4 * PARTS][4] = {};
#pragma unroll
      for (uint pair = 0; pair < 4; pair += 2) {  // of blocks, whose instructions do not wait for one another
        uint words[2][2][2];                      // of rows g and g + 8
        piece numbers_x[2][2];
#pragma unroll
        for (uint q = 0; q < 2; q++) {
#pragma unroll
          for (uint i = 0; i < 2; i++) numbers_x[q][i] = beside_x[(pair + q) * 8 + beside(i)];
#pragma unroll
          for (uint r = 0; r < 2; r++) {
            const threadgroup uint* const from = (const threadgroup uint*)(stage + r * 64) + places[pair + q];
            if (PARTS == 1) {
              const pack<uint, 2> both = *(const threadgroup pack<uint, 2>*)from;
              words[q][0][r] = both.values[0];
              words[q][1][r] = both.values[1];
            } else {
              words[q][0][r] = from[0];
              words[q][1][r] = ((const threadgroup uint*)(stage + r * 64))[places[pair + q] ^ 4];
            }
          }
        }
#pragma unroll
        for (uint i = 0; i < 2; i++) {
          uint low[2][4], high[2][4];
#pragma unroll
          for (uint q = 0; q < 2; q++) {
            numbers_of<T, 4>(words[q][i][0], low[q]);
            numbers_of<T, 4>(words[q][i][1], high[q]);
          }
#pragma unroll
          for (uint j = 0; j < 4; j += 2) {
#pragma unroll
            for (uint q = 0; q < 2; q++) {
              mma<T>(c[(pair + q) * PARTS + i % PARTS], low[q][j], high[q][j], low[q][j + 1], high[q][j + 1],
                     numbers_x[q][i].values[j], numbers_x[q][i].values[j + 1]);
            }
          }
        }
      }
      pack<ushort, SCALES> scale[2], bias[2];
#pragma unroll
      for (uint r = 0; r < 2; r++) {
        scale[r] = ((const threadgroup pack<ushort, SCALES>*)(stage + CODES))[g + 8 * r];
        bias[r] = ((const threadgroup pack<ushort, SCALES>*)(stage + CODES))[16 + g + 8 * r];
      }
#pragma unroll
      for (uint slot = 0; slot < SCALES; slot++) {
        constexpr uint BLOCKS = 4 * PARTS / SCALES;  // sums of one scale
        const pack<float, 2> sum = *(const threadgroup pack<float, 2>*)(sums + (step * SCALES + slot) * 8 + 2 * t);
#pragma unroll
        for (uint r = 0; r < 2; r++) {
          const float by = float(as_type<T>(scale[r].values[slot]));
          const float less = mad(-POWER, by, float(as_type<T>(bias[r].values[slot])));
#pragma unroll
          for (uint e = 0; e < 2; e++) {
            float dot = c[slot * BLOCKS][2 * r + e];
            if (BLOCKS > 1) dot += c[slot * BLOCKS + BLOCKS - 1][2 * r + e];
            totals[2 * r + e] = mad(less, sum.values[e], mad(by, dot, totals[2 * r + e]));
          }
        }
      }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    issue();
    stage_at = stage_at + 1 == uint(DEPTH) ? 0 : stage_at + 1;
  }
  if (SPLIT == 1) {
#pragma unroll
    for (uint e = 0; e < 2; e++) {
      const float first = totals[e] * factors[e], second = totals[2 + e] * factors[e];
      if (GATED) {
        write(gated(first, second), tile * 8 + g, 2 * t + e);
      } else {
        write(first, tile * 16 + g, 2 * t + e);
        write(second, tile * 16 + 8 + g, 2 * t + e);
      }
    }
  } else {  // one turn; the stages are free
    threadgroup float* const partial = (threadgroup float*)stages;
#pragma unroll
    for (uint e = 0; e < 4; e++) partial[(2 * t + e % 2) * 16 + g + e / 2 * 8] = totals[e] * factors[e % 2];
  }
}
if (SPLIT > 1) {
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const threadgroup float* const partial = (const threadgroup float*)(held + BEFORE);
  for (uint i = thread_index_in_threadgroup; i < TEAMS * OUTPUTS * 8; i += MEMBERS * 32) {
    const uint local = i % OUTPUTS, vector = i / OUTPUTS % 8, of = i / (OUTPUTS * 8);
    float value = 0.0f, other = 0.0f;
    for (uint s = 0; s < SPLIT; s++) {
      const threadgroup float* const from = partial + (of * SPLIT + s) * (DEPTH * STAGE * 4) + vector * 16 + local;
      value += from[0];
      if (GATED) other += from[8];
    }
    write(GATED ? gated(value, other) : value, (group * TEAMS + of) * OUTPUTS + local, vector);
  }
}
