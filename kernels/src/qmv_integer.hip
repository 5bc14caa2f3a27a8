// One vector times the transposed quantised matrix by integer matrix instructions, which multiply 16 by 32 codes with
// 32 by 8 numbers. x is brought to 16 bits for each scale of the codes: two columns of the other operand, of which the
// first counts 256 times. Columns are zero where the codes have another scale, so that sums come out by scale.
//
// What counts is the time from when x is there to when the result is. Codes come by bulk copies to threadgroup memory,
// DEPTH stages of ABREAST tiles of 8 rows, while the kernel before still runs. TEAMS of SPLIT simdgroups take stages in
// turn; in a team each takes its own steps of the row, of two chunks of 64 bytes, and brings that part of x into registers.
constexpr uint CHUNK = 512 / BITS;
constexpr uint STEP = 2 * CHUNK;
constexpr uint SLOT = uint(GROUP) < CHUNK ? GROUP : CHUNK;
constexpr uint SLOTS = STEP / SLOT;                               // at most 4: two columns each
constexpr uint SPREAD = uint(GROUP) > CHUNK ? GROUP / CHUNK : 1;  // chunks with one scale
constexpr uint SCALES = SPREAD > 1 ? 2 / SPREAD : SLOTS;          // of a step
constexpr uint FIELDS = BITS == 4 ? 2 : 1;                        // registers of a word's codes, the second 16 times as much
constexpr uint STEPS = WIDTH / STEP, OWN = (STEPS + SPLIT - 1) / SPLIT;
constexpr uint OUTPUTS = GATED ? 4 : 8;  // of a tile; gated: 4 rows of each half
constexpr uint ROUND = TEAMS * ABREAST * PER;
constexpr uint MEMBERS = TEAMS * SPLIT, PACKS = STEP / 8;
constexpr uint ROW = STEPS * 32 + 16, SCALED = STEPS * SCALES;  // words and scales of a row; neighbours in other banks
constexpr uint STAGE = ABREAST * 8 * (ROW + SCALED);
typedef pack<uint, 4> piece;
extern __shared__ piece copied[];
threadgroup pack<float, 2> sums[MEMBERS * OWN * 4];  // by scale: the sum of x, and the unit of what it was brought to
threadgroup float squares[SPLIT];
threadgroup piece partial[2 * ROUND * SPLIT * 8];  // by scale
const uint lane = thread_index_in_simdgroup, g = lane / 4, t = lane % 4;
const uint member = simdgroup_index_in_threadgroup, split = member % SPLIT, team = member / SPLIT;
const uint all_tiles = columns / OUTPUTS, groups = threadgroups_per_grid.x, group = threadgroup_position_in_grid.x;
const uint each = all_tiles / groups, more = all_tiles % groups;
const uint first_tile = group * each + min(group, more), end_tile = first_tile + each + (group < more ? 1u : 0u);
const uint own_tile = first_tile + team * ABREAST;
const uint stages = own_tile < end_tile ? (end_tile - own_tile + TEAMS * ABREAST - 1) / (TEAMS * ABREAST) : 0u;
const auto row_of = [&](uint tile, uint local) {
  return GATED ? tile * 4 + local % 4 + (local >= 4 ? columns : 0u) : tile * 8 + local;
};

