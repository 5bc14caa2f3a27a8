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
//
// This body says what follows what; the files `dot_*.h` say what each of it is, and have all sizes. What a lane has in
// registers are arrays of the body, because the compiler makes more instructions where they are members of a struct.
// x as `stage_unit` leaves it, the squares of the norm, and the sums that simdgroups leave.
threadgroup quad staged[VECTORS * DIGITS * PACKS * PART];
threadgroup quad pieces[VECTORS * PART];
threadgroup float squares[VECTORS * MEMBERS];
threadgroup float partial[SPLIT > 1 ? VECTORS * SUMS : 1];
threadgroup uint first_rows[CHOICE != ONE ? CHOSEN : 1];  // of the chosen matrices
threadgroup float factors[CHOICE != ONE ? CHOSEN : 1];    // shares, or 0 for one that does not exist
const uint index = thread_of_group().x, lane = index % 32, member = index / 32;
const uint split = member % SPLIT, team = alike<32 * SPLIT>(member / SPLIT);
const uint group = threadgroup_position_in_grid.x;
// The last vectors lie at the end, so that some may be those before as well.
const uint first_vector = VECTORS > 1 ? min(threadgroup_position_in_grid.y * VECTORS, batch - VECTORS) : 0u;
// The threadgroup's stretch of tiles.
const uint count = CHOICE == GATHERED ? CHOSEN * TILES_EACH : (columns + OUTPUTS - 1) / OUTPUTS;
const uint each = count / groups, more = count % groups;
const uint first_tile = group * each + min(group, more), end_tile = first_tile + each + (group < more ? 1u : 0u);
// The matrices of a stack.
if (CHOICE != ONE) {
  for (uint e = index; e < uint(CHOSEN); e += THREADS) {
    const uint matrix = uint(indices[e]);
    first_rows[e] = matrix < matrices ? matrix * ((GATED ? 2 : 1) * columns) : 0u;
    factors[e] = matrix >= matrices ? 0.0f : CHOICE == SUMMED ? float(shares[e]) : 1.0f;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

// What of x this thread stages comes first, because loads arrive in order.
const device quad* const vectors = (const device quad*)x + first_vector * UNITS;
quad values[AHEAD], weights[AHEAD];
const auto read = [&](uint v, uint first, uint at, uint turn) {
  const uint unit = min(first + turn * THREADS + index, UNITS - 1);
  values[at] = load_now(vectors + v * UNITS + unit);
  if (NORMED) weights[at] = load_now((const device quad*)norm + unit);
};
const auto read_first = [&](uint v, uint phase) {
#pragma unroll
  for (uint turn = 0; turn < AHEAD; turn++) read(v, phase * PART_UNITS, turn, turn);
};
read_first(0, 0);

// The first steps of the first tile come next, and are on their way while x is staged.
ulong code_rows[ROWS], scale_rows[ROWS];
find_rows(code_rows, scale_rows, columns);
const auto place = [&](uint tile, uint phase) { return place_of(tile, phase, end_tile, columns, first_rows); };
words<WORDS> codes[DEPTH][ROWS];
ushort scale[DEPTH][ROWS], bias[DEPTH][ROWS];
const auto load = [&](uint slot, const dot_place& from, uint step) {
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
for (uint d = 0; d < uint(DEPTH); d++) load(d, place(first_tile + team, 0), d);
simdgroup_barrier(mem_flags::mem_none);  // which no load is put off beyond

// Of a norm, what a thread has of a vector's squares; where x is staged in parts, these are added up before that.
const auto keep_square = [&](uint v, float square) {
  square = sum_of_lanes(square);
  if (lane == 0) squares[v * MEMBERS + member] = square;
};
// Stages a part of all vectors; of the first one what the thread reads first has been read.
const auto stage = [&](uint phase) {
  const uint first = phase * PART_UNITS, there = PHASES == 1 ? UNITS : min(PART_UNITS, UNITS - first);
#pragma unroll 1
  for (uint v = 0; v < uint(VECTORS); v++) {
    if (v > 0) read_first(v, phase);
    float square = 0.0f;
#pragma unroll
    for (uint turn = 0; turn < TURNS; turn++) {
      if (turn >= AHEAD) read(v, first, turn % AHEAD, turn);
      const uint unit = turn * THREADS + index;
      const bool is_there = (PHASES == 1 && UNITS % THREADS == 0) || unit < there;
      const float share = CHOICE == SUMMED ? factors[min(first + unit, UNITS - 1) * 8 / WIDTH] : 1.0f;
      float number[8], largest = 0.0f, squared = 0.0f;
      weigh(number, largest, squared, values[turn % AHEAD], weights[turn % AHEAD], share);
      square += is_there ? squared : 0.0f;
      stage_unit(staged, pieces, v, unit, is_there, number, largest);
    }
    if (NORMED && PHASES == 1) keep_square(v, square);
  }
};
float norms[VECTORS];
const auto find_norms = [&] {
#pragma unroll
  for (uint v = 0; v < uint(VECTORS); v++) {
    norms[v] = 1.0f;
    if (NORMED) norms[v] = norm_of(squares + v * MEMBERS, lane, eps);
  }
};
if (PHASES == 1) {
  stage(0);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  find_norms();
} else if (NORMED) {
#pragma unroll 1
  for (uint v = 0; v < uint(VECTORS); v++) keep_square(v, squares_of(vectors + v * UNITS, index));
}

const uint row = row_of(lane);
const bool has_row = is_first_of_row(lane);
threadgroup float* const meeting = partial + (SPLIT > 1 ? member * ROWS + row : 0);
// The digits of a piece of a vector, and what is known of it. A lane with one piece of a row reads them once if the vector is
// the only one.
constexpr bool READ_ONCE = OWN == 1 && VECTORS == 1 && PHASES == 1;
quad digits[DIGITS * PACKS], piece;
const auto read_digits = [&](uint v, uint at) {
#pragma unroll
  for (uint p = 0; p < DIGITS * PACKS; p++) digits[p] = staged[(v * (DIGITS * PACKS) + p) * PART + at];
  piece = pieces[v * PART + at];
};
if (READ_ONCE) read_digits(0, min(split * 32 + lane, ALL - 1));
const uint rounds = (end_tile - first_tile + TEAMS - 1) / TEAMS;
#pragma unroll 1
for (uint round = 0; round < rounds; round += KEPT_ROUNDS) {
  const uint kept = KEPT_ROUNDS == 1 ? 1 : min(uint(KEPT_ROUNDS), rounds - round);
  const uint first_of_kept = first_tile + round * TEAMS + team;
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
      const dot_place now = place(tile, phase);
      const dot_place then = place(is_last_tile && phase + 1 < PHASES ? first_of_kept : tile + TEAMS, next_phase);
#pragma unroll 1
      for (uint first = 0; first < OWN; first += DEPTH) {
        const bool is_last = first + DEPTH >= PADDED;
        const dot_place from = is_last ? then : now;  // of what is loaded meanwhile
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
#pragma unroll
                for (uint r = 0; r < ROWS; r++) {
                  const auto fields = fields_of<BITS, VALUES>(codes[d][r]);
                  sums[k][v][r] = add_product(sums[k][v][r], fields, scale[d][r], bias[d][r], digits, piece);
                }
              }
            }
          }
          if (DEPTH == 1) keep_order();  // a load before what has its registers would take others, and moves
          load(d, from, next + d);
        }
      }
    }
    if (PHASES > 1) read_first(0, (phase + 1) % PHASES);
  }
  if (PHASES > 1) find_norms();
