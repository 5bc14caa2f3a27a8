// Up to 16 vectors times the transposed quantised matrix by matrix instructions of whole waves: one factor is the vectors, the
// other 16 rows of the matrix, a block, whose codes a lane unpacks in the registers in which the instruction takes them. A
// matrix is read and unpacked once for all vectors.
//
// A threadgroup has BLOCKS blocks; of a gate, half of them are what gates the other half. Its waves take chunks of the width
// in turn, DEPTH steps each, which are on their way together. A step has one scale a row: what an instruction adds up for it
// is multiplied with the scale behind it. Of SPLIT threadgroups that share the width, the last one to finish adds up what all
// left, in the order of their numbers.
constexpr uint LANES = TILE_WAVE, WAVES = SIMDGROUPS * 32 / LANES, THREADS = SIMDGROUPS * 32;
// Values of a row; less where a lane has all that an instruction takes of a row, so that registers are enough.
constexpr uint STEP = GROUP < 64 || TILE_RUN == TILE_DEPTH ? 32 : 64;
constexpr uint OWN = STEP * TILE_RUN / TILE_DEPTH, RUNS = OWN / 8;   // of a lane: values, and runs of eight
constexpr uint WORDS = OWN * BITS / 32, REGISTERS = coded<T, BITS>::REGISTERS, REPEATS = coded<T, BITS>::HALVES ? 2 : 1;
constexpr uint FIELD = coded<T, BITS>::FIELD, MASK = FIELD == 4 ? 0x000f000fu : 0x00ff00ffu;
constexpr uint EACH = TILE_RUN / 2, FACTORS = WORDS * REGISTERS / EACH;  // of a step: registers of a factor, and factors
constexpr uint MEMBERS = SPLIT * WAVES;  // waves that share the width
constexpr uint STEPS = WIDTH / STEP, ROUNDS = (STEPS + MEMBERS * DEPTH - 1) / (MEMBERS * DEPTH);
constexpr uint OUTPUTS = GATED ? BLOCKS / 2 : BLOCKS, SUMS = TILE_SUMS * LANES;  // blocks of columns, and sums of a block
constexpr uint ROW_BYTES = WIDTH / 8 * BITS, ROW_SCALES = WIDTH / GROUP;
typedef pack<uint, WORDS <= 4 ? WORDS : 4> words;
typedef pack<uint, 4> eight;
constexpr uint LEFT = BLOCKS * SUMS + (NORMED ? 16 : 0);  // of a wave or a threadgroup: its sums, and each vector's squares
threadgroup float partial[WAVES * LEFT];
threadgroup uint answer;
const uint index = thread_of_group().x, lane = index % LANES, wave = alike<LANES>(index / LANES);
const uint group = threadgroup_position_in_grid.x, share = SPLIT > 1 ? threadgroup_position_in_grid.y : 0u;
const uint member = share * WAVES + wave, first_column = group * (OUTPUTS * 16);

// Where a lane's values of a step begin: in its vector, and in its row of each block. Lanes beyond the last have the last.
const uint start = TILE_RUN < TILE_DEPTH ? lane / 16 * OWN : 0u;
const uint vector_at = (min(lane % 16, batch - 1) * WIDTH + start) * uint(sizeof(T)), norm_at = start * uint(sizeof(T));
uint codes_at[BLOCKS], scales_at[BLOCKS];  // bytes
#pragma unroll
for (uint b = 0; b < uint(BLOCKS); b++) {
  const uint column = min(first_column + b % OUTPUTS * 16 + lane % 16, columns - 1), row = column + b / OUTPUTS * columns;
  codes_at[b] = row * ROW_BYTES + start / 8 * BITS;
  scales_at[b] = row * (ROW_SCALES * uint(sizeof(T)));
}
eight values[DEPTH][RUNS], weights[DEPTH][NORMED ? RUNS : 1];
uint codes[DEPTH][BLOCKS][WORDS];
ushort scale[DEPTH][BLOCKS], bias[DEPTH][BLOCKS];
const auto fetch = [&](uint slot, uint step) {
  const uint there = min(step, STEPS - 1);
  // The same for all lanes, which keeps the rest of an address in 32 bits.
  const device char* const from = (const device char*)weight + in_scalar(there * (STEP / 8 * BITS));
  const ulong group = in_scalar(there * STEP / GROUP * uint(sizeof(T)));
  const ulong at = in_scalar(there * (STEP * uint(sizeof(T))));
#pragma unroll
  for (uint b = 0; b < uint(BLOCKS); b++) {
    constexpr uint COUNT = sizeof(words) / 4;
#pragma unroll
    for (uint i = 0; i < WORDS; i += COUNT) {
      const words loaded = *(const device words*)(from + codes_at[b] + i * 4);
#pragma unroll
      for (uint j = 0; j < COUNT; j++) codes[slot][b][i + j] = loaded.values[j];
    }
    scale[slot][b] = *(const device ushort*)((const device char*)scales + group + scales_at[b]);
    bias[slot][b] = *(const device ushort*)((const device char*)biases + group + scales_at[b]);
  }
#pragma unroll
  for (uint i = 0; i < RUNS; i++) {
    values[slot][i] = *(const device eight*)((const device char*)x + at + vector_at + i * 16);
    if (NORMED) weights[slot][i] = *(const device eight*)((const device char*)norm + at + norm_at + i * 16);
  }
};