#if HIPRT_TARGET_NVIDIA
threadgroup ulong full[TEAMS * DEPTH], empty[TEAMS * DEPTH];
const uint ring = in_shared(copied) + team * (DEPTH * STAGE * 4);
const uint filled = in_shared(full + team * DEPTH), emptied = in_shared(empty + team * DEPTH);
if (thread_index_in_threadgroup < TEAMS * DEPTH) {
  begin_stage(in_shared(full + thread_index_in_threadgroup), 1);
  begin_stage(in_shared(empty + thread_index_in_threadgroup), SPLIT);
}
stages_begun();
threadgroup_barrier(mem_flags::mem_threadgroup);
// Bring a stage: codes by row, scales and biases by as many rows as lie together.
const auto fetch = [&](uint stage, uint slot) {
  constexpr uint BLOCKS = GATED ? ABREAST * 2 : 1;
  const uint tile = own_tile + stage * (TEAMS * ABREAST), tiles = min(uint(ABREAST), end_tile - tile);
  const uint bar = filled + slot * 8, to = ring + slot * (STAGE * 4);
  if (lane == 0) expect_bytes(bar, tiles * 8 * (STEPS * 128 + SCALED * 4));
  simdgroup_barrier(mem_flags::mem_none);
  if (lane < tiles * 8) {
    copy_bulk(to + lane * (ROW * 4), weight + size_t(row_of(tile + lane / 8, lane % 8)) * (STEPS * 32), STEPS * 128, bar);
  } else if (lane >= 16 && lane < 16 + 2 * BLOCKS) {
    const uint block = (lane - 16) / 2, local = GATED ? block * 4 : 0, rows = GATED ? 4 : tiles * 8;
    if (local < tiles * 8) {
      const size_t at = size_t(row_of(tile + local / 8, local % 8)) * SCALED;
      copy_bulk(to + ABREAST * 8 * (ROW * 4 + lane % 2 * SCALED * 2) + local * (SCALED * 2),
                lane % 2 ? biases + at : scales + at, rows * (SCALED * 2), bar);
    }
  }
};
if (split == 0) {
#pragma unroll 1
  for (uint stage = 0; stage < min(stages, uint(DEPTH)); stage++) fetch(stage, stage);
}
#endif
begin_next();
wait_for_inputs();