#pragma unroll
  for (uint k = 0; k < uint(KEPT_ROUNDS); k++) {
    if (k >= kept) break;
    const uint tile = first_of_kept + k * TEAMS;
    float found[VECTORS], others[VECTORS];
#pragma unroll
    for (uint v = 0; v < uint(VECTORS); v++) found[v] = sums_of_lanes(sums[k][v], lane);
    if (SPLIT > 1) {
      threadgroup float* const to = meeting + (round + k) % 2 * (MEMBERS * ROWS);  // in turn: one barrier is enough
      leave_sums(to, found, has_row);
      threadgroup_barrier(mem_flags::mem_threadgroup);
      if (split > 0) continue;
      add_simdgroups(found, to);
    }
#pragma unroll
    for (uint v = 0; v < uint(VECTORS); v++) others[v] = GATED ? word_across<8>(found[v]) : 0.0f;
    if (!has_row || row >= OUTPUTS || tile >= end_tile) continue;
    const uint column = column_of(tile, columns) + row + (CHOICE == GATHERED ? tile / TILES_EACH * columns : 0u);
#pragma unroll
    for (uint v = 0; v < uint(VECTORS); v++) {
      const uint at = (first_vector + v) * columns + column;
      float value = result_of(found[v], others[v], norms[v]);
      if (CHOICE == GATHERED) value *= factors[tile / TILES_EACH];
      out[at] = S(ADDED ? value + float(residual[at]) : value);
    }
  }
}
