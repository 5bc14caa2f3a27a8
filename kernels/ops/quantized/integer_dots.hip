// VECTORS vectors times the transposed quantised matrix by integer dot instructions, which multiply fields of 4 or 8 bits
// with as many digits: codes as they are in a word, or spread (`code_fields.h`). x is staged once for a threadgroup: what of
// it belongs to a piece, the codes that a lane reads at a time, is brought to integers of DIGITS digits with a sign, which
// have the bits of a field. Codes are read once for all vectors of a threadgroup, and what a vector becomes has the bits that
// it has alone.
//
// A threadgroup has a stretch of tiles of ROWS rows; TEAMS of SPLIT simdgroups take tiles in turn, and the lanes of a team
// share the pieces of a row. A lane has DEPTH pieces of each row on their way, the first before x is there.
//
// Where x does not fit threadgroup memory, a part of it at a time is there, HELD pieces of each vector: whole steps of the
// lanes, or a share of one step. Lanes keep the sums of KEPT_ROUNDS tiles from part to part, so that they add their pieces
// in the same order, and codes are read once. x is staged again for the tiles behind those.
//
// Of a stack of matrices, CHOSEN by indices: their rows behind each other for one x (GATHERED), or their widths beside each
// other, for as many stretches of x with a share each (SUMMED).
constexpr uint VALUES = PIECE_CODES<BITS, GROUP>, WORDS = VALUES * BITS / 32, LANES = VALUES / 8;  // lanes that stage a piece
constexpr uint FIELD = BITS <= 4 ? 4 : 8, DIGITS = PLANES * 4 / FIELD;
constexpr uint PACKS = VALUES * FIELD / 128;  // of a piece's digits of one place, 128 bits each
constexpr uint BESIDE = CHOICE == SUMMED ? CHOSEN : 1, EACH = WIDTH / VALUES;
constexpr uint ALL = BESIDE * EACH;  // pieces of a row
constexpr uint PACE = 32 * SPLIT;  // pieces further is a lane's next step
constexpr uint PART = HELD > 0 ? HELD : ALL, PHASES = (ALL + PART - 1) / PART;
constexpr uint OWN = (PART + PACE - 1) / PACE, PADDED = (OWN + DEPTH - 1) / DEPTH * DEPTH;  // steps of a part
constexpr uint OUTPUTS = GATED ? ROWS / 2 : ROWS;
constexpr uint MEMBERS = TEAMS * SPLIT, UNITS = BESIDE * WIDTH / 8, PART_UNITS = PART * LANES;
constexpr uint TURNS = (PART_UNITS + MEMBERS * 32 - 1) / (MEMBERS * 32), AHEAD = TURNS < 3 ? TURNS : 3;
constexpr uint TILES_EACH = (COLUMNS + OUTPUTS - 1) / OUTPUTS;  // of a gathered matrix
constexpr uint ROW_BYTES = WIDTH / 8 * BITS, ROW_SCALES = WIDTH / GROUP;
// The integers' largest magnitude, whose digits are all one less than half of their range; and the power of two above.
constexpr int LIMIT = PLANES == 4 ? (FIELD == 4 ? 0x7777 : 0x7f7f) : (FIELD == 4 ? 0x77 : 0x7f);
constexpr int ABOVE = PLANES == 4 ? 15 : 7;
typedef pack<uint, 4> piece;
threadgroup piece staged[VECTORS * DIGITS * PACKS * PART];
threadgroup piece units[VECTORS * PART];  // of a piece of x: the unit of its integers, its sum, and that of its integers
threadgroup float squares[VECTORS * MEMBERS];
constexpr uint SUMS = 2 * MEMBERS * ROWS;  // of a vector, of two rounds
threadgroup float partial[SPLIT > 1 ? VECTORS * SUMS : 1];
threadgroup uint first_rows[CHOICE != ONE ? CHOSEN : 1];  // of the chosen matrices
threadgroup float factors[CHOICE != ONE ? CHOSEN : 1];    // shares, or 0 for one that does not exist
const uint index = thread_of_group().x, lane = index % 32, member = index / 32;
const uint split = member % SPLIT, team = alike<32 * SPLIT>(member / SPLIT);
const uint group = threadgroup_position_in_grid.x;
// The last vectors lie at the end, so that some may be those before as well.
const uint first_vector = VECTORS > 1 ? min(threadgroup_position_in_grid.y * VECTORS, batch - VECTORS) : 0u;
const uint tiles = CHOICE == GATHERED ? CHOSEN * TILES_EACH : (columns + OUTPUTS - 1) / OUTPUTS;
const uint each = tiles / groups, more = tiles % groups;
const uint first_tile = group * each + min(group, more), end_tile = first_tile + each + (group < more ? 1u : 0u);
if (CHOICE != ONE) {
  for (uint e = index; e < uint(CHOSEN); e += MEMBERS * 32) {
    const uint matrix = uint(indices[e]);
    first_rows[e] = matrix < matrices ? matrix * ((GATED ? 2 : 1) * columns) : 0u;
    factors[e] = matrix >= matrices ? 0.0f : CHOICE == SUMMED ? float(shares[e]) : 1.0f;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

// What of x this thread stages comes first, because loads arrive in order.
const device piece* const vectors = (const device piece*)x + first_vector * UNITS;
piece values[AHEAD], weights[AHEAD];
const auto read_unit = [&](uint v, uint first, uint at, uint turn) {
  const uint unit = min(first + turn * (MEMBERS * 32) + index, UNITS - 1);
  values[at] = load_now(vectors + v * UNITS + unit);
  if (NORMED) weights[at] = load_now((const device piece*)norm + unit);
};
const auto read_first = [&](uint v, uint phase) {
#pragma unroll
  for (uint turn = 0; turn < AHEAD; turn++) read_unit(v, phase * PART_UNITS, turn, turn);
};
read_first(0, 0);

// Rows lie at the same distance from a tile's first, so that one offset of a lane is enough for all.
ulong code_rows[ROWS], scale_rows[ROWS];  // bytes
#pragma unroll
for (uint r = 0; r < ROWS; r++) {
  const ulong row = r < OUTPUTS ? r : columns + r - OUTPUTS;
  code_rows[r] = in_scalar(row * ROW_BYTES);
  scale_rows[r] = in_scalar(row * (ROW_SCALES * sizeof(T)));
}
// The first column of a tile. The last tile lies at the end, so that it may begin inside the one before.
const auto column_of = [&](uint tile) {
  return min((CHOICE == GATHERED ? tile % TILES_EACH : tile) * OUTPUTS, columns - OUTPUTS);
};
// Where a part of a tile begins: its row, the piece that the first step begins at, and the first and last piece that a lane
// may load. Loads are not left out: behind a branch around some of them, the hardware's count of loads is not known, and
// all are waited for. A lane without a piece loads one that another lane has; of a tile that does not exist, all lanes load
// the first piece of the last one.
constexpr uint SCALE_BYTES = ROW_SCALES * sizeof(T);
struct place {
  uint row, base, first, last;
};
const auto place_of = [&](uint tile, uint phase) {
  const uint there = min(tile, end_tile - 1), first = phase * PART;
  const uint row = column_of(there) + (CHOICE == GATHERED ? first_rows[there / TILES_EACH] : 0u);
  const uint last = PHASES == 1 ? ALL - 1 : min(first + PART, ALL) - 1;
  return place{row, first / PACE * PACE, first, tile < end_tile ? last : first};
};
words<WORDS> codes[DEPTH][ROWS];
ushort scale[DEPTH][ROWS], bias[DEPTH][ROWS];
const auto fetch = [&](uint slot, const place& from, uint step) {
  uint at = min(from.base + step * PACE + split * 32 + lane, from.last), row = from.row;
  if (PART % PACE != 0) at = max(at, from.first);
  if (CHOICE == SUMMED) {
    row += first_rows[at / EACH];
    at %= EACH;
  }
  const uint offset = row * ROW_BYTES + at * (WORDS * 4), scaled = row * SCALE_BYTES + at * VALUES / GROUP * uint(sizeof(T));
#pragma unroll
  for (uint r = 0; r < ROWS; r++) {
    codes[slot][r] = load_words<WORDS>((const device uint*)((const device char*)weight + code_rows[r] + offset));
    const device ushort* const s = (const device ushort*)((const device char*)scales + scale_rows[r] + scaled);
    const device ushort* const b = (const device ushort*)((const device char*)biases + scale_rows[r] + scaled);
    scale[slot][r] = load_now(s);
    bias[slot][r] = load_now(b);
  }
};
#pragma unroll
for (uint d = 0; d < uint(DEPTH); d++) fetch(d, place_of(first_tile + team, 0), d);
simdgroup_barrier(mem_flags::mem_none);  // which no load is put off beyond

const auto keep_square = [&](uint v, float square) {
  square = sum_of_lanes(square);
  if (lane == 0) squares[v * MEMBERS + member] = square;
};
// Brings a part of all vectors to digits; of the first one what the thread reads first has been read. The squares of a norm
// are those of a whole vector: where x is staged in parts, each thread adds up before that what it adds up elsewhere.
const auto stage = [&](uint phase) {
  const uint first = phase * PART_UNITS, there = PHASES == 1 ? UNITS : min(PART_UNITS, UNITS - first);
#pragma unroll 1
  for (uint v = 0; v < uint(VECTORS); v++) {
    if (v > 0) read_first(v, phase);
    float square = 0.0f;
#pragma unroll
    for (uint turn = 0; turn < TURNS; turn++) {
      if (turn >= AHEAD) read_unit(v, first, turn % AHEAD, turn);
      const uint unit = turn * (MEMBERS * 32) + index;
      const bool is_there = (PHASES == 1 && UNITS % (MEMBERS * 32) == 0) || unit < there;
      const piece own = values[turn % AHEAD], weigh = weights[turn % AHEAD];
      float number[8], largest = 0.0f, squared = 0.0f;
      for (uint i = 0; i < 8; i++) {
        number[i] = i % 2 ? high_of<T>(own.values[i / 2]) : low_of<T>(own.values[i / 2]);
        if (CHOICE == SUMMED) number[i] *= factors[min(first + unit, UNITS - 1) * 8 / WIDTH];
        if (NORMED) {
          if (PHASES == 1) squared = mad(number[i], number[i], squared);
          number[i] *= i % 2 ? high_of<T>(weigh.values[i / 2]) : low_of<T>(weigh.values[i / 2]);
        }
        largest = fmax(largest, abs(number[i]));
      }
      square += is_there ? squared : 0.0f;
      largest = fmax(largest, word_across<1>(largest));
      if (LANES >= 4) largest = fmax(largest, word_across<2>(largest));
      if (LANES == 8) largest = fmax(largest, word_across<4>(largest));
      // A power of two is the unit, so that most of bfloat16 is exact; integers of two planes have no bit to spare for that.
      const uint exponent = min(max(as_type<uint>(largest * (float(1 << ABOVE) / LIMIT)) >> 23, 20u), 240u);
      const bool is_coarse = PLANES == 2 && largest > 1e-30f;
      const float up = is_coarse ? float(LIMIT) / largest : as_type<float>((253u + ABOVE - exponent) << 23);
      const float step = is_coarse ? largest / float(LIMIT) : as_type<float>((exponent + 1u - ABOVE) << 23);
      // Added to 1.5 * 2^23 a number is rounded, and its integer is in the low bits. Half of each digit's range on top makes
      // digits without a sign, which get theirs by a change of their highest bits.
      constexpr uint HALVES = PLANES == 4 ? (FIELD == 4 ? 0x8888u : 0x8080u) : (FIELD == 4 ? 0x88u : 0x80u);
      constexpr uint SIGNS = HALVES | HALVES << 16;
      uint raw[8], sum = 0, top = 0;
      for (uint i = 0; i < 8; i++) {
        raw[i] = as_type<uint>(mad(number[i], up, 12582912.0f + float(HALVES)));
        sum += raw[i];
        top = max(top, raw[i]);
      }
      // What is not finite makes the piece's sum NaN, and with it every result.
      float total = top > 0x4b800000u ? as_type<float>(0x7fc00000u) : float(int(sum - 8u * (0x4b400000u + HALVES)));
      total = add_near<1>(total);
      if (LANES >= 4) total = add_near<2>(total);
      if (LANES == 8) total = add_near<4>(total);
      const uint at = unit / LANES, part = unit % LANES;
      threadgroup uint* const to = (threadgroup uint*)(staged + v * (DIGITS * PACKS * PART) + at);
      const auto put = [&](uint d, uint word, uint digits) { to[(d * PACKS + word / 4) * (4 * PART) + word % 4] = digits; };
      if (FIELD == 4) {
        // Two numbers a word; then of two words the even digits and the odd ones, and of these the bytes of a digit. Codes of
        // 2 bits have those with even numbers in the lower half of a word.
        const auto number_at = [&](uint i) { return raw[BITS == 2 ? i % 4 * 2 + i / 4 : i]; };
        uint even[2], odd[2];
        for (uint h = 0; h < 2; h++) {
          const uint a = select_bytes(number_at(4 * h + 2), number_at(4 * h), 0x05040100u) ^ SIGNS;
          const uint b = select_bytes(number_at(4 * h + 3), number_at(4 * h + 1), 0x05040100u) ^ SIGNS;
          even[h] = (a & 0x0f0f0f0fu) | (b << 4 & 0xf0f0f0f0u);
          odd[h] = (a >> 4 & 0x0f0f0f0fu) | (b & 0xf0f0f0f0u);
        }
        if (is_there || BITS == 2) {
          for (uint d = 0; d < DIGITS; d++) {
            const uint* const from = d % 2 ? odd : even;
            uint digits = select_bytes(from[1], from[0], d / 2 ? 0x07050301u : 0x06040200u);
            // Two lanes have what belongs to one word of codes: one takes the even numbers of both, the other the odd ones.
            if (BITS == 2) digits = select_bytes(digits, word_across<1>(digits), part % 2 ? 0x07060302u : 0x01000504u);
            if (is_there) put(d, part, digits);
          }
        }
      } else {
        for (uint h = 0; h < 2; h++) {
          const uint a = select_bytes(raw[4 * h + 1], raw[4 * h], 0x05040100u) ^ SIGNS;
          const uint b = select_bytes(raw[4 * h + 3], raw[4 * h + 2], 0x05040100u) ^ SIGNS;
          for (uint d = 0; d < DIGITS && is_there; d++) {
            put(d, part * 2 + h, select_bytes(b, a, d ? 0x07050301u : 0x06040200u));
          }
        }
      }
      if (is_there && part == 0) {
        units[v * PART + at] = {{as_type<uint>(step), as_type<uint>(total * step), uint(int(total) * CODE_CENTRE<BITS>), 0u}};
      }
    }
    if (NORMED && PHASES == 1) keep_square(v, square);
  }
};
float own_factors[VECTORS];
const auto find_factors = [&] {
#pragma unroll
  for (uint v = 0; v < uint(VECTORS); v++) {
    own_factors[v] = 1.0f;
    if (NORMED) {
      const float square = sum_of_lanes(lane < MEMBERS ? squares[v * MEMBERS + lane] : 0.0f);
      own_factors[v] = rsqrt(square / float(WIDTH) + eps);
    }
  }
};
if (PHASES == 1) {
  stage(0);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  find_factors();
} else if (NORMED) {
#pragma unroll 1
  for (uint v = 0; v < uint(VECTORS); v++) {
    float square = 0.0f;
#pragma unroll 1
    for (uint unit = index; unit < UNITS; unit += MEMBERS * 32) {
      const piece own = load_now(vectors + v * UNITS + unit);
      float squared = 0.0f;
      for (uint i = 0; i < 8; i++) {
        const float number = i % 2 ? high_of<T>(own.values[i / 2]) : low_of<T>(own.values[i / 2]);
        squared = mad(number, number, squared);
      }
      square += squared;
    }
    keep_square(v, square);
  }
}

// The row of a tile whose sum a lane gets, and whether it is the first lane with it. What a row gates is 8 lanes away.
const uint row = lane % 16 / (16 / ROWS);
const bool has_row = lane < 16 && lane % (16 / ROWS) == 0;
threadgroup float* const meeting = partial + (SPLIT > 1 ? member * ROWS + row : 0);
// The digits of a piece of a vector, and its unit; a lane with one piece of a row reads those of a single vector once.
constexpr bool READ_ONCE = OWN == 1 && VECTORS == 1 && PHASES == 1;
piece digits[DIGITS * PACKS], unit;
const auto read_digits = [&](uint v, uint at) {
#pragma unroll
  for (uint p = 0; p < DIGITS * PACKS; p++) digits[p] = staged[(v * (DIGITS * PACKS) + p) * PART + at];
  unit = units[v * PART + at];
};
if (READ_ONCE) read_digits(0, min(split * 32 + lane, ALL - 1));
const uint rounds = (end_tile - first_tile + TEAMS - 1) / TEAMS;
#pragma unroll 1
for (uint round = 0; round < rounds; round += KEPT_ROUNDS) {
  const uint kept = KEPT_ROUNDS == 1 ? 1 : min(uint(KEPT_ROUNDS), rounds - round), first_of_kept = first_tile + round * TEAMS + team;
  float sums[KEPT_ROUNDS][VECTORS][ROWS] = {};
#pragma unroll 1
  for (uint phase = 0; phase < PHASES; phase++) {
    if (PHASES > 1) {
      threadgroup_barrier(mem_flags::mem_threadgroup);  // behind which nobody needs the part before
      stage(phase);
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
#pragma unroll
    for (uint k = 0; k < uint(KEPT_ROUNDS); k++) {
      if (k >= kept) break;
      const uint tile = first_of_kept + k * TEAMS;
      // The same part of the next tile comes next, then the next part of the first one.
      const bool is_last_tile = k + 1 == kept;
      const uint next_phase = is_last_tile ? (phase + 1) % PHASES : phase;
      const place now = place_of(tile, phase);
      const place then = place_of(is_last_tile && phase + 1 < PHASES ? first_of_kept : tile + TEAMS, next_phase);
#pragma unroll 1
      for (uint first = 0; first < OWN; first += DEPTH) {
        const bool is_last = first + DEPTH >= PADDED;
        const place from = is_last ? then : now;  // of what is loaded meanwhile
        const uint next = is_last ? 0 : first + DEPTH;
#pragma unroll
        for (uint d = 0; d < uint(DEPTH); d++) {
          const uint at = now.base + (first + d) * PACE + split * 32 + lane;
          if (OWN % DEPTH == 0 || first + d < OWN) {
            if (PHASES == 1 ? ALL % PACE == 0 || at < ALL : at >= now.first && at <= now.last) {
#pragma unroll
              for (uint v = 0; v < uint(VECTORS); v++) {
                if (VECTORS > 1) keep_order();  // else the digits of all vectors take registers at a time
                if (!READ_ONCE) read_digits(v, at - phase * PART);
                const float step = as_type<float>(unit.values[0]), total = as_type<float>(unit.values[1]);
#pragma unroll
                for (uint r = 0; r < ROWS; r++) {
                  const auto fields = fields_of<BITS, VALUES>(codes[d][r]);
                  int dot = 0;
#pragma unroll
                  for (uint p = DIGITS; p-- > 0;) {
                    dot = (dot << FIELD) + (p == 0 ? int(unit.values[2]) : 0);
#pragma unroll
                    for (uint w = 0; w < 4 * PACKS; w++) {
                      dot = dot_codes<BITS>(fields.values[w], digits[p * PACKS + w / 4].values[w % 4], dot);
                    }
                  }
                  const float by = float(number_of_bits<T>(scale[d][r])), plus = float(number_of_bits<T>(bias[d][r]));
                  sums[k][v][r] = mad(by * step, float(dot), mad(plus, total, sums[k][v][r]));
                }
              }
            }
          }
          if (DEPTH == 1) keep_order();  // a load before what has its registers would take others, and moves
          fetch(d, from, next + d);
        }
      }
    }
    if (PHASES > 1) read_first(0, (phase + 1) % PHASES);
  }
  if (PHASES > 1) find_factors();
#pragma unroll
  for (uint k = 0; k < uint(KEPT_ROUNDS); k++) {
    if (k >= kept) break;
    const uint tile = first_of_kept + k * TEAMS;
    float found[VECTORS], others[VECTORS];
#pragma unroll
    for (uint v = 0; v < uint(VECTORS); v++) found[v] = sums_of_lanes(sums[k][v], lane);
    if (SPLIT > 1) {
      threadgroup float* const to = meeting + (round + k) % 2 * (MEMBERS * ROWS);  // in turn: one barrier is enough
#pragma unroll
      for (uint v = 0; v < uint(VECTORS); v++) {
        if (has_row) to[v * SUMS] = found[v];
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      if (split > 0) continue;
#pragma unroll
      for (uint v = 0; v < uint(VECTORS); v++) {
#pragma unroll
        for (uint s = 1; s < SPLIT; s++) found[v] += to[v * SUMS + s * ROWS];
      }
    }
#pragma unroll
    for (uint v = 0; v < uint(VECTORS); v++) others[v] = GATED ? word_across<8>(found[v]) : 0.0f;
    if (!has_row || row >= OUTPUTS || tile >= end_tile) continue;
    const uint column = column_of(tile) + row + (CHOICE == GATHERED ? tile / TILES_EACH * columns : 0u);
#pragma unroll
    for (uint v = 0; v < uint(VECTORS); v++) {
      const uint at = (first_vector + v) * columns + column;
      float value = found[v] * own_factors[v];
      if (GATED) value = value / (1.0f + exp(-value)) * (others[v] * own_factors[v]);
      if (CHOICE == GATHERED) value *= factors[tile / TILES_EACH];
      out[at] = S(ADDED ? value + float(residual[at]) : value);
    }
  }
}