// Bring this simdgroup's parts of x to where its lanes find them.
threadgroup uint* const held = (threadgroup uint*)copied + TEAMS * DEPTH * STAGE + member * (OWN * 64 * FIELDS);
threadgroup pack<float, 2>* const own_sums = sums + member * (OWN * 4);
float square = 0.0f;
{
  constexpr uint RUNS = OWN < 4 ? OWN : 4;
#pragma unroll 1
  for (uint base = 0; base < OWN; base += RUNS) {
    pack<T, 8> values[RUNS], weights[RUNS];
#pragma unroll
    for (uint r = 0; r < RUNS; r++) {
      const uint step = (base + r) * SPLIT + split;
      if (lane < PACKS && step < STEPS) {
        values[r] = *(const device pack<T, 8>*)(x + step * STEP + lane * 8);
        if (NORMED) weights[r] = *(const device pack<T, 8>*)(norm + step * STEP + lane * 8);
      }
    }
#pragma unroll
    for (uint r = 0; r < RUNS; r++) {
      const bool is_there = lane < PACKS && (base + r) * SPLIT + split < STEPS;
      float v[8], largest = 0.0f, sum = 0.0f;
      for (int i = 0; i < 8; i++) {
        v[i] = is_there ? float(values[r].values[i]) : 0.0f;
        if (NORMED) {
          square = mad(v[i], v[i], square);
          v[i] = is_there ? v[i] * float(weights[r].values[i]) : 0.0f;
        }
        largest = max(largest, abs(v[i]));
        sum += v[i];
      }
      for (uint other = 1; other < SLOT / 8; other *= 2) {
        largest = max(largest, simd_shuffle_xor(largest, other));
        sum += simd_shuffle_xor(sum, other);
      }
      // The largest becomes at most 32,512: 127 times 256, so that its first part has 8 bits when rounded.
      const uint exponent = min(max(as_type<uint>(largest * 1.008f) >> 23, 20u), 240u);
      const float up = as_type<float>((268u - exponent) << 23);
      uint parts[2][2] = {};
      for (int i = 0; i < 8; i++) {
        const int whole = int(rint(v[i] * up)), first = (whole + 128) >> 8;
        const uint field = FIELDS == 2 ? i % 2 : i / 4, place = (FIELDS == 2 ? i / 2 : i % 4) * 8;
        parts[0][field] |= uint(first & 255) << place;
        parts[1][field] |= uint(whole & 255) << place;
      }
      if (is_there && base + r < OWN) {
        if (lane % (SLOT / 8) == 0) {
          own_sums[(base + r) * 4 + lane / (SLOT / 8)] = {{sum, as_type<float>((exponent - 14u - (FIELDS == 2 ? 4u : 0u)) << 23)}};
        }
        threadgroup uint* const to = held + (base + r) * (64 * FIELDS) + lane * 4;
        if (FIELDS == 2) {
          *(threadgroup piece*)to = {{parts[0][0], parts[0][1], parts[1][0], parts[1][1]}};
        } else {
          *(threadgroup piece*)to = {{parts[0][0], parts[1][0], parts[0][1], parts[1][1]}};
        }
      }
    }
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
}

// The other operand's column of this lane, which is a part of x for one scale: zeros where codes have another one.
uint b[2][4][FIELDS];
float sum = 0.0f, unit = 0.0f;
const auto load = [&](uint own) {
  const uint slot = g / 2, in_chunk = slot % (SLOTS / 2);
#pragma unroll
  for (uint chunk = 0; chunk < 2; chunk++) {
    const bool is_mine = slot < SLOTS && slot / (SLOTS / 2) == chunk && t * (SLOTS / 2) / 4 == in_chunk;
    const threadgroup uint* const from = held + own * (64 * FIELDS) + (chunk * 16 + t * 4) * (2 * FIELDS) + g % 2 * FIELDS;
#pragma unroll
    for (uint j = 0; j < 4; j++) {
      for (uint f = 0; f < FIELDS; f++) b[chunk][j][f] = is_mine ? from[j * (2 * FIELDS) + f] : 0u;
    }
  }
  const pack<float, 2> both = own_sums[own * 4 + min(t, SLOTS - 1)];
  sum = t < SLOTS ? both.values[0] : 0.0f;
  unit = t < SLOTS ? both.values[1] : 0.0f;
};
if (OWN == 1) load(0);

const uint scale_at = split * SCALES + (SPREAD > 1 ? 0u : min(t, SLOTS - 1));
uint stage = 0, slot = 0, phase = 0, turn = 0;  // sums of rounds lie in turn, so that one barrier is enough
for (uint base = first_tile; base < end_tile; base += ROUND) {
  const uint stop = min(base + ROUND, end_tile);
  threadgroup float* cell = (threadgroup float*)(partial + (turn * ROUND + team * ABREAST) * (SPLIT * 8)) + split * 32 + lane;
  for (uint tile = base + team * ABREAST; tile < stop; tile += TEAMS * ABREAST, stage++) {
    float totals[ABREAST] = {};
#if HIPRT_TARGET_NVIDIA
    // The stage before this is left by all, or soon: then it takes a new one.
    if (stage && stage - 1 + DEPTH < stages && stage % SPLIT == split) {
      const uint last = slot ? slot - 1 : DEPTH - 1;
      wait_for_stage(emptied + last * 8, slot ? phase : phase ^ 1);
      fetch(stage - 1 + DEPTH, last);
    }
    wait_for_stage(filled + slot * 8, phase);
    const threadgroup uint* const codes = in_generic<uint>(ring + slot * (STAGE * 4)) + g * ROW + split * 32 + t * 4;
    const threadgroup T* const scale = in_generic<T>(ring + slot * (STAGE * 4) + ABREAST * 8 * ROW * 4) + g * SCALED + scale_at;
    const threadgroup T* const bias = scale + ABREAST * 8 * SCALED;
#endif
#pragma unroll
    for (uint own = 0; own < OWN; own++) {
      const uint step = own * SPLIT + split;
      if (STEPS % SPLIT == 0 || step < STEPS) {
        if (OWN > 1) load(own);
        int c[FIELDS][4] = {};
#pragma unroll
        for (uint chunk = 0; chunk < 2; chunk++) {
          piece words[2] = {};
#pragma unroll
          for (uint a = 0; a < ABREAST; a++) {
#if HIPRT_TARGET_NVIDIA
            words[a] = *(const threadgroup piece*)(codes + a * (8 * ROW) + own * (SPLIT * 32) + chunk * 16);
#else
            const size_t row = row_of(min(tile + a, end_tile - 1), g);
            words[a] = *(const device piece*)(weight + row * (STEPS * 32) + step * 32 + chunk * 16 + t * 4);
#endif
          }
#pragma unroll
          for (uint j = 0; j < 4; j += 2) {
#pragma unroll
            for (uint f = 0; f < FIELDS; f++) {
              const uint mask = FIELDS == 1 ? 0xffffffffu : f ? 0xf0f0f0f0u : 0x0f0f0f0fu;
              mma_codes(c[f], words[0].values[j] & mask, words[1].values[j] & mask, words[0].values[j + 1] & mask,
                        words[1].values[j + 1] & mask, b[chunk][j][f], b[chunk][j + 1][f]);
            }
          }
        }
#pragma unroll
        for (uint a = 0; a < ABREAST; a++) {
          int dot = c[0][2 * a] * 256 + c[0][2 * a + 1];
          if (FIELDS == 2) dot = dot * 16 + c[FIELDS - 1][2 * a] * 256 + c[FIELDS - 1][2 * a + 1];
#if HIPRT_TARGET_NVIDIA
          const float by = float(scale[a * (8 * SCALED) + own * (SPLIT * SCALES)]);
          const float plus = float(bias[a * (8 * SCALED) + own * (SPLIT * SCALES)]);
#else
          const size_t at = size_t(row_of(min(tile + a, end_tile - 1), g)) * SCALED + own * (SPLIT * SCALES) + scale_at;
          const float by = float(scales[at]), plus = float(biases[at]);
#endif
          totals[a] = mad(by * unit, float(dot), totals[a]);
          totals[a] = mad(plus, sum, totals[a]);
        }
      }
    }
#if HIPRT_TARGET_NVIDIA
    simdgroup_barrier(mem_flags::mem_none);
    if (lane == 0) leave_stage(emptied + slot * 8);
    slot += 1;
    if (slot == uint(DEPTH)) {
      slot = 0;
      phase ^= 1;
    }
#endif
#pragma unroll
    for (uint a = 0; a < ABREAST; a++) cell[a * (SPLIT * 32)] = totals[a];
    cell += TEAMS * ABREAST * SPLIT * 32;
  }
  if (NORMED && base == first_tile && team == 0) {
    square = simd_sum(square);
    if (lane == 0) squares[split] = square;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = thread_index_in_threadgroup; i < (stop - base) * OUTPUTS; i += MEMBERS * 32) {
    const uint output = i % OUTPUTS, tile = i / OUTPUTS;
    const threadgroup pack<float, 4>* const from =
        (const threadgroup pack<float, 4>*)partial + (turn * ROUND + tile) * (SPLIT * 8) + output;
    float value = 0.0f, other = 0.0f, squared = 0.0f;
#pragma unroll
    for (uint s = 0; s < SPLIT && s < STEPS; s++) {
      for (uint k = 0; k < SLOTS; k++) value += from[s * 8].values[k];
      for (uint k = 0; GATED && k < SLOTS; k++) other += from[s * 8 + 4].values[k];
      if (NORMED) squared += squares[s];
    }
    const float factor = NORMED ? rsqrt(squared / float(WIDTH) + eps) : 1.0f;
    value *= factor;
    if (GATED) value = value / (1.0f + exp(-value)) * (other * factor);
    const uint column = (base + tile) * OUTPUTS + output;
    out[column] = S(ADDED ? value + float(residual[column]) : value);
  }
  turn ^= 1;
}