// What a lane has of a factor, of registers from one on.
const auto factor_of = [](const uint* from) {
  block_factor made;
#pragma unroll
  for (uint i = 0; i < EACH; i++) made.values[i] = from[i];
  return made;
};
// Ones add up the values of x; of what is there twice, one counts.
uint one[EACH];
#pragma unroll
for (uint i = 0; i < EACH; i++) one[i] = i % REPEATS == 0 ? pair_of(T(1.0f), T(1.0f)) : 0u;
const block_factor ones = factor_of(one);
block_sums sums[BLOCKS] = {}, squared = {};
const uint power = power_of<T>();
const auto multiply = [&](uint slot) {
  uint own[FACTORS * EACH], raw[RUNS * 4];
#pragma unroll
  for (uint run = 0; run < RUNS; run++) {
    const eight given = values[slot][run], weigh = weights[slot][NORMED ? run : 0];
    float number[8];
#pragma unroll
    for (uint i = 0; i < 4; i++) {
      raw[run * 4 + i] = given.values[i];
      number[2 * i] = low_of<T>(given.values[i]) * low_of<T>(weigh.values[i]);
      number[2 * i + 1] = high_of<T>(given.values[i]) * high_of<T>(weigh.values[i]);
    }
    // Two values whose codes are in one register lie APART.
    constexpr uint APART = 16 / BITS;
#pragma unroll
    for (uint i = 0; i < 4; i++) {
      const uint from = i / APART * 2 * APART + i % APART, to = from + APART;
      const uint pair = NORMED ? rounded_pair<T>(number[from], number[to])
                               : select_bytes(given.values[to / 2], given.values[from / 2], i % 2 ? 0x07060302u : 0x05040100u);
      own[(run * 4 + i) * REPEATS] = pair;
      // bfloat16, whose upper half the product is.
      if (REPEATS == 2) own[(run * 4 + i) * REPEATS + 1] = upper_pair(16.0f * low_of<T>(pair), 16.0f * high_of<T>(pair));
    }
  }
  if (NORMED) {
#pragma unroll
    for (uint f = 0; f < RUNS * 4; f += EACH) squared = block_product<T>(factor_of(raw + f), factor_of(raw + f), squared);
  }
  block_sums totals = {};
#pragma unroll
  for (uint f = 0; f < FACTORS; f++) totals = block_product<T>(factor_of(own + f * EACH), ones, totals);
#pragma unroll
  for (uint b = 0; b < uint(BLOCKS); b++) {
    keep_order();  // else the numbers of all blocks take registers at a time
    uint pairs[FACTORS * EACH];
#pragma unroll
    for (uint i = 0; i < WORDS; i++) {
#pragma unroll
      for (uint j = 0; j < REGISTERS; j++) pairs[i * REGISTERS + j] = (codes[slot][b][i] >> (j * FIELD) & MASK) | power;
    }
    block_sums part = {};
#pragma unroll
    for (uint f = 0; f < FACTORS; f++) part = block_product<T>(factor_of(own + f * EACH), factor_of(pairs + f * EACH), part);
    const float by = float(number_of_bits<T>(scale[slot][b])), plus = float(number_of_bits<T>(bias[slot][b]));
    sums[b] = add_times(add_times(sums[b], part, by), totals, mad(-coded<T, BITS>::OFFSET, by, plus));
  }
};
#pragma unroll
for (uint d = 0; d < uint(DEPTH); d++) fetch(d, member * DEPTH + d);
// The last round has nothing to load; steps that are not there are loaded like the last one, and not multiplied.
const auto turn = [&](uint round, bool is_last) {
#pragma unroll
  for (uint d = 0; d < uint(DEPTH); d++) {
    const uint step = (round * MEMBERS + member) * DEPTH + d;
    if (STEPS % (MEMBERS * DEPTH) == 0 || step < STEPS) multiply(d);
    keep_order();  // a load before what has its registers would take others
    if (!is_last) fetch(d, step + MEMBERS * DEPTH);
  }
};
#pragma unroll 1
for (uint round = 0; round + 1 < ROUNDS; round++) turn(round, false);
turn(ROUNDS - 1, true);

// Waves meet: each thread adds up what all have of some sums.
#pragma unroll
for (uint b = 0; b < uint(BLOCKS); b++) {
#pragma unroll
  for (int i = 0; i < TILE_SUMS; i++) partial[wave * LEFT + (b * TILE_SUMS + i) * LANES + lane] = sums[b][i];
}
if (NORMED) {
#pragma unroll
  for (int i = 0; i < TILE_SUMS; i++) {
    if (sum_row(i, lane) == lane % 16) partial[wave * LEFT + BLOCKS * SUMS + lane % 16] = squared[i];
  }
}
threadgroup_barrier(mem_flags::mem_threadgroup);
const auto added_up = [](const auto* left, uint count, uint at) {
  float sum = 0.0f;
  for (uint i = 0; i < count; i++) sum += left[i * LEFT + at];
  return sum;
};
const device float* const shares = parts + group * (SPLIT * LEFT);
if (SPLIT > 1) {
  for (uint at = index; at < LEFT; at += THREADS) parts[(group * SPLIT + share) * LEFT + at] = added_up(partial, WAVES, at);
  if (!arrives_last(arrived + group, SPLIT, index, &answer)) return;
}
const auto whole = [&](uint at) { return SPLIT > 1 ? added_up(shares, SPLIT, at) : added_up(partial, WAVES, at); };
for (uint at = index; at < OUTPUTS * SUMS; at += THREADS) {
  const uint vector = sum_row(at / LANES % TILE_SUMS, at % LANES), column = first_column + at / SUMS * 16 + at % 16;
  if (vector >= batch || column >= columns) continue;
  const float factor = NORMED ? rsqrt(whole(BLOCKS * SUMS + vector) / float(WIDTH) + eps) : 1.0f;
  float value = whole(at) * factor;
  if (GATED) value = value / (1.0f + exp(-value)) * (whole(OUTPUTS * SUMS + at) * factor);
  const uint to = vector * columns + column;
  out[to] = S(ADDED ? value + float(residual[to]) : value);
}
